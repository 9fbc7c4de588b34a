//! Tracks two times: until when a grant is certainly held, and until when the store may have it.

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

    /// Records that a request for a lease of `ttl` is about to be sent, or was just answered. With a session, this does
    /// nothing, because a session keeps its grants until it ends.
    pub(crate) fn asked(&self, ttl: Duration) {
        // A request may take effect even if no answer arrives. So a later release that gets no answer is repeated until
        // this lease is over too.
        if !self.engine.cleanup.has_session() {
            self.grant.may_last(expiry::forgotten(self.now(), ttl));
        }
    }

    /// Returns when the grant has certainly expired at the store. Grants of a session do not expire, but the library
    /// releases a lost grant at this time.
    pub(crate) fn store_until(&self) -> Moment {
        self.grant.store_until()
    }

    /// Records that the store granted a lease of `length`, counted from `sent`. The deadline never moves back.
    ///
    /// All grants of a session get the length of the session. A lease without renewal still ends after its own ttl.
    pub(crate) fn leased(&self, sent: Moment, length: Duration) {
        // The session is kept alive independently of this lease, so the store never ends the lease. This process must
        // end the lease after its ttl.
        let length =
            if ends_by_itself(&self.engine, &self.options) { length.min(self.ttl()) } else { length };
        if self.engine.cleanup.has_session() {
            self.grant.may_last(expiry::forgotten(sent, length));
        }
        // The lease counts from `sent`. The store starts the lease when it executes the request: after `sent`, but
        // perhaps long before the answer arrives.
        self.grant.lasts(sent, expiry::held_until(self.engine.capability.placement, sent, length));
    }

    /// Records a successful renewal. `length` is the granted lease, which may differ from the requested one.
    pub(crate) fn renewed(&self, sent: Moment, length: Duration) {
        // The store may have granted more than `asked` has recorded. For example, some stores round up to whole
        // seconds.
        if !self.engine.cleanup.has_session() {
            self.grant.may_last(expiry::forgotten(sent, length));
        }
        self.leased(sent, length);
        // Only `ENDANGERED` changes back to `HELD`. If the lease was lost or released in the meantime, a late success
        // does not change this.
        let _ =
            self.state.compare_exchange(state::ENDANGERED, state::HELD, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Returns when the last successful request was sent.
    pub(crate) fn confirmed(&self) -> Moment {
        self.grant.confirmed()
    }

    /// Returns the time until which the grant is certainly held. `max_hold` may end the lease earlier.
    pub(crate) fn deadline(&self) -> Moment {
        self.grant.deadline()
    }

    pub(crate) fn max_hold_end(&self) -> Option<Moment> {
        self.options.max_hold.map(|max| self.since.plus(max))
    }

    /// Returns how long the grant is still certainly held. The result is zero after a loss or a release.
    pub(crate) fn remaining(&self) -> Duration {
        if self.state.load(Ordering::Acquire) > state::ENDANGERED {
            return Duration::ZERO;
        }
        let now = self.now();
        let left = self.deadline().remaining(now);
        self.max_hold_end().map_or(left, |end| end.remaining(now).min(left))
    }

    /// Returns the end of `min_hold`. Until then the key stays locked after the release.
    pub(crate) fn keep_until(&self) -> Option<Moment> {
        self.options.min_hold.map(|min| self.since.plus(min))
    }

    /// Returns the rest of `min_hold` at `now`. A release must use exactly this value: with a shorter one, `min_hold`
    /// would end too early.
    pub(crate) fn keep_for(&self, now: Moment) -> Option<Duration> {
        self.keep_until().and_then(|end| expiry::left(end, now))
    }
}
