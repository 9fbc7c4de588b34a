//! Defines [`Hold`], the part of a guard that holds the lock.

use std::sync::Arc;

use super::release::Releasing;
use crate::lease::Lease;

/// One guard's share of a lease. Dropping a hold removes the guard from the count of the lease. Dropping the last hold
/// releases the lock in the background.
#[derive(Debug)]
pub(crate) struct Hold {
    /// `None` after the release.
    lease: Option<Arc<Lease>>,
}

impl Hold {
    /// Makes a hold. The caller must have counted its guard in `lease` before.
    pub(crate) fn new(lease: Arc<Lease>) -> Self {
        Self { lease: Some(lease) }
    }

    pub(crate) fn lease(&self) -> &Arc<Lease> {
        self.lease.as_ref().expect("BUG: only what consumes the hold takes the lease")
    }

    /// Moves the lease out of this hold. The caller must then remove the guard from the count of the lease, or end the
    /// lease.
    pub(super) fn take(mut self) -> Option<Arc<Lease>> {
        self.lease.take()
    }

    /// Releases the lock at the store, in the background. The grant is not handed off in this process, and does not
    /// linger.
    pub(crate) fn release_to_store(self) {
        if let Some(lease) = self.take().filter(|lease| lease.leave()) {
            drop(Releasing::to_store(lease));
        }
    }

    /// Ends the hold without a release, because another lease has the grant now.
    pub(crate) fn supersede(self) {
        if let Some(lease) = self.take() {
            lease.supersede();
            // Both leases were counted as held, so the count goes down as after a release.
            lease.engine.lease_ended();
        }
    }

    /// Ends the hold without a release. The store then keeps the key locked until the lease expires.
    pub(crate) fn detach(self) {
        if let Some(lease) = self.take() {
            lease.supersede();
            lease.record_detached();
            lease.engine.lease_ended();
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        if lease.leave() {
            drop(Releasing::new(lease));
        }
    }
}
