//! The sessions of this process. A session is a lease that all entries with the same ttl share. There is one session
//! for each ttl in use.
//!
//! **When a grant ends.** A lease lives for its whole ttl, counted from the time at which its last answered keep-alive
//! was sent. Every entry bound to the lease lives as long. So an entry that is bound to the lease later is granted for
//! the rest of the lease, and not for the ttl. If more than [a quarter](oldest) of the lease is over, a keep-alive is
//! sent together with the request that binds the entry. So while the cluster answers, a grant has at least three
//! quarters of its ttl.
//!
//! **What keeps a lease alive.** Both the renewals of locks and the waiters keep the lease of their entries alive. Each
//! renewal and each waiter needs a recent keep-alive. Concurrent callers share one keep-alive. An unused lease expires.
//! If a waiter is not polled for a whole ttl (at least four seconds), its entry is deleted, because a separate lease
//! would have expired in that time.
//!
//! **When a lease is retired.** If a request that creates an entry is not answered, the request may be executed late,
//! after the owner has released the key. So the lease of such a request is *retired*: no other entry is bound to this
//! lease. The locks under the retired lease move to another lease at their next renewal. Then the retired lease is
//! revoked, or it expires. The same applies to a release that is not answered. A request that only binds an existing
//! entry to a lease does not retire the lease: after the entry was written or deleted, such a request has no effect.
//!
//! When a lease is lost, all its entries are lost too. Their owners are notified together, and the next lock gets
//! another lease.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::error::Failure;
use crate::backend::remote::SingleFlight;
use crate::clock::{Clock, Moment};
use crate::sync::Mutex;

/// How long a caller waits for the session that another caller begins.
const PATIENCE: Duration = Duration::from_secs(2);

/// A lease that all entries with its ttl share.
pub(super) struct Session {
    pub(super) id: i64,
    /// The ttl that was requested.
    pub(super) asked: Duration,
    /// The ttl that the server granted.
    pub(super) ttl: Duration,
    /// The last answered keep-alive. From the time when it was sent, the lease lives for `ttl`, whichever member leads.
    proof: Mutex<Proof>,
    pub(super) rounds: SingleFlight<Result<(), Failure>>,
    /// Whether an unanswered request may still take effect under this lease.
    retired: AtomicBool,
    /// Whether the lease has ended at the server, or is about to end.
    over: AtomicBool,
}

#[derive(Clone)]
pub(super) struct Proof {
    pub(super) sent: Moment,
    /// The stored keys that were bound to the lease, according to a read after `sent`; `None` if that read failed.
    pub(super) keys: Option<Arc<HashSet<Vec<u8>>>>,
}

/// The sessions of a store.
#[derive(Default)]
pub(super) struct Sessions {
    /// The sessions; the latest is the last.
    all: Mutex<Vec<Arc<Session>>>,
    /// The requests for new leases that are in flight, by ttl.
    grants: Mutex<HashMap<Duration, Arc<Grants>>>,
}

pub(super) type Grants = SingleFlight<Result<Arc<Session>, Failure>>;

/// Returns the current time of the clock by which leases are counted.
pub(super) fn now() -> Moment {
    Clock::Suspend.now()
}

/// Returns how old the last keep-alive of a lease may be when an entry is bound to it, or when a waiter's lease is
/// checked.
pub(super) fn oldest(ttl: Duration) -> Duration {
    ttl / 4
}

/// Returns how old the last keep-alive of a lease may be when a lock under it is renewed. A lock is renewed after a
/// third of its lease, so all locks share one keep-alive.
pub(super) fn renewed(ttl: Duration) -> Duration {
    ttl / 6
}

