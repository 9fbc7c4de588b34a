//! Decides when a lease is checked: for its next renewal, its loss, or a warning.

use std::sync::Arc;
use std::time::Duration;

use super::due::Due;
use super::lease::Lease;
use super::schedule::Schedule;
use crate::backend::LeaseScope;
use crate::clock::Moment;

/// The longest time between two checks of a lock that belongs to a session. These checks need no request. Without them,
/// a session with a long timeout would report late that its locks are endangered.
const SESSION_LOOK: Duration = Duration::from_secs(2);

impl Schedule {
    /// Watches a new lease, which the store granted for `length`. If `length` is shorter than the ttl, the first
    /// renewal is still due after a third of `length`. A renewal at once would cost every short hold a request.
    pub(crate) fn watch(&self, lease: &Arc<Lease>, length: Duration) {
        if lease.options.renew && length < lease.ttl() {
            self.watch_renewed(lease, lease.since, length);
        } else {
            self.watch_extended(lease, lease.since, length);
        }
    }

    /// Watches the end of a lease that has no guard yet. Such a lease is not renewed, but its loss is reported.
    pub(crate) fn watch_end(&self, lease: &Arc<Lease>) {
        self.file(lease, lease.last_look());
    }

    /// Watches a lease whose grant was handed off in this process.
    pub(crate) fn watch_handoff(&self, lease: &Arc<Lease>) {
        // The lease may be shorter than the ttl of its new holder, because the previous holder requested less or the
        // store granted less.
        let sent = lease.confirmed();
        self.watch_extended(lease, sent, lease.ttl().min(lease.deadline().since(sent)));
    }

    /// Watches a lease that was renewed outside of the renewal loop. The renewal was sent at `sent` and granted
    /// `length`.
    pub(crate) fn watch_extended(&self, lease: &Arc<Lease>, sent: Moment, length: Duration) {
        if lease.options.renew {
            self.watch_renewed(lease, sent, length);
        } else {
            self.file(lease, lease.within_limits(lease.last_look()));
        }
    }

    /// Watches a lease that is renewed. Its last renewal was sent at `sent` and granted `length`.
    pub(super) fn watch_renewed(&self, lease: &Arc<Lease>, sent: Moment, length: Duration) {
        self.file(lease, lease.within_limits(lease.next_renewal(sent, length)));
    }
}

impl Lease {
    /// Returns the time of the last check: a lease that was not renewed until then is lost.
    pub(super) fn last_look(&self) -> Due {
        let end = Due::exactly(self.deadline());
        self.max_hold_end().map_or(end, |limit| end.no_later_than(limit))
    }

    /// Returns the time of the next renewal after a request that was sent at `sent` and granted `length`.
    fn next_renewal(&self, sent: Moment, length: Duration) -> Due {
        // `Due::renewal` divides the length by three. So a renewal is due after `renew_every`, but at the latest after
        // a third of the lease.
        let length = self.options.renew_every.map_or(length, |every| length.min(every.saturating_mul(3)));
        let of_session = self.engine.capability.lease == LeaseScope::Session;
        let length = if of_session { length.min(SESSION_LOOK * 3) } else { length };
        Due::renewal(sent, length, fastrand::f64())
    }

    /// Returns `due`, limited to the end of the lease, the end of `max_hold` and the time of the warning about a long
    /// hold.
    pub(super) fn within_limits(&self, due: Due) -> Due {
        let due = due.no_later_than(self.deadline());
        let due = self.max_hold_end().map_or(due, |limit| due.no_later_than(limit));
        self.held_long_at().map_or(due, |long| due.no_later_than(long))
    }
}
