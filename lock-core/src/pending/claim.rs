//! Defines [`PendingClaim`], which rolls back when it is dropped.

use std::sync::Arc;
use std::time::Duration;

use super::cleanup::{Certainty, Cleanup};
use super::granted::Granted;
use super::under_way::ReleaseUnderWay;
use crate::backend::{Claim, Grant};
use crate::clock::Moment;
use crate::expiry;
use crate::notifications::Subscription;
use crate::owner::{Owner, OwnerSource};

/// The minimum time for which the release of an unanswered request is repeated, even if the ttl is shorter.
const LATE_REQUEST: Duration = Duration::from_secs(30);

/// The state of a claim at the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// No request is under way, and the store's queue has no entry for the claim.
    Nothing,
    /// A request is under way.
    Request,
    /// The store's queue has an entry for the claim.
    Queued,
}

/// A claim, with its entry in the store's queue, that one waiter passes to the next. It is boxed, because this is rare.
pub(crate) type LeftEntry = Box<PendingClaim>;

/// A claim that rolls back when it is dropped.
///
/// It is made before the first byte is sent. So a future can be dropped at every await point, and the background
/// releases a possible grant or queue entry by its owner.
#[derive(Debug)]
pub(crate) struct PendingClaim {
    cleanup: Arc<Cleanup>,
    pub(crate) claim: Claim,
    state: Sent,
    entry: Option<QueueEntry>,
    /// Whether the owner already has grants from separate requests.
    has_grants: bool,
    /// The release of the entry, after it has begun.
    leaving: Option<ReleaseUnderWay>,
}

/// An entry in the store's queue.
#[derive(Debug)]
pub(crate) struct QueueEntry {
    /// When the request was sent that added the entry.
    pub(crate) since: Moment,
    /// When the last request was sent to which the store answered that the claim waits.
    pub(crate) sent: Moment,
    /// The shortest lease that a grant of this entry may have. The waiters of this entry may have requested different
    /// leases, and unanswered heartbeats may have arrived.
    pub(crate) lease: Duration,
    /// When the next heartbeat is due, if the store has heartbeats.
    pub(crate) heartbeat: Option<Moment>,
    /// The longest lease of an unanswered heartbeat. That heartbeat may still arrive, and extend a grant.
    pub(crate) unanswered: Duration,
    pub(crate) subscription: Option<Subscription>,
}

impl PendingClaim {
    pub(crate) fn new(cleanup: &Arc<Cleanup>, claim: Claim) -> Self {
        Self {
            cleanup: Arc::clone(cleanup),
            claim,
            state: Sent::Nothing,
            entry: None,
            has_grants: false,
            leaving: None,
        }
    }

    /// Records that the owner holds each of the keys by a single grant.
    pub(crate) fn has_grants(&mut self) {
        self.has_grants = true;
    }

    /// Returns whether the store's queue has an entry for this claim.
    pub(crate) fn is_queued(&self) -> bool {
        self.entry.is_some()
    }

    /// Returns whether the last answer of the store was that the claim waits.
    pub(crate) fn is_waiting(&self) -> bool {
        self.state == Sent::Queued
    }

    pub(crate) fn entry(&mut self) -> Option<&mut QueueEntry> {
        self.entry.as_mut()
    }

    /// Returns when the next heartbeat is due, if the store has heartbeats.
    pub(crate) fn heartbeat_due(&self) -> Option<Moment> {
        self.entry.as_ref()?.heartbeat
    }

    /// Makes the next heartbeat due at once.
    pub(crate) fn heartbeat_now(&mut self) {
        let now = self.cleanup.clock.now();
        if let Some(entry) = &mut self.entry {
            entry.heartbeat = Some(now);
        }
    }

