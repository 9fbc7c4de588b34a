//! How long a process may keep a grant that others want.

use std::time::Duration;

use crate::clock::Moment;

/// How many hand-offs a process may make on one grant while others wait elsewhere, and for how long.
const HANDOFFS: u32 = 64;
const QUANTUM: Duration = Duration::from_millis(10);

/// What is left of a process's hand-offs on one grant. Without waiters elsewhere there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Quantum {
    /// Since when others are known to wait elsewhere, and how many hand-offs were made since.
    contended: Option<(Moment, u32)>,
}

impl Quantum {
    /// Notes that others wait elsewhere. The quantum begins with that news, not with the grant.
    pub(super) fn contend(&mut self, now: Moment) {
        self.contended.get_or_insert((now, 0));
    }

    pub(super) fn is_contended(self) -> bool {
        self.contended.is_some()
    }

    pub(super) fn is_over(self, now: Moment) -> bool {
        self.contended.is_some_and(|(began, handoffs)| handoffs >= HANDOFFS || now.since(began) >= QUANTUM)
    }

    pub(super) fn count_handoff(&mut self) {
        if let Some((_, handoffs)) = &mut self.contended {
            *handoffs += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn a_quantum_ends_by_handoffs_or_by_time_once_others_wait() {
        let start = Clock::Suspend.now();
        let at = |ms| start.plus(Duration::from_millis(ms));
        let mut quantum = Quantum::default();
        for _ in 0..10 * HANDOFFS {
            quantum.count_handoff();
        }
        assert!(!quantum.is_over(at(60_000)), "nobody else waits");
        quantum.contend(at(60_000));
        assert!(!quantum.is_over(at(60_009)) && quantum.is_over(at(60_010)), "it begins with the news");
        quantum.contend(at(60_009));
        assert!(quantum.is_over(at(60_010)), "the first news counts");

        let mut quantum = Quantum::default();
        quantum.contend(start);
        for _ in 1..HANDOFFS {
            quantum.count_handoff();
        }
        assert!(!quantum.is_over(start));
        quantum.count_handoff();
        assert!(quantum.is_over(start));
    }
}
