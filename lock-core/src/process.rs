//! Whether this is the process that made the manager, or a forked child of it.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::clock::Moment;
use crate::owner::Identity;

/// A fork takes longer than this, in nanoseconds, until its child runs: 54 us at least, measured with a process of one
/// page.
const SHORTEST_FORK: i64 = 10_000;

/// Tells the process of a manager from its forked children, which have its memory, but not its threads and not its
/// locks.
///
/// Asking the system for the process id costs a tenth of a cycle over memory, and every step of a lock asks. So an
/// answer counts until a child that was forked right after it could run.
#[derive(Debug)]
pub(crate) struct OwnProcess {
    identity: &'static Identity,
    /// When the system last said that this is the process.
    seen: AtomicI64,
}

impl OwnProcess {
    pub(crate) fn new(identity: &'static Identity) -> Self {
        Self { identity, seen: AtomicI64::new(i64::MIN) }
    }

    /// Returns whether this is the process that made the manager. `now` is a clock that was just read.
    pub(crate) fn is_here(&self, now: Moment) -> bool {
        let (now, _) = now.parts();
        if is_recent(self.seen.load(Ordering::Relaxed), now) {
            return true;
        }
        let here = self.identity.is_this_process();
        if here {
            self.seen.store(now, Ordering::Relaxed);
        }
        here
    }
}

/// Returns whether a child that was forked after `seen` cannot run at `now`. A clock that stands still, as in a test,
/// proves nothing.
fn is_recent(seen: i64, now: i64) -> bool {
    (1..SHORTEST_FORK).contains(&now.saturating_sub(seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_for_less_than_a_fork_takes() {
        let table = [(0, 0, false), (0, 1, true), (0, SHORTEST_FORK - 1, true), (0, SHORTEST_FORK, false)];
        for (seen, now, recent) in table {
            assert_eq!(is_recent(seen, now), recent, "{seen} {now}");
            assert_eq!(is_recent(seen + 7, now + 7), recent, "{seen} {now}");
        }
        assert!(!is_recent(5, 4), "read by another thread, later than this one's clock");
        assert!(!is_recent(i64::MIN, 0) && !is_recent(i64::MIN, i64::MAX), "never seen");
    }

    #[test]
    fn another_process_is_told_apart_once_the_last_answer_is_old() {
        let at = |nanos| Moment::from_parts((nanos, nanos));
        let own = OwnProcess::new(Identity::of_this_process("").kept());
        assert!(own.is_here(at(1_000_000)));
        let mut child = own;
        child.identity = Identity::of_another_process().kept();
        assert!(child.is_here(at(1_000_000 + SHORTEST_FORK - 1)), "no child runs yet");
        assert!(!child.is_here(at(1_000_000 + SHORTEST_FORK)));
        assert!(
            !child.is_here(at(1_000_001 + SHORTEST_FORK)),
            "and an answer of `no` is not taken for one of `yes`"
        );
    }
}
