//! A claim that gives itself back.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Ask, Attempt, Claim, Grant, Heartbeat, Held};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::{LockError, LockErrorKind, Result};
use crate::expiry;
use crate::lease::Certainty;
use crate::notifications::{Notifications, Subscription};

/// For so long at least an unanswered request is cleaned up after, however short its ttl.
const LATE_REQUEST: Duration = Duration::from_secs(30);

/// The shortest time between two signs of life, whatever the store says of its holder.
const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(1);

/// What the store may know of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// Nothing that outlives the answer.
    Nothing,
    /// A request is on its way.
    Request,
    /// It has a place in the store's queue.
    Queued,
}

/// A claim that gives itself back: made before the first byte is sent, so that a future dropped at any await point
/// leaves nothing behind.
#[derive(Debug)]
pub(crate) struct PendingClaim {
    engine: Arc<Engine>,
    pub(crate) claim: Claim,
    state: Sent,
    entry: Option<QueueEntry>,
    /// The owner has grants already, by requests of their own.
    has_grants: bool,
}

/// A place in the store's queue.
#[derive(Debug)]
struct QueueEntry {
    /// When the last request was sent that was answered with "keep waiting".
    sent: Moment,
    /// When that answer arrived, by the clock of this process.
    answered: Moment,
    /// The shortest lease that a grant by this place may bring: those who had it may have asked for different ones, and
    /// what was not answered may have arrived.
    lease: Duration,
    /// When the next sign of life is due, where the store wants any.
    heartbeat: Option<Moment>,
    /// The longest lease for which a sign of life was sent that was not answered: it may yet arrive, and extend what was
    /// granted meanwhile.
    unanswered: Duration,
    subscription: Option<Subscription>,
}

impl PendingClaim {
    pub(crate) fn new(engine: &Arc<Engine>, claim: Claim) -> Self {
        Self { engine: Arc::clone(engine), claim, state: Sent::Nothing, entry: None, has_grants: false }
    }

    /// Notes that the owner holds each of the keys by a grant of its own.
    pub(crate) fn has_grants(&mut self) {
        self.has_grants = true;
    }

    /// Whether it has a place in the store's queue.
    pub(crate) fn is_queued(&self) -> bool {
        self.entry.is_some()
    }

    /// When the store last said that the claim has its place.
    pub(crate) fn answered(&self) -> Option<Moment> {
        Some(self.entry.as_ref()?.answered)
    }

    /// When the next sign of life is due, where the store wants any.
    pub(crate) fn heartbeat_due(&self) -> Option<Moment> {
        self.entry.as_ref()?.heartbeat
    }

