//! How long a grant is certainly ours, and until when the store may have it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::{Lease, state};
use crate::backend::Placement;
use crate::clock::Moment;
use crate::engine;

/// For the granularity of expiry in the store and of timers here.
const GRANULARITY: Duration = Duration::from_millis(2);

/// What is taken off a lease, so that a loss is told before anybody else can have the key: the granularity, and for a
/// store in another process 1 % for clocks that run at different speeds ("Distributed Locks with Redis" takes both).
pub(crate) fn drift(placement: Placement, lease: Duration) -> Duration {
    match placement {
        Placement::Embedded => GRANULARITY.min(lease / 4),
        Placement::Remote => lease / 100 + GRANULARITY,
    }
}

/// When the store has certainly forgotten a lease of `ttl` that was asked for at `now`.
pub(crate) fn forgotten(now: Moment, ttl: Duration) -> Moment {
    now.plus(ttl).plus(ttl / 100 + GRANULARITY)
}

/// Whether a lease that the store has until `store_until` is longer than `ttl`, asked for now.
pub(crate) fn outlasts(store_until: Moment, ttl: Duration, now: Moment) -> bool {
    let fits = forgotten(now, ttl).plus(SLACK);
    store_until.remaining(now) > fits.remaining(now)
}

/// Two that ask for the same ttl are not to be told apart by the time that a request took.
const SLACK: Duration = Duration::from_millis(20);

impl Lease {
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_nanos(self.ttl.load(Ordering::Acquire))
    }

    pub(crate) fn set_ttl(&self, ttl: Duration) {
        self.ttl.store(nanos(ttl), Ordering::Release);
    }

    /// A request for a lease of `ttl` is about to be sent, or was just answered. A session keeps its grants for as long as
    /// it lives, whatever is asked for.
    pub(crate) fn asked(&self, ttl: Duration) {
        if !self.engine.has_session() {
            raise(&self.store_until, forgotten(self.now(), ttl));
        }
    }

    /// From here on the store has forgotten the grant by itself. A session has not: then the library gives a lost grant
    /// back at this time.
    pub(crate) fn store_until(&self) -> Moment {
        moment(&self.store_until)
    }

    /// Whether the lease ends though the store keeps the grant: it is not renewed, and the session that it is in is.
    pub(super) fn ends_by_itself(&self) -> bool {
        self.engine.has_session() && !self.options.renew
    }

    /// The store promised `lease` from `sent` on. A deadline never moves back.
    ///
    /// A session promises the same to all of its grants. One that is not renewed counts no more than its own ttl.
    pub(crate) fn leased(&self, sent: Moment, length: Duration) {
        let length = if self.ends_by_itself() { length.min(self.ttl()) } else { length };
        if self.engine.has_session() {
            raise(&self.store_until, forgotten(sent, length));
        }
        let safe = length.saturating_sub(drift(self.engine.capability.placement, length));
        raise(&self.deadline, sent.plus(safe));
        raise(&self.confirmed, sent);
    }

    /// A renewal was answered with yes, and with the lease that the store gave: at times not the one it was asked for.
    pub(crate) fn renewed(&self, sent: Moment, length: Duration) {
        if !self.engine.has_session() {
            raise(&self.store_until, forgotten(sent, length));
        }
        self.leased(sent, length);
        let _ =
            self.state.compare_exchange(state::ENDANGERED, state::HELD, Ordering::AcqRel, Ordering::Acquire);
    }

    /// When the last request was sent that the store has answered with yes.
    pub(crate) fn confirmed(&self) -> Moment {
        moment(&self.confirmed)
    }

    /// Until when the grant is certainly ours: the lease, or `max_hold` if that is earlier.
    pub(crate) fn deadline(&self) -> Moment {
        moment(&self.deadline)
    }

    pub(crate) fn max_hold_end(&self) -> Option<Moment> {
        self.options.max_hold.map(|max| self.since.plus(max))
    }

    /// What is left, by the clock; zero once lost or ended.
    pub(crate) fn remaining(&self) -> Duration {
        if self.state.load(Ordering::Acquire) > state::ENDANGERED {
            return Duration::ZERO;
        }
        let now = self.now();
        let left = self.deadline().remaining(now);
        self.max_hold_end().map_or(left, |end| end.remaining(now).min(left))
    }

    /// The end of `min_hold`: until then the key stays taken after the release.
    pub(crate) fn keep_until(&self) -> Option<Moment> {
        self.options.min_hold.map(|min| self.since.plus(min))
    }

    /// What is left of `min_hold`.
    pub(crate) fn keep_for(&self) -> Option<Duration> {
        self.keep_until().and_then(|end| engine::left(end, self.now()))
    }
}

pub(super) fn moment((mono, boot): &(AtomicI64, AtomicI64)) -> Moment {
    Moment::from_parts((mono.load(Ordering::Acquire), boot.load(Ordering::Acquire)))
}

/// Moves a moment forward, never back.
pub(super) fn raise((mono, boot): &(AtomicI64, AtomicI64), to: Moment) {
    let (to_mono, to_boot) = to.parts();
    mono.fetch_max(to_mono, Ordering::AcqRel);
    boot.fetch_max(to_boot, Ordering::AcqRel);
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_off_a_lease() {
        let ms = Duration::from_millis;
        for (placement, lease, off) in [
            (Placement::Embedded, ms(10_000), ms(2)),
            (Placement::Embedded, ms(4), ms(1)),
            (Placement::Remote, ms(10_000), ms(102)),
            (Placement::Remote, ms(500), ms(7)),
        ] {
            assert_eq!(drift(placement, lease), off, "{placement:?} {lease:?}");
        }
    }
}
