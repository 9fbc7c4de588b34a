//! What this process knows of its own entries, so that a renewal need not ask and a release finds everything.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock::Moment;
use crate::sync::Mutex;

/// A lease that an entry is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) id: i64,
    /// As the server gave it.
    pub(super) ttl: Duration,
    /// The time at which it was last asked for, or kept alive.
    pub(super) sent: Moment,
}

impl Lease {
    /// Returns what is left of it.
    fn left(&self, now: Moment) -> Duration {
        self.sent.plus(self.ttl).remaining(now)
    }
}

/// An entry that holds its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// The revision at which the entry was created.
    pub(super) created: i64,
    /// The revision of the transaction that made it the holder: its fencing token. No entry behind it can have a
    /// smaller one, because its own transaction comes after this one is gone.
    pub(super) granted: i64,
    pub(super) lease: Lease,
}

#[derive(Debug, Default)]
struct Page {
    /// Every lease that was asked for and not revoked since, whether the server gave it or not.
    asked: Vec<Lease>,
    /// Those of them whose request was not answered: it may yet arrive.
    unanswered: Vec<i64>,
    /// Once the entry holds the key.
    held: Option<Held>,
}

/// How long after the end of the last lease a page is kept: nobody comes back for it.
const KEPT: Duration = Duration::from_secs(60);

/// The ledger has so many pages before those that ran out are looked for.
const SWEEP_FROM: usize = 1_024;

/// The leases of this process, by the stored key of their entry.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    pages: HashMap<Vec<u8>, Page>,
    sweep_at: usize,
}

impl Ledger {
    /// Notes a lease that is about to be asked for: a release must find it, also when the answer is lost.
    pub(super) fn ask(&self, stored: &[u8], lease: Lease) {
        let mut pages = self.0.lock();
        pages.sweep(lease.sent);
        let page = pages.pages.entry(stored.to_vec()).or_default();
        page.asked.push(lease);
        page.unanswered.push(lease.id);
    }

    /// Notes that the server gave the lease `id`.
    pub(super) fn given(&self, stored: &[u8], id: i64) {
        if let Some(page) = self.0.lock().pages.get_mut(stored) {
            page.unanswered.retain(|unanswered| *unanswered != id);
        }
    }

    /// Notes that the entry holds the key.
    pub(super) fn hold(&self, stored: &[u8], held: Held) {
        let mut pages = self.0.lock();
        let page = pages.pages.entry(stored.to_vec()).or_default();
        page.asked.retain(|asked| asked.id != held.lease.id);
        page.asked.push(held.lease);
        page.held = Some(held);
    }

    /// Notes that the lease of an entry was kept alive, whether it holds the key or waits.
    pub(super) fn kept(&self, stored: &[u8], lease: Lease) {
        let mut pages = self.0.lock();
        let Some(page) = pages.pages.get_mut(stored) else { return };
        if let Some(held) = page.held.as_mut().filter(|held| held.lease.id == lease.id) {
            held.lease = lease;
        }
        page.asked.iter_mut().filter(|asked| asked.id == lease.id).for_each(|asked| *asked = lease);
    }

    /// Returns what is known of the entry that was `created` at this revision, if it holds the key.
    pub(super) fn held(&self, stored: &[u8], created: i64) -> Option<Held> {
        self.0.lock().pages.get(stored)?.held.filter(|held| held.created == created)
    }

    /// Returns what is known of the lease `id`.
    pub(super) fn lease(&self, stored: &[u8], id: i64) -> Option<Lease> {
        self.0.lock().pages.get(stored)?.asked.iter().find(|lease| lease.id == id).copied()
    }

    /// Returns the leases of an entry other than `bound` that the server gave: a request that binds the entry to one of
    /// them may be under way. None was sent for a lease whose own request was not answered.
    pub(super) fn strays(&self, stored: &[u8], bound: i64) -> Vec<i64> {
        self.0.lock().pages.get(stored).map_or_else(Vec::new, |page| page.strays(bound).collect())
    }