    /// Completes when the store has served the place, and returns how many wait behind it. Never completes without a place.
    /// Cancel safe.
    pub(crate) async fn word(&self) -> usize {
        match self.entry.as_ref().and_then(|entry| entry.subscription.as_ref()) {
            Some(subscription) => subscription.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Whether the store has said that the claim is granted, and how many waited behind it; tells once.
    pub(crate) fn granted(&self) -> Option<usize> {
        self.entry.as_ref()?.subscription.as_ref()?.take()
    }

    /// Leaves the store's queue. A grant that came meanwhile is given back by the same request. Without an answer, the
    /// background does it.
    pub(crate) async fn leave(&mut self) {
        if self.state != Sent::Queued {
            return;
        }
        let engine = Arc::clone(&self.engine);
        if engine.release(&self.claim, None).await.is_ok() {
            (self.state, self.entry) = (Sent::Nothing, None);
        }
    }

    /// The place, for the next in line.
    pub(crate) fn take_entry(&mut self) -> Option<Self> {
        let entry = self.entry.take()?;
        let left = Self {
            engine: Arc::clone(&self.engine),
            claim: self.claim.clone(),
            state: self.state,
            entry: Some(entry),
            has_grants: self.has_grants,
        };
        self.state = Sent::Nothing;
        Some(left)
    }

    /// Takes over what another one has begun: the place is kept, what will be held is this one's. `false` where that could
    /// be held for longer than this one asks for: then the place is given back.
    pub(crate) fn adopt(&mut self, mut left: Self) -> bool {
        if left.entry.as_ref().is_some_and(|entry| entry.unanswered > self.claim.ttl) {
            return false;
        }
        left.claim.ttl = self.claim.ttl;
        left.claim.fencing = self.claim.fencing;
        *self = left;
        true
    }

    /// Asks the store once.
    pub(crate) async fn ask(&mut self, ask: Ask) -> Result<Attempt> {
        let engine = Arc::clone(&self.engine);
        let beats = engine.capability.waiting.by_heartbeats();
        if beats && self.is_queued() {
            if let Some(attempt) = self.heartbeat().await? {
                return Ok(attempt);
            }
            let key = engine.observer.redact_key(&self.claim.key, None);
            tracing::debug!(lock.key = %key, "the entry in the queue is gone, queueing again");
            self.start_over();
        }
        let queued = self.state == Sent::Queued;
        // A place that is asked after without a place would be given up.
        let ask = if queued { Ask::Enqueue { room: None } } else { ask };
        self.state = Sent::Request;
        self.claim.not_sent();
        let subscription = ask
            .enqueues()
            .then(|| beats.then(|| Notifications::subscribe(&engine.notifications, self.claim.owner)))
            .flatten();
        let answer = engine.store.acquire(&self.claim, ask).await;
        match &answer {
            Ok(Attempt::Granted(grant)) => return self.in_time(*grant).map(Attempt::Granted),
            Ok(Attempt::Held(held)) => self.held(held, subscription),
            Err(error) if error.is_ambiguous() || queued || self.claim.is_resent() => self.start_over(),
            Err(_) => self.state = Sent::Nothing,
        }
        answer
    }

    fn held(&mut self, held: &Held, subscription: Option<Subscription>) {
        let Some(kept) = held.queued_at else {
            if self.claim.is_resent() {
                // The answer is that to the second request; the first may yet be granted.
                self.start_over();
            }
            (self.state, self.entry) = (Sent::Nothing, None);
            return;
        };
        self.state = Sent::Queued;
        let before = self.entry.take();
        let asked = self.waiter_lease();
        let lease = before.as_ref().map_or(asked, |entry| entry.lease.min(asked));
        let subscription = subscription.or_else(|| before.and_then(|entry| entry.subscription));
        let heartbeat =
            self.engine.capability.waiting.by_heartbeats().then(|| self.next_heartbeat(kept, held));
        let answered = self.engine.clock.now();
        self.entry = Some(QueueEntry {
            sent: kept,
            answered,
            lease,
            heartbeat,
            unanswered: Duration::ZERO,
            subscription,
        });
    }

    fn waiter_lease(&self) -> Duration {
        self.engine.capability.waiter_lease(&self.claim)
    }

    /// A third of the time for which the place is kept, or when the holder's lease is over.
    fn next_heartbeat(&self, kept: Moment, held: &Held) -> Moment {
        let regular = kept.plus(self.waiter_lease() / 3);
        let now = self.engine.clock.now();
        match held.remaining.map(|left| now.plus(left.max(SHORTEST_HEARTBEAT))) {
            Some(free) if free.remaining(now) < regular.remaining(now) => free,
            _ => regular,
        }
    }

    /// Tells the store that the claim waits yet; `None` where it has forgotten the claim.
    async fn heartbeat(&mut self) -> Result<Option<Attempt>> {
        let asked = self.waiter_lease();
        let mut before = Duration::ZERO;
        if let Some(entry) = &mut self.entry {
            entry.lease = entry.lease.min(asked);
            before = entry.unanswered;
            entry.unanswered = before.max(self.claim.ttl);
        }
        let engine = Arc::clone(&self.engine);
        match engine.store.heartbeat(&self.claim).await {
            Ok(Heartbeat::Granted(grant)) => self.in_time(grant).map(|grant| Some(Attempt::Granted(grant))),
            Ok(Heartbeat::Waiting(held)) => {
                self.held(&held, None);
                if let Some(entry) = &mut self.entry {
                    entry.unanswered = before;
                }
                Ok(Some(Attempt::Held(held)))
            }
            Ok(Heartbeat::Gone) => Ok(None),
            // Neither yes nor no: the place may be kept, so it is asked after again.
            Err(error) => Err(error),
        }
    }

    /// The grant that the store's word promised; `None` where it is too late to be sure of it: then the store is asked.
    pub(crate) fn served(&mut self, waiters: usize) -> Option<Grant> {
        let entry = self.entry.as_ref()?;
        let lease = entry.lease;
        let grant = Grant::new(entry.sent, lease).with_waiters(Some(waiters));
        let end = grant.sent.plus(expiry::safe(self.engine.capability.placement, lease));
        (!end.is_past(self.engine.clock.now())).then_some(grant)
    }

    /// The next question is due at once.
    pub(crate) fn heartbeat_now(&mut self) {
        let now = self.engine.clock.now();
        if let Some(entry) = &mut self.entry {
            entry.heartbeat = Some(now);
        }
    }

    /// A grant whose answer took as long as its lease is no grant.
    fn in_time(&mut self, grant: Grant) -> Result<Grant> {
        let deadline = grant.sent.plus(expiry::safe(self.engine.capability.placement, grant.lease));
        if !deadline.is_past(self.engine.clock.now()) {
            return Ok(grant);
        }
        self.start_over();
        let detail = "the answer took longer than the ttl: choose a longer ttl, or a store that is nearer";
        Err(LockError::new(LockErrorKind::Unavailable, detail).nothing_taken())
    }

    /// Nobody knows what became of the request: its owner is given back in the background, and never used again.
    pub(crate) fn start_over(&mut self) {
        self.roll_back();
        self.has_grants = false;
        self.claim.set_owner(self.engine.owners.mint_like(self.claim.owner));
    }

    fn roll_back(&mut self) {
        self.entry = None;
        let certainty = match self.state {
            Sent::Nothing => return,
            // An outage must not pile up releases of what was never asked for.
            Sent::Request if self.engine.capability.marks_sent && !self.claim.is_sent() => {
                self.state = Sent::Nothing;
                return;
            }
            Sent::Request if self.has_grants => Certainty::MaybeAgain,
            Sent::Request => Certainty::Maybe,
            Sent::Queued => Certainty::Granted,
        };
        self.state = Sent::Nothing;
        // A request that is on its way to a server that stands still takes effect when that goes on, not before.
        let patience = if certainty == Certainty::Granted { Duration::ZERO } else { LATE_REQUEST };
        let until = self.engine.clock.now().plus(self.claim.ttl.max(patience));
        self.engine.release_in_background(&self.claim, None, certainty, until);
    }

    /// The claim is granted, and somebody else's to give back: should this one go on, it is with another owner.
    pub(crate) fn taken(&mut self) -> Claim {
        (self.state, self.entry, self.has_grants) = (Sent::Nothing, None, false);
        let next = self.engine.owners.mint_like(self.claim.owner);
        let taken = self.claim.clone();
        self.claim.set_owner(next);
        taken
    }
}

impl Drop for PendingClaim {
    fn drop(&mut self) {
        self.roll_back();
    }
}
