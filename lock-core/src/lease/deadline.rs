//! The time until which a grant is certainly held, and the time until which the store may have it.

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
    /// for as long as it lives, whatever ttl is requested.
    pub(crate) fn asked(&self, ttl: Duration) {
        // A request without an answer may still take effect. So a release that is not answered is repeated until this
        // lease is over too.
        if !self.engine.cleanup.has_session() {
            self.grant.may_last(expiry::forgotten(self.now(), ttl));
        }
    }

    /// Returns when the grant has expired at the store. Grants of a session do not expire: then the library releases a
    /// lost grant at this time.
    pub(crate) fn store_until(&self) -> Moment {
        self.grant.store_until()
    }

    /// Notes that the store promised `length` from `sent` on. A deadline never moves back.
    ///
    /// A session promises the same to all of its grants. A lease that is not renewed ends after its own ttl all the
    /// same.
    pub(crate) fn leased(&self, sent: Moment, length: Duration) {
        // The session is kept alive separately, so the store never ends this lease: the holder must, after its ttl.
        let length =
            if ends_by_itself(&self.engine, &self.options) { length.min(self.ttl()) } else { length };
        if self.engine.cleanup.has_session() {
            self.grant.may_last(expiry::forgotten(sent, length));
        }
        // The lease counts from `sent`, because the store starts it when it executes the request: later than `sent`,
        // and perhaps long before the answer arrives.
        self.grant.lasts(sent, expiry::held_until(self.engine.capability.placement, sent, length));
    }

    /// Notes that a renewal was answered with yes. `length` is the granted lease, which may differ from the requested
    /// one.
    pub(crate) fn renewed(&self, sent: Moment, length: Duration) {
        // The store may have granted more than `asked` has noted, for example whole seconds.
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

    /// Returns the end of `min_hold`: until then the key stays locked after the release.
    pub(crate) fn keep_until(&self) -> Option<Moment> {
        self.options.min_hold.map(|min| self.since.plus(min))
    }

    /// Returns the rest of `min_hold` at `now`. A release that counted it from any other time would end `min_hold`
    /// early.
    pub(crate) fn keep_for(&self, now: Moment) -> Option<Duration> {
        self.keep_until().and_then(|end| expiry::left(end, now))
    }
}