    /// Returns whether the entry is known to hold the key on the lease `id`, and no request can bind it to another.
    pub(super) fn is_settled(&self, stored: &[u8], id: i64) -> bool {
        let pages = self.0.lock();
        let Some(page) = pages.pages.get(stored) else { return false };
        page.held.is_some_and(|held| held.lease.id == id) && page.strays(id).next().is_none()
    }

    /// Returns whether the lease that the entry is known to have ends later than `lease`.
    pub(super) fn outlives(&self, stored: &[u8], created: i64, lease: Lease, now: Moment) -> bool {
        self.held(stored, created).is_some_and(|held| held.lease.left(now) > lease.left(now))
    }

    /// Returns the ids of all leases of an entry.
    pub(super) fn ids(&self, stored: &[u8]) -> Vec<i64> {
        let pages = self.0.lock();
        pages
            .pages
            .get(stored)
            .map_or_else(Vec::new, |page| page.asked.iter().map(|lease| lease.id).collect())
    }

    /// Notes that the server has no lease `id`. One that was asked for and not answered is kept: its request may arrive
    /// later, and the release is repeated.
    pub(super) fn missing(&self, stored: &[u8], id: i64) {
        let unanswered = self.0.lock().pages.get(stored).is_some_and(|page| page.unanswered.contains(&id));
        if !unanswered {
            self.revoked(stored, id);
        }
    }

    /// Forgets a lease that is revoked.
    pub(super) fn revoked(&self, stored: &[u8], id: i64) {
        let mut pages = self.0.lock();
        let Some(page) = pages.pages.get_mut(stored) else { return };
        page.asked.retain(|lease| lease.id != id);
        page.unanswered.retain(|unanswered| *unanswered != id);
        page.held = page.held.filter(|held| held.lease.id != id);
        if page.asked.is_empty() {
            pages.pages.remove(stored);
        }
    }

    /// Forgets an entry that is released, but for what may yet arrive.
    pub(super) fn forget(&self, stored: &[u8]) {
        let mut pages = self.0.lock();
        let Some(page) = pages.pages.get_mut(stored) else { return };
        page.held = None;
        let Page { asked, unanswered, .. } = page;
        asked.retain(|lease| unanswered.contains(&lease.id));
        if asked.is_empty() {
            pages.pages.remove(stored);
        }
    }
}

impl Page {
    fn strays(&self, bound: i64) -> impl Iterator<Item = i64> + '_ {
        let given = self.asked.iter().map(|lease| lease.id).filter(|id| !self.unanswered.contains(id));
        given.filter(move |id| *id != bound)
    }
}

