//! Defines the state of a grant, which its successive holders share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::fence_sequence::FenceSequence;
use crate::atomic_moment::AtomicMoment;
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
    deadline: AtomicMoment,
    store_until: AtomicMoment,
    confirmed: AtomicMoment,
    /// The number of hand-offs of this grant so far.
    handoffs: AtomicU64,
    /// The fencing tokens of the earlier holders.
    earlier: Mutex<Option<FenceSequence>>,
}

/// The times until which a grant is held, and the time of its last confirmation.
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
            deadline: AtomicMoment::new(bounds.deadline),
            store_until: AtomicMoment::new(bounds.store_until),
            confirmed: AtomicMoment::new(bounds.confirmed),
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
        Bounds { deadline: self.deadline(), store_until: self.store_until(), confirmed: self.confirmed() }
    }

    pub(crate) fn deadline(&self) -> Moment {
        self.deadline.get()
    }

    pub(crate) fn store_until(&self) -> Moment {
        self.store_until.get()
    }

    pub(crate) fn confirmed(&self) -> Moment {
        self.confirmed.get()
    }

    /// Records that the store may have the grant until `until`.
    pub(crate) fn may_last(&self, until: Moment) {
        self.store_until.raise(until);
    }

    /// Records that the grant is certainly held until `deadline`, after a successful request that was sent at `sent`.
    pub(crate) fn lasts(&self, sent: Moment, deadline: Moment) {
        self.deadline.raise(deadline);
        self.confirmed.raise(sent);
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
