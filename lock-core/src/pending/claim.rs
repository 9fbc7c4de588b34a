//! Defines [`PendingClaim`]: a claim that rolls back when it is dropped.

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

/// A claim with its entry in the store's queue. A waiter that leaves passes this value on to the next waiter. It is
/// boxed, because few waiters leave an entry.
pub(crate) type LeftEntry = Box<PendingClaim>;

/// A claim that rolls back when it is dropped: the background releases its possible grant and its entry in the store's
/// queue.
///
/// This value is made before the first request is sent, so the future of an acquisition can be dropped at every await
/// point.
#[derive(Debug)]
pub(crate) struct PendingClaim {
    cleanup: Arc<Cleanup>,
    pub(crate) claim: Claim,
    state: Sent,
    entry: Option<QueueEntry>,
    /// Whether the owner already has a single grant for each of several keys.
    has_grants: bool,
    /// The record of the release of the entry, after that release has begun.
    leaving: Option<ReleaseUnderWay>,
}

/// An entry in the store's queue.
#[derive(Debug)]
pub(crate) struct QueueEntry {
    /// The time at which the request was sent that added the entry.
    pub(crate) since: Moment,
    /// The time at which the last request was sent that the store answered with "the claim waits".
    pub(crate) sent: Moment,
    /// The shortest lease that a grant of this entry may have. The successive waiters of this entry may have requested
    /// different leases, and unanswered heartbeats may have reached the store.
    pub(crate) lease: Duration,
    /// When the next heartbeat is due, if the store has heartbeats.
    pub(crate) heartbeat: Option<Moment>,
    /// The longest lease that an unanswered heartbeat has requested. The heartbeat may still reach the store, and
    /// extend a grant.
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

    /// Records that the owner has a single grant for each of the keys.
    pub(crate) fn has_grants(&mut self) {
        self.has_grants = true;
    }

    /// Returns whether the store's queue has an entry for this claim.
    pub(crate) fn is_queued(&self) -> bool {
        self.entry.is_some()
    }

    /// Returns whether the store's last answer was that the claim waits.
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

