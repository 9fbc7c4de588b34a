//! Defines the state of a grant, which its successive holders share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::fence_sequence::FenceSequence;
use crate::backend::Claim;
use crate::clock::Moment;
use crate::pending::Cleanup;
use crate::sync::Mutex;

/// A grant of the store that this process holds. Usually its successive holders share this value, so a hand-off copies
/// nothing.
#[derive(Debug)]
pub(crate) struct HeldGrant {
    pub(super) cleanup: Arc<Cleanup>,
    pub(crate) claim: Claim,
    bounds: Mutex<Bounds>,
    /// The number of hand-offs of this grant so far.
    handoffs: AtomicU64,
    /// The fencing tokens of the earlier holders.
    earlier: Mutex<Option<FenceSequence>>,
}

/// The times until which a grant is held, and the time of its last confirmation. They only move forward.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The time until which the grant is certainly held without another renewal.
    pub(crate) deadline: Moment,
    /// The time until which the store may have the grant. This time also covers unanswered requests, so it is later
    /// than the deadline.
    pub(crate) store_until: Moment,
    /// When the last successful request was sent.
    pub(crate) confirmed: Moment,
}

impl HeldGrant {
    pub(crate) fn new(cleanup: &Arc<Cleanup>, claim: Claim, bounds: Bounds) -> Self {
        Self {
            cleanup: Arc::clone(cleanup),
            bounds: Mutex::new(bounds),
            handoffs: AtomicU64::new(claim.handoffs),
            earlier: Mutex::default(),
            claim,
        }
    }

    /// Returns a copy for later holders, with the `bounds` of their lease. `renews` says whether that lease is
    /// [renewed](Claim::renews).
    pub(crate) fn copy(&self, renews: bool, bounds: Bounds) -> Self {
        let claim = Claim { renews, handoffs: self.handoffs(), ..self.claim.clone() };
        let copy = Self::new(&self.cleanup, claim, bounds);
        copy.set_earlier(self.earlier());
        copy
    }

    pub(crate) fn bounds(&self) -> Bounds {
        *self.bounds.lock()
    }

    pub(crate) fn deadline(&self) -> Moment {
        self.bounds().deadline
    }

    pub(crate) fn store_until(&self) -> Moment {
        self.bounds().store_until
    }

    pub(crate) fn confirmed(&self) -> Moment {
        self.bounds().confirmed
    }

    /// Records that the store may have the grant until `until`.
    pub(crate) fn may_last(&self, until: Moment) {
        self.bounds.with(|bounds| bounds.store_until = bounds.store_until.latest(until));
    }

    /// Records that the grant is certainly held until `deadline`, after a successful request that was sent at `sent`.
    pub(crate) fn lasts(&self, sent: Moment, deadline: Moment) {
        self.bounds.with(|bounds| {
            bounds.deadline = bounds.deadline.latest(deadline);
            bounds.confirmed = bounds.confirmed.latest(sent);
        });
    }

    pub(crate) fn handoffs(&self) -> u64 {
        self.handoffs.load(Ordering::Acquire)
    }

    /// Counts a hand-off. The store makes one fencing token for each number of hand-offs. With an unchanged number, the
    /// next holder would get the token of the previous holder.
    pub(crate) fn count_handoff(&self) {
        self.handoffs.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the sequence of fencing tokens of the earlier holders. The token of the current holder continues this
    /// sequence.
    pub(crate) fn earlier(&self) -> Option<FenceSequence> {
        *self.earlier.lock()
    }

    pub(crate) fn set_earlier(&self, earlier: Option<FenceSequence>) {
        *self.earlier.lock() = earlier;
    }
}
