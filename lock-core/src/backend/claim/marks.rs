//! The marks of a claim, which record events of its requests.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The events of a claim. Code that has only a shared reference to the claim can record them.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Whether a request for the claim was sent, or was about to be sent.
    pub(super) sent: AtomicBool,
    /// Whether a request for the claim was sent again with the same owner.
    pub(super) resent: AtomicBool,
    /// Whether the fencing token of the claim is ahead of the store's clock.
    pub(super) fence_ahead: AtomicBool,
    /// Whether a downgrade may have made the grant shared.
    pub(super) shared: AtomicBool,
    /// Whether a transaction of the application may have verified the lease.
    pub(super) verified: AtomicBool,
    /// The last fencing token that was numbered in this process; 0 for none.
    pub(super) own_fence: AtomicU64,
    /// Whether the store has made a fencing token for the claim.
    pub(super) fenced: AtomicBool,
}

impl Clone for Marks {
    fn clone(&self) -> Self {
        Self {
            sent: AtomicBool::new(self.sent.load(Ordering::Relaxed)),
            resent: AtomicBool::new(self.resent.load(Ordering::Relaxed)),
            fence_ahead: AtomicBool::new(self.fence_ahead.load(Ordering::Relaxed)),
            shared: AtomicBool::new(self.shared.load(Ordering::Relaxed)),
            verified: AtomicBool::new(self.verified.load(Ordering::Relaxed)),
            own_fence: AtomicU64::new(self.own_fence.load(Ordering::Relaxed)),
            fenced: AtomicBool::new(self.fenced.load(Ordering::Relaxed)),
        }
    }
}