    /// Completes when the store notifies that it has granted the entry. Returns the number of waiters after the entry.
    /// Never completes without an entry. This method is cancel safe.
    pub(crate) async fn notified(&self) -> usize {
        match self.entry.as_ref().and_then(|entry| entry.subscription.as_ref()) {
            Some(subscription) => subscription.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Takes the notification that the store has granted the entry. Returns the number of waiters after the entry, or
    /// `None` if no notification has arrived.
    pub(crate) fn take_notification(&self) -> Option<usize> {
        self.entry.as_ref()?.subscription.as_ref()?.take()
    }

    /// Returns the grant that a notification announced. Returns `None` if the grant may have expired by now; in that
    /// case a request to the store is needed.
    pub(crate) fn served(&self, waiters: usize) -> Option<Granted> {
        let entry = self.entry.as_ref()?;
        let grant = Grant::new(entry.sent, entry.lease).with_waiters(Some(waiters));
        // The grant began after `sent`, because at that request the store answered that the claim waits. The lease
        // cannot be counted from the arrival of the notification, which may have been delayed.
        let end = expiry::held_until(self.cleanup.capability.placement, grant.sent, entry.lease);
        let arrived = self.cleanup.clock.now();
        (!end.is_past(arrived)).then_some(Granted { grant, arrived })
    }

    /// Records that a request is about to be sent.
    pub(crate) fn begin_request(&mut self) {
        // The state changes before the request is awaited. If the future is dropped during the await, the rollback uses
        // this state.
        self.state = Sent::Request;
        self.claim.not_sent();
    }

    /// Records that the store has neither a grant nor an entry of the claim.
    pub(crate) fn settle(&mut self) {
        (self.state, self.entry, self.leaving) = (Sent::Nothing, None, None);
    }

    /// Records that the last request has left no grant at the store.
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

    /// Records that the entry is about to be released. After this, no other waiter can take the entry over, and its
    /// notifications are ignored. The store may grant the entry until the release is answered. So the next acquisition
    /// of this process waits for the release, even if the background completes it.
    pub(crate) fn leaving(&mut self) {
        self.entry = None;
        self.leaving = Some(self.cleanup.under_way.add(&self.claim, self.cleanup.clock.now()));
    }

    /// Moves the claim and its entry out of this value, for the next waiter of the local queue. Returns `None` if the
    /// claim has no entry.
    ///
    /// Also returns `None` if the store confirms its grants and a heartbeat is unanswered. In that case the backend may
    /// be releasing a grant of this owner, so the claim must roll back.
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
        // Only one of the two values may roll the claim back.
        self.state = Sent::Nothing;
        Some(Box::new(left))
    }

    /// Takes over the claim and the entry of another waiter. The grant will have the lease that this waiter requests.
    /// If the lease could become longer than that, returns `false`, and the claim of the other waiter rolls back.
    pub(crate) fn adopt(&mut self, mut left: LeftEntry) -> bool {
        // A heartbeat of the other waiter may arrive after the grant, and extend it to that waiter's ttl.
        if left.entry.as_ref().is_some_and(|entry| entry.unanswered > self.claim.ttl) {
            return false;
        }
        // The next heartbeat sets the ttl of the entry. Until this heartbeat is answered, the lease of a grant may be
        // as short as `QueueEntry::lease`.
        left.claim.ttl = self.claim.ttl;
        left.claim.fencing = self.claim.fencing;
        left.claim.renews = self.claim.renews;
        *self = *left;
        true
    }

    /// Moves the claim out of this value, for a lease, which must then release the grant. This value continues with a
    /// new owner.
    pub(crate) fn take(&mut self, owners: &OwnerSource) -> Claim {
        // There is no await point between this call and the creation of the lease, so the grant cannot be lost in
        // between.
        self.settle();
        self.has_grants = false;
        // If the request for the fencing token fails, the grant is released, and the wait continues with this value.
        // The owner of a released grant must not be used again.
        let next = owners.mint_like(self.claim.owner);
        let taken = self.claim.clone();
        self.claim.set_owner(next);
        taken
    }

    /// Replaces the owner, if the store certainly has neither a grant nor an entry of the current owner.
    pub(crate) fn unless_sent(&mut self, owner: impl FnOnce() -> Owner) {
        if self.state == Sent::Nothing && self.entry.is_none() && !self.has_grants {
            self.claim.set_owner(owner());
        }
    }

    /// Rolls back, and continues with another owner. The outcome of the last request is unknown, so its owner must not
    /// be used again.
    pub(crate) fn start_over(&mut self, owners: &OwnerSource) {
        self.roll_back();
        self.has_grants = false;
        self.claim.set_owner(owners.mint_like(self.claim.owner));
    }

    fn roll_back(&mut self) {
        // The subscription ends with the entry, so a later notification is ignored.
        let was_queued = self.entry.take().is_some();
        let certainty = match self.state {
            Sent::Nothing => return,
            // A claim that was certainly not sent needs no release. Such releases would accumulate during an outage. A
            // claim that was queued before may have an entry at the store.
            Sent::Request if self.cleanup.capability.marks_sent && !self.claim.is_sent() && !was_queued => {
                self.state = Sent::Nothing;
                return;
            }
            Sent::Request if self.has_grants => Certainty::MaybeAgain,
            Sent::Request => Certainty::Maybe,
            // One answered release is enough: the request that queued the claim was answered, and a late heartbeat does
            // not restore the entry.
            Sent::Queued => Certainty::Granted,
        };
        // This value may continue with another owner, of which the store has nothing.
        self.state = Sent::Nothing;
        // If a server is paused while a request is on its way, the request takes effect when the server continues.
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
