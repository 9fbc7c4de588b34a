//! The leases that released locks have left, for the next claims of the process: a lease that is granted or revoked is a
//! write that most of the members' disks must have.
//!
//! Nobody renews a spare lease, so it ends by itself unless it is taken soon. It is taken with the time from which it
//! counts, and whoever takes it has so much less of it.

use std::collections::HashMap;
use std::time::Duration;

use super::ledger::Lease;
use crate::clock::Moment;

/// How many there are at most. The further ones are revoked.
const MOST: usize = 256;

/// Spare leases. No key is bound to any of them, and no request that could bind one or end it is under way.
#[derive(Debug, Default)]
pub(super) struct Spares {
    /// Those that may be taken; the one that was left last comes last.
    free: Vec<Lease>,
    /// Those that were taken and have not ended since, by the page of the entry that has each now.
    taken: HashMap<i64, Vec<u8>>,
}

/// How much of a lease may be over at most when it is taken, however long it is.
const OLDEST: Duration = Duration::from_secs(15);

/// The longest lease that is kept: one that nobody takes is there until it ends by itself.
const LONGEST: Duration = Duration::from_secs(300);

/// Returns how much of a lease of `ttl` may be over when it is taken: as much as leaves time for a renewal.
pub(super) fn oldest(ttl: Duration) -> Duration {
    OLDEST.min(ttl / 4)
}

impl Spares {
    /// Keeps a lease for the next claim. Returns whether there is room for it, and enough of it left.
    pub(super) fn keep(&mut self, lease: Lease, now: Moment) -> bool {
        self.drop_old(now);
        if self.free.len() >= MOST || lease.ttl > LONGEST || !is_young(&lease, now) {
            return false;
        }
        self.taken.remove(&lease.id);
        self.free.push(lease);
        true
    }

    /// Takes a lease of the length `ttl`, of which at most `age` is over, for an entry.
    pub(super) fn take(&mut self, own: &[u8], ttl: Duration, age: Duration, now: Moment) -> Option<Lease> {
        self.drop_old(now);
        let fits = |lease: &Lease| lease.ttl == ttl && now.since(lease.sent) < age;
        // The last one: those that are too many are taken by nobody, and end.
        let lease = self.free.remove(self.free.iter().rposition(fits)?);
        self.taken.insert(lease.id, own.to_vec());
        Some(lease)
    }

    /// Returns whether a lease is spare, or was when an entry that is none of `own` took it. Whoever has had it before
    /// has no business with it any more.
    pub(super) fn is_elsewhere(&self, own: &[impl AsRef<[u8]>], id: i64) -> bool {
        let is_other = |by: &Vec<u8>| own.iter().all(|own| own.as_ref() != by);
        self.free.iter().any(|lease| lease.id == id) || self.taken.get(&id).is_some_and(is_other)
    }

    /// Forgets a lease that an entry had taken, and that is over.
    pub(super) fn ended(&mut self, id: i64) {
        self.taken.remove(&id);
    }

    /// Forgets the leases that were taken by entries that are forgotten.
    pub(super) fn retain_of(&mut self, is_known: impl Fn(&[u8]) -> bool) {
        self.taken.retain(|_, by| is_known(by));
    }

    /// Takes all of them out.
    pub(super) fn drain(&mut self) -> Vec<Lease> {
        std::mem::take(&mut self.free)
    }

    /// Leaves those that are too old to themselves.
    fn drop_old(&mut self, now: Moment) {
        self.free.retain(|lease| is_young(lease, now));
    }
}

fn is_young(lease: &Lease, now: Moment) -> bool {
    now.since(lease.sent) < oldest(lease.ttl)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    const TTL: Duration = Duration::from_secs(8);

    fn lease(id: i64, sent: Moment) -> Lease {
        Lease { id, ttl: TTL, sent }
    }

    #[test]
    fn a_lease_is_taken_once_by_a_claim_of_its_length() {
        let (mut spares, now) = (Spares::default(), Clock::Suspend.now());
        assert!(spares.keep(lease(1, now), now) && spares.keep(lease(2, now), now));
        assert_eq!(spares.take(b"a/1", TTL * 2, TTL, now), None, "another length");
        let taken: Vec<_> = (0..3).map(|_| spares.take(b"a/1", TTL, TTL, now)).collect();
        assert_eq!(taken, [Some(lease(2, now)), Some(lease(1, now)), None]);
    }

    #[test]
    fn a_lease_of_which_a_quarter_is_over_is_left_to_itself() {
        let (mut spares, start) = (Spares::default(), Clock::Suspend.now());
        let after = |seconds| start.plus(Duration::from_secs(seconds));
        assert!(!spares.keep(lease(1, start), after(2)), "too old from the start");
        assert!(spares.keep(lease(1, start), after(1)));
        // A claim of a shorter ttl than the lease has relies on less of it.
        assert_eq!(spares.take(b"a/1", TTL, Duration::from_secs(1), after(1)), None);
        assert_eq!(spares.take(b"a/1", TTL, TTL, after(2)), None);
        assert_eq!(spares.drain(), []);
    }

    #[test]
    fn there_are_not_too_many() {
        let (mut spares, start) = (Spares::default(), Clock::Suspend.now());
        for id in 1..=300 {
            assert_eq!(spares.keep(lease(id, start), start), id <= 256, "{id}");
        }
        let later = start.plus(TTL / 4);
        assert!(spares.keep(lease(400, later), later), "the others are too old by now");
        let long = |ttl| Lease { ttl, ..lease(401, later) };
        assert!(!spares.keep(long(LONGEST * 2), later), "it would be there for long");
        assert!(oldest(LONGEST) < LONGEST / 4);
        assert_eq!(spares.drain(), [lease(400, later)]);
    }

    #[test]
    fn only_the_entry_that_has_a_lease_now_has_to_do_with_it() {
        let (mut spares, now) = (Spares::default(), Clock::Suspend.now());
        let [old, new] = [vec![b"a/1".to_vec()], vec![b"b/2".to_vec()]];
        let elsewhere = |spares: &Spares| [&old[..], &new, &[]].map(|own| spares.is_elsewhere(own, 1));
        assert_eq!(elsewhere(&spares), [false; 3], "it is that of the entry that has asked for it");
        spares.keep(lease(1, now), now);
        assert_eq!(elsewhere(&spares), [true; 3]);
        spares.take(b"b/2", TTL, TTL, now);
        assert_eq!(elsewhere(&spares), [true, false, true]);
        spares.retain_of(|own| own == b"b/2");
        assert_eq!(elsewhere(&spares), [true, false, true]);
        spares.ended(1);
        assert_eq!(elsewhere(&spares), [false; 3]);
    }
}