impl Pages {
    /// Drops the pages of leases that have run out, as those of a claim whose process lost it and never released it.
    fn sweep(&mut self, now: Moment) {
        if self.pages.len() < self.sweep_at.max(SWEEP_FROM) {
            return;
        }
        let lives = |lease: &Lease| !lease.sent.plus(lease.ttl + KEPT).is_past(now);
        self.pages.retain(|_, page| page.asked.iter().any(lives));
        self.sweep_at = self.pages.len().saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    fn lease(id: i64, ttl: u64) -> Lease {
        Lease { id, ttl: Duration::from_secs(ttl), sent: Clock::Suspend.now() }
    }

    #[test]
    fn every_lease_that_was_asked_for_is_found_until_it_is_revoked() {
        let ledger = Ledger::default();
        ledger.ask(b"a/1", lease(1, 4));
        ledger.ask(b"a/1", lease(2, 60));
        ledger.ask(b"a/1", lease(3, 60));
        [1, 2].iter().for_each(|id| ledger.given(b"a/1", *id));
        [3, 9].iter().for_each(|id| ledger.missing(b"a/1", *id));
        assert_eq!(ledger.ids(b"a/1"), [1, 2, 3], "it may yet arrive");
        ledger.revoked(b"a/1", 3);
        ledger.hold(b"a/1", Held { created: 77, granted: 78, lease: lease(2, 60) });
        assert_eq!(ledger.ids(b"a/1"), [1, 2]);
        assert_eq!(ledger.held(b"a/1", 77).map(|held| (held.granted, held.lease.id)), Some((78, 2)));
        assert_eq!(ledger.held(b"a/1", 76), None, "another entry of the same name");
        ledger.revoked(b"a/1", 1);
        assert_eq!((ledger.ids(b"a/1"), ledger.held(b"a/1", 77).is_some()), (vec![2], true));
        ledger.revoked(b"a/1", 2);
        assert_eq!((ledger.ids(b"a/1"), ledger.held(b"a/1", 77)), (Vec::new(), None));
        assert!(ledger.0.lock().pages.is_empty());
    }

    /// A lease that was given and that the entry is not bound to unsettles it: a request may yet bind it to that one.
    #[test]
    fn an_entry_is_settled_while_it_can_be_bound_to_one_lease_alone() {
        let ledger = Ledger::default();
        let held = |id| Held { created: 77, granted: 78, lease: lease(id, 10) };
        assert!(!ledger.is_settled(b"a/1", 1), "nothing is known");
        ledger.ask(b"a/1", lease(1, 10));
        ledger.given(b"a/1", 1);
        assert!(!ledger.is_settled(b"a/1", 1), "it is not known to hold the key");
        ledger.hold(b"a/1", held(1));
        assert!(ledger.is_settled(b"a/1", 1) && !ledger.is_settled(b"a/1", 2));
        ledger.ask(b"a/1", lease(2, 12));
        assert!(ledger.is_settled(b"a/1", 1), "nothing is bound to a lease before it is given");
        ledger.given(b"a/1", 2);
        assert!(!ledger.is_settled(b"a/1", 1));
        assert_eq!((ledger.strays(b"a/1", 1), ledger.strays(b"a/1", 2)), (vec![2], vec![1]));
        // The request for it was executed, or it was given back.
        ledger.revoked(b"a/1", 1);
        ledger.hold(b"a/1", held(2));
        assert!(ledger.is_settled(b"a/1", 2));
        assert_eq!(ledger.strays(b"b/1", 0), []);
    }

    #[test]
    fn a_lease_that_was_kept_alive_may_outlive_a_longer_one() {
        let ledger = Ledger::default();
        let start = Clock::Suspend.now();
        let kept = |after| Lease { sent: start.plus(Duration::from_secs(after)), ..lease(1, 10) };
        let longer = Lease { sent: start, ..lease(2, 12) };
        assert!(!ledger.outlives(b"a/1", 77, longer, start), "nothing is known");
        for (after, expected) in [(0, false), (2, false), (3, true)] {
            ledger.hold(b"a/1", Held { created: 77, granted: 78, lease: kept(after) });
            assert_eq!(ledger.outlives(b"a/1", 77, longer, start), expected, "kept alive after {after} s");
        }
        assert!(!ledger.outlives(b"a/1", 76, longer, start), "another entry of the same name");
    }

    /// The page of a waiter that gives signs of life stays, however long it waits.
    #[test]
    fn what_is_kept_alive_is_not_dropped() {
        let ledger = Ledger::default();
        let start = Clock::Suspend.now();
        for stored in [b"kept", b"gone"] {
            ledger.ask(stored, Lease { sent: start, ..lease(1, 4) });
            ledger.given(stored, 1);
        }
        let after = |seconds| start.plus(Duration::from_secs(seconds));
        ledger.kept(b"kept", Lease { sent: after(3_599), ..lease(1, 4) });
        for number in 0..SWEEP_FROM {
            ledger.ask(&number.to_be_bytes(), Lease { sent: after(3_600), ..lease(1, 10) });
        }
        assert_eq!((ledger.ids(b"kept"), ledger.ids(b"gone")), (vec![1], vec![]));
    }

    #[test]
    fn what_ran_out_long_ago_is_dropped() {
        let ledger = Ledger::default();
        for number in 0..SWEEP_FROM {
            ledger.ask(&number.to_be_bytes(), lease(1, 10));
        }
        let later = Lease { sent: Clock::Suspend.now().plus(Duration::from_secs(3_600)), ..lease(2, 10) };
        ledger.ask(b"live", later);
        let left = ledger.0.lock().pages.len();
        assert_eq!((left, ledger.ids(b"live")), (1, vec![2]));
    }
}
