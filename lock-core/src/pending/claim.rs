//! A claim that rolls back.

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

/// The minimum time to keep cleaning up after an unanswered request, even for a shorter ttl.
const LATE_REQUEST: Duration = Duration::from_secs(30);

/// The state of a claim at the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// No request is under way, and no entry is queued.
    Nothing,
    /// A request is under way.
    Request,
    /// An entry in the store's queue.
    Queued,
}

/// A claim with its entry in the store's queue that one waiter passes to the next. It is boxed, because this is rare.
pub(crate) type LeftEntry = Box<PendingClaim>;

/// A claim that rolls back when it is dropped.
///
/// It is made before the first byte is sent. So a future can be dropped at every await point: a possible grant or queue
/// entry is released in the background, by owner.
#[derive(Debug)]
pub(crate) struct PendingClaim {
    cleanup: Arc<Cleanup>,
    pub(crate) claim: Claim,
    state: Sent,
    entry: Option<QueueEntry>,
    /// Whether the owner has grants already, by separate requests.
    has_grants: bool,
    /// The release of the entry, once it has begun.
    leaving: Option<ReleaseUnderWay>,
}

/// An entry in the store's queue.
#[derive(Debug)]
pub(crate) struct QueueEntry {
    /// When the request was sent that queued it.
    pub(crate) since: Moment,
    /// When the last request was sent that was answered with "keep waiting".
    pub(crate) sent: Moment,
    /// The shortest lease that a grant of this entry may have. Its waiters may have requested different ones, and
    /// unanswered heartbeats may have arrived.
    pub(crate) lease: Duration,
    /// When the next heartbeat is due, if the store has heartbeats.
    pub(crate) heartbeat: Option<Moment>,
    /// The longest lease of an unanswered heartbeat, which may still arrive, and extend a grant.
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

    /// Notes that the owner holds each of the keys by a single grant.
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

    /// Completes when the store has granted the entry, and returns how many wait after it. Never completes without an
    /// entry. Cancel safe.
    pub(crate) async fn notified(&self) -> usize {
        match self.entry.as_ref().and_then(|entry| entry.subscription.as_ref()) {
            Some(subscription) => subscription.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Takes the notification that the store has granted the entry, if it arrived: how many wait after it.
    pub(crate) fn take_notification(&self) -> Option<usize> {
        self.entry.as_ref()?.subscription.as_ref()?.take()
    }

    /// Returns the grant that a notification promised; `None` if it is too late to be certain of it, so that the store
    /// must be asked.
    pub(crate) fn served(&self, waiters: usize) -> Option<Granted> {
        let entry = self.entry.as_ref()?;
        let grant = Grant::new(entry.sent, entry.lease).with_waiters(Some(waiters));
        // The grant began after `sent`, because a claim that holds already is not answered with "keep waiting". The
        // time at which the notification arrived cannot be the bound, because it may have been delayed.
        let end = expiry::held_until(self.cleanup.capability.placement, grant.sent, entry.lease);
        let arrived = self.cleanup.clock.now();
        (!end.is_past(arrived)).then_some(Granted { grant, arrived })
    }

    /// Notes that a request is about to be sent.
    pub(crate) fn begin_request(&mut self) {
        // This comes before the await that sends it: a future that is dropped there rolls back by this state.
        self.state = Sent::Request;
        self.claim.not_sent();
    }

    /// Notes that the claim is unknown to the store.
    pub(crate) fn settle(&mut self) {
        (self.state, self.entry, self.leaving) = (Sent::Nothing, None, None);
    }

    /// Notes that the last request was not granted.
    pub(crate) fn nothing_taken(&mut self) {
        self.state = Sent::Nothing;
    }

    /// Notes that the last request changed nothing: the claim waits as before.
    pub(crate) fn waits_on(&mut self) {
        self.state = Sent::Queued;
    }

    /// Notes that the store's queue has an entry for the claim.
    pub(crate) fn queued(&mut self, entry: impl FnOnce(Option<QueueEntry>) -> QueueEntry) {
        self.state = Sent::Queued;
        self.entry = Some(entry(self.entry.take()));
    }

    /// Notes that the entry is about to be released: no other waiter can take it over, and no notification of it
    /// counts. The next acquisition of this process waits for the release, even if the background completes it: until
    /// the entry is released, it may be granted.
    pub(crate) fn leaving(&mut self) {
        self.entry = None;
        self.leaving = Some(self.cleanup.under_way.add(&self.claim, self.cleanup.clock.now()));
    }

    /// Takes the claim with its entry out, for the next waiter of the local queue.
    ///
    /// Returns `None` also if a heartbeat is unanswered over a store that confirms its grants: the backend may be giving
    /// a grant of this owner back. Then the claim is rolled back.
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
        // Exactly one of the two values rolls the owner back.
        self.state = Sent::Nothing;
        Some(Box::new(left))
    }

    /// Takes over the claim and the entry of another waiter. The grant will have the lease that this waiter requests.
    /// Returns `false` if it could last longer: then the entry of the other waiter is rolled back.
    pub(crate) fn adopt(&mut self, mut left: LeftEntry) -> bool {
        // A heartbeat of the other waiter may arrive after the grant, and would extend it to the ttl of that waiter.
        if left.entry.as_ref().is_some_and(|entry| entry.unanswered > self.claim.ttl) {
            return false;
        }
        // The next heartbeat gives the entry this ttl. Until it is answered, a grant may be as short as
        // `QueueEntry::lease`.
        left.claim.ttl = self.claim.ttl;
        left.claim.fencing = self.claim.fencing;
        left.claim.renews = self.claim.renews;
        *self = *left;
        true
    }

    /// Hands the claim over to a lease, which is then responsible for its release. This value continues with another
    /// owner.
    pub(crate) fn take(&mut self, owners: &OwnerSource) -> Claim {
        // There is no await between this and the lease, so some value always releases the owner.
        self.settle();
        self.has_grants = false;
        // If no fencing token can be had, the wait continues with this value. The owner of the lost grant is released,
        // and so never used again.
        let next = owners.mint_like(self.claim.owner);
        let taken = self.claim.clone();
        self.claim.set_owner(next);
        taken
    }

    /// Continues with another owner, if this one is unknown to the store.
    pub(crate) fn unless_sent(&mut self, owner: impl FnOnce() -> Owner) {
        if self.state == Sent::Nothing && self.entry.is_none() && !self.has_grants {
            self.claim.set_owner(owner());
        }
    }

    /// Rolls back, and continues with another owner: the outcome of the request is unknown, so its owner is never used
    /// again.
    pub(crate) fn start_over(&mut self, owners: &OwnerSource) {
        self.roll_back();
        self.has_grants = false;
        self.claim.set_owner(owners.mint_like(self.claim.owner));
    }

    fn roll_back(&mut self) {
        // This ends the subscription too: a later notification finds no mailbox.
        let was_queued = self.entry.take().is_some();
        let certainty = match self.state {
            Sent::Nothing => return,
            // An outage must not pile up releases of claims that were never sent. A claim that was queued before has an
            // entry.
            Sent::Request if self.cleanup.capability.marks_sent && !self.claim.is_sent() && !was_queued => {
                self.state = Sent::Nothing;
                return;
            }
            Sent::Request if self.has_grants => Certainty::MaybeAgain,
            Sent::Request => Certainty::Maybe,
            // The request that queued the claim was answered, and a late heartbeat does not restore an entry.
            Sent::Queued => Certainty::Granted,
        };
        // The value may continue with another owner, which is unknown to the store.
        self.state = Sent::Nothing;
        // A request that is under way to a stopped server takes effect when the server continues.
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
