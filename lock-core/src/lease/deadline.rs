//! Until when a grant is certainly held, and until when the store may have it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::bounds::ends_by_itself;
use super::lease::{Lease, nanos};
use super::state;
use crate::clock::Moment;
use crate::expiry;

impl Lease {
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_nanos(self.ttl.load(Ordering::Acquire))
    }

    pub(crate) fn set_ttl(&self, ttl: Duration) {
        self.ttl.store(nanos(ttl), Ordering::Release);
    }

    /// Notes that a request for a lease of `ttl` is about to be sent, or was just answered. A session keeps its grants
    /// for as long as it lives, whatever is asked for.
    pub(crate) fn asked(&self, ttl: Duration) {
        // Without an answer, the request may take effect all the same. So a release that is not answered is repeated
        // until this lease is over too.
        if !self.engine.cleanup.has_session() {
            self.grant.may_last(expiry::forgotten(self.now(), ttl));
        }
    }

    /// Returns when the store has forgotten the grant by itself. A session forgets none: then the library releases a
    /// lost grant at this time.
    pub(crate) fn store_until(&self) -> Moment {
        self.grant.store_until()
    }

    /// Notes that the store promised `length` from `sent` on. A deadline never moves back.
    ///
    /// A session promises the same to all of its grants. A lease that is not renewed counts no more than its own ttl.
    pub(crate) fn leased(&self, sent: Moment, length: Duration) {
        // The session is kept alive by other means, so the store never ends this lease: the holder has to, after its
        // ttl.
        let length =
            if ends_by_itself(&self.engine, &self.options) { length.min(self.ttl()) } else { length };
        if self.engine.cleanup.has_session() {
            self.grant.may_last(expiry::forgotten(sent, length));
        }
        // Counted from `sent`, because the store starts the lease when it executes the request: later than `sent`, and
        // perhaps long before the answer arrives.
        self.grant.lasts(sent, expiry::held_until(self.engine.capability.placement, sent, length));
    }

    /// Notes that a renewal was answered with yes. `length` is what the store gave, which need not be what was asked
    /// for.
    pub(crate) fn renewed(&self, sent: Moment, length: Duration) {
        // The store may have given more than `asked` has noted, for example whole seconds.
        if !self.engine.cleanup.has_session() {
            self.grant.may_last(expiry::forgotten(sent, length));
        }
        self.leased(sent, length);
        // Only from `ENDANGERED`: a loss or a release that came meanwhile stays, and a late yes does not bring the
        // lease back.
        let _ =
            self.state.compare_exchange(state::ENDANGERED, state::HELD, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Returns when the last request was sent that the store has answered with yes.
    pub(crate) fn confirmed(&self) -> Moment {
        self.grant.confirmed()
    }

    /// Returns until when the grant is certainly held. `max_hold` may end it earlier.
    pub(crate) fn deadline(&self) -> Moment {
        self.grant.deadline()
    }

    pub(crate) fn max_hold_end(&self) -> Option<Moment> {
        self.options.max_hold.map(|max| self.since.plus(max))
    }

    /// Returns for how long the grant is certainly held; zero once it is lost or released.
    pub(crate) fn remaining(&self) -> Duration {
        if self.state.load(Ordering::Acquire) > state::ENDANGERED {
            return Duration::ZERO;
        }
        let now = self.now();
        let left = self.deadline().remaining(now);
        self.max_hold_end().map_or(left, |end| end.remaining(now).min(left))
    }

    /// Returns the end of `min_hold`: until then the key stays taken after the release.
    pub(crate) fn keep_until(&self) -> Option<Moment> {
        self.options.min_hold.map(|min| self.since.plus(min))
    }

    /// Returns what is left of `min_hold` at `now`. A release that is counted from another time would end it early.
    pub(crate) fn keep_for(&self, now: Moment) -> Option<Duration> {
        self.keep_until().and_then(|end| expiry::left(end, now))
    }
}