    /// Completes when the store has granted the entry, and returns the number of waiters after it. Never completes
    /// without an entry. This method is cancel safe.
    pub(crate) async fn notified(&self) -> usize {
        match self.entry.as_ref().and_then(|entry| entry.subscription.as_ref()) {
            Some(subscription) => subscription.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Takes the notification that the store has granted the entry, if it has arrived. Returns the number of waiters
    /// after the entry.
    pub(crate) fn take_notification(&self) -> Option<usize> {
        self.entry.as_ref()?.subscription.as_ref()?.take()
    }

    /// Returns the grant that a notification announced. Returns `None` if the grant may have expired by now, so that
    /// the store must be asked.
    pub(crate) fn served(&self, waiters: usize) -> Option<Granted> {
        let entry = self.entry.as_ref()?;
        let grant = Grant::new(entry.sent, entry.lease).with_waiters(Some(waiters));
        // The grant began after `sent`, because a claim that already holds its key is not told to wait. The time at
        // which the notification arrived cannot be the bound, because it may have been delayed.
        let end = expiry::held_until(self.cleanup.capability.placement, grant.sent, entry.lease);
        let arrived = self.cleanup.clock.now();
        (!end.is_past(arrived)).then_some(Granted { grant, arrived })
    }

    /// Records that a request is about to be sent.
    pub(crate) fn begin_request(&mut self) {
        // The state changes before the request is awaited. If the future is dropped there, the rollback uses this
        // state.
        self.state = Sent::Request;
        self.claim.not_sent();
    }

    /// Records that the store does not have the claim.
    pub(crate) fn settle(&mut self) {
        (self.state, self.entry, self.leaving) = (Sent::Nothing, None, None);
    }

    /// Records that the last request was not granted.
    pub(crate) fn nothing_taken(&mut self) {
        self.state = Sent::Nothing;
    }

    /// Records that the last request changed nothing, so that the claim still waits.
    pub(crate) fn waits_on(&mut self) {
        self.state = Sent::Queued;
    }

    /// Records that the store's queue has an entry for the claim.
    pub(crate) fn queued(&mut self, entry: impl FnOnce(Option<QueueEntry>) -> QueueEntry) {
        self.state = Sent::Queued;
        self.entry = Some(entry(self.entry.take()));
    }

    /// Records that the entry is about to be released. From then on no other waiter can take the entry over, and its
    /// notifications are ignored. The next acquisition of this process waits for the release, even if the background
    /// completes it, because the entry may be granted until then.
    pub(crate) fn leaving(&mut self) {
        self.entry = None;
        self.leaving = Some(self.cleanup.under_way.add(&self.claim, self.cleanup.clock.now()));
    }

    /// Moves the claim and its entry out of this value, for the next waiter of the local queue.
    ///
    /// Also returns `None` if the store confirms its grants and a heartbeat is unanswered. In that case the backend may
    /// be releasing a grant of this owner, so the claim must be rolled back.
    pub(crate) fn take_entry(&mut self) -> Option<LeftEntry> {
        let confirms = self.cleanup.capability.waiting.confirms();
        let entry = self.entry.take_if(|entry| !(confirms && entry.unanswered > Duration::ZERO))?;
        let left = Self {
            cleanup: Arc::clone(&self.cleanup),
            claim: self.claim.clone(),
            state: self.state,
            entry: Some(entry),
            has_grants: self.has_grants,
            leaving: None,
        };
        // Only one of the two values may roll the owner back.
        self.state = Sent::Nothing;
        Some(Box::new(left))
    }

    /// Takes over the claim and the entry of another waiter. The grant will have the lease that this waiter requests.
    /// If the lease could become longer, returns `false`, and the entry of the other waiter is rolled back.
    pub(crate) fn adopt(&mut self, mut left: LeftEntry) -> bool {
        // A heartbeat of the other waiter may arrive after the grant, and extend it to that waiter's ttl.
        if left.entry.as_ref().is_some_and(|entry| entry.unanswered > self.claim.ttl) {
            return false;
        }
        // The next heartbeat sets the ttl of the entry. Until that heartbeat is answered, a grant may be as short as
        // `QueueEntry::lease`.
        left.claim.ttl = self.claim.ttl;
        left.claim.fencing = self.claim.fencing;
        left.claim.renews = self.claim.renews;
        *self = *left;
        true
    }

    /// Moves the claim to a lease, which is then responsible for the release. This value continues with a new owner.
    pub(crate) fn take(&mut self, owners: &OwnerSource) -> Claim {
        // No await follows until the lease exists, so at every moment some value releases the owner.
        self.settle();
        self.has_grants = false;
        // If the store does not provide a fencing token, the wait continues with this value. The owner of the lost
        // grant is then released, and must not be used again.
        let next = owners.mint_like(self.claim.owner);
        let taken = self.claim.clone();
        self.claim.set_owner(next);
        taken
    }

    /// Continues with another owner, if the store does not know this one.
    pub(crate) fn unless_sent(&mut self, owner: impl FnOnce() -> Owner) {
        if self.state == Sent::Nothing && self.entry.is_none() && !self.has_grants {
            self.claim.set_owner(owner());
        }
    }

    /// Rolls back, and continues with another owner. The outcome of the request is unknown, so its owner must not be
    /// used again.
    pub(crate) fn start_over(&mut self, owners: &OwnerSource) {
        self.roll_back();
        self.has_grants = false;
        self.claim.set_owner(owners.mint_like(self.claim.owner));
    }

    fn roll_back(&mut self) {
        // This also ends the subscription, so a later notification finds no mailbox.
        let was_queued = self.entry.take().is_some();
        let certainty = match self.state {
            Sent::Nothing => return,
            // During an outage, releases of claims that were never sent must not accumulate. A claim that was queued
            // before has an entry.
            Sent::Request if self.cleanup.capability.marks_sent && !self.claim.is_sent() && !was_queued => {
                self.state = Sent::Nothing;
                return;
            }
            Sent::Request if self.has_grants => Certainty::MaybeAgain,
            Sent::Request => Certainty::Maybe,
            // The request that queued the claim was answered, and a late heartbeat does not restore the entry.
            Sent::Queued => Certainty::Granted,
        };
        // This value may continue with another owner, which the store does not know.
        self.state = Sent::Nothing;
        // If a server is stopped while a request is on its way, the request takes effect when the server continues.
        let patience = if certainty == Certainty::Granted { Duration::ZERO } else { LATE_REQUEST };
        let until = self.cleanup.clock.now().plus(self.claim.ttl.max(patience));
        self.cleanup.release(&self.claim, certainty, until, self.leaving.take());
    }
}

impl Drop for PendingClaim {
    fn drop(&mut self) {
        self.roll_back();
    }
}