impl Session {
    pub(super) fn new(id: i64, ttl: Duration, sent: Moment) -> Self {
        Self {
            id,
            asked: ttl,
            ttl,
            proof: Mutex::new(Proof { sent, keys: None }),
            // The last argument is how long a caller waits for the keep-alive of another caller, whose runtime may be
            // blocked. A second keep-alive does no harm.
            rounds: SingleFlight::new(Duration::ZERO, ttl / 8),
            retired: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// Returns when the last answered keep-alive was sent.
    fn sent(&self) -> Moment {
        self.proof.lock().sent
    }

    /// Returns how long an entry under this lease lives, counted from `at`. This subtracts 1 % of the time since the
    /// last keep-alive, because the server's clock may run faster.
    pub(super) fn left(&self, at: Moment) -> Duration {
        left(self.sent(), self.ttl, at)
    }

    pub(super) fn is_usable(&self, at: Moment) -> bool {
        !self.is_retired() && self.left(at) > self.ttl / 4
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Returns whether no other entry may be bound to this lease.
    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire) || self.is_over()
    }

    /// Marks that an unanswered request may still take effect under this lease.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// Marks that the lease has ended at the server, or is about to end. Returns whether it was already marked.
    pub(super) fn end(&self) -> bool {
        self.over.swap(true, Ordering::AcqRel)
    }

    /// Records an answered keep-alive, except if a later keep-alive is recorded already.
    pub(super) fn prove(&self, proof: Proof) {
        self.proof.with(|latest| {
            if latest.sent.is_past(proof.sent) {
                *latest = proof;
            }
        });
    }

    /// Returns whether the last keep-alive was sent after `bound`, and its read did not find `key` under the lease. At
    /// `bound`, the key was bound to the lease.
    pub(super) fn lacks(&self, key: &[u8], bound: Moment) -> bool {
        let proof = self.proof.lock();
        bound.is_past(proof.sent) && proof.keys.as_ref().is_some_and(|keys| !keys.contains(key))
    }

    pub(super) fn is_younger(&self, age: Duration) -> bool {
        now().since(self.sent()) <= age
    }
}

/// Returns how much of a lease is left at `at`. The last keep-alive was sent at `sent`.
fn left(sent: Moment, ttl: Duration, at: Moment) -> Duration {
    sent.plus(ttl).remaining(at).saturating_sub(at.since(sent) / 100)
}

impl Sessions {
    pub(super) fn usable(&self, asked: Duration) -> Option<Arc<Session>> {
        let at = now();
        let all = self.all.lock();
        all.iter().rev().find(|session| session.asked == asked && session.is_usable(at)).cloned()
    }

    pub(super) fn grants(&self, asked: Duration) -> Arc<Grants> {
        let mut grants = self.grants.lock();
        grants.retain(|_, grants| Arc::strong_count(grants) > 1);
        let new = || Arc::new(SingleFlight::new(Duration::ZERO, PATIENCE));
        Arc::clone(grants.entry(asked).or_insert_with(new))
    }

    pub(super) fn add(&self, session: Arc<Session>) {
        self.all.lock().push(session);
    }

    /// Removes and returns the sessions for which `ends` is true. Also removes the sessions that have ended.
    pub(super) fn take(&self, ends: impl Fn(&Session) -> bool) -> Vec<Arc<Session>> {
        let at = now();
        let mut all = self.all.lock();
        let lives = |session: &Arc<Session>| !session.is_over() && !session.left(at).is_zero();
        let (taken, stay) = all.drain(..).filter(lives).partition(|session| ends(session));
        *all = stay;
        taken
    }
}

/// Draws the random id of a lease from the operating system, because two children of one process must not draw the same
/// id.
pub(super) fn lease_id() -> i64 {
    getrandom::u64().map_or_else(|_| fastrand::i64(1..), |random| (random >> 1).cast_signed().max(1))
}

/// A request in flight that creates or deletes an entry under a session. Dropping this value before the answer retires
/// the session.
pub(super) struct UnderWay<'a>(Option<&'a Session>);

impl<'a> UnderWay<'a> {
    pub(super) fn begin(session: Option<&'a Session>) -> Self {
        Self(session)
    }

    /// Records that the request was answered, or certainly not executed.
    pub(super) fn answered(mut self) {
        self.0 = None;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.0 {
            session.retire();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    #[test]
    fn a_grant_ends_with_the_lease_and_not_after_a_ttl() {
        let sent = now();
        let after = |seconds| sent.plus(Duration::from_secs(seconds));
        let session = Session::new(1, TTL, sent);
        for (at, expected) in [(0, 10_000), (2, 7_980), (9, 910), (10, 0), (20, 0)] {
            assert_eq!(session.left(after(at)), Duration::from_millis(expected), "{at}");
        }
        assert!(session.is_usable(after(7)) && !session.is_usable(after(8)), "too little is left of it");
        session.prove(Proof { sent: after(6), keys: None });
        assert_eq!(session.left(after(8)), Duration::from_millis(7_980), "it was kept alive");
        session.prove(Proof { sent: after(3), keys: None });
        assert_eq!(session.left(after(8)), Duration::from_millis(7_980), "an answer came late");
    }

    #[test]
    fn a_request_without_an_answer_retires_its_lease() {
        let session = Session::new(1, TTL, now());
        UnderWay::begin(Some(&session)).answered();
        assert!(session.is_usable(now()));
        drop(UnderWay::begin(Some(&session)));
        assert!(session.is_retired() && !session.is_usable(now()));
    }

    #[test]
    fn a_key_is_missed_only_by_a_round_that_came_after_it_was_bound() {
        let (session, before) = (Session::new(1, TTL, now()), now());
        assert!(!session.lacks(b"a", before), "nobody has looked");
        let sent = before.plus(Duration::from_secs(1));
        let keys = Some(Arc::new(HashSet::from([b"b".to_vec()])));
        session.prove(Proof { sent, keys });
        let later = sent.plus(Duration::from_secs(1));
        assert!(session.lacks(b"a", before) && !session.lacks(b"b", before) && !session.lacks(b"a", later));
    }
}
