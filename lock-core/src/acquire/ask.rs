//! Sends the requests of a claim to the store, and keeps its entry in the store's queue.

use std::time::Duration;

use super::event::Answer;
use crate::backend::{Ask, Attempt, Grant, Heartbeat, Held};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::{LockError, LockErrorKind, Result};
use crate::expiry;
use crate::notifications::{Notifications, Subscription};
use crate::pending::{Granted, PendingClaim, QueueEntry};

/// The shortest time between two heartbeats, even if the holder's lease ends earlier.
const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(1);

/// The shortest time between two heartbeats of the first waiter for a key that a client of another library holds. The
/// actual time is this value times a random factor between 1 and 2.
///
/// Such a client sends no notification when it releases the key. So the waiter tries as often as such clients do; with
/// longer pauses, those clients would usually get the key first. Only the first waiter sends these heartbeats, so the
/// cost does not grow with the number of waiters.
const FOREIGN_HEARTBEAT: Duration = Duration::from_millis(50);

impl PendingClaim {
    /// Sends one request to the store.
    pub(super) async fn ask(&mut self, engine: &Engine, ask: Ask) -> Result<Answer> {
        let beats = engine.capability.waiting.by_heartbeats();
        if beats && self.is_queued() {
            if let Some(answer) = self.heartbeat(engine).await? {
                return Ok(answer);
            }
            let key = engine.observer.redact_key(&self.claim.key, None);
            tracing::debug!(lock.key = %key, "the entry in the queue is gone, queueing again");
            self.start_over(&engine.owners);
        }
        // `is_waiting` is read before `begin_request`, which changes it. An entry does not imply `is_waiting`: if the
        // previous waiter passed this claim and its entry on while a request was unanswered, the entry exists, but the
        // store's last answer is not known.
        let (waiting, queued) = (self.is_waiting(), self.is_queued());
        // A claim with an entry must enqueue again, because any other request would remove the entry from the store's
        // queue.
        let ask = if queued { Ask::Enqueue { room: None } } else { ask };
        self.begin_request();
        // The subscription comes before the request, because the notification may arrive before the answer.
        let subscription = (ask.enqueues() && beats)
            .then(|| Notifications::subscribe(&engine.notifications, self.claim.owner));
        match engine.store.acquire(&self.claim, ask).await {
            // The claim stays unchanged until a lease takes it over. If the claim is dropped before that, it still
            // rolls back.
            Ok(Attempt::Granted(grant)) => self.in_time(engine, grant).map(Answer::Granted),
            Ok(Attempt::Held(held)) => {
                self.held(engine, &held, subscription);
                Ok(Answer::Held(held))
            }
            Err(error) => {
                match () {
                    () if error.is_ambiguous() || self.claim.is_resent() => self.start_over(&engine.owners),
                    () if waiting => self.waits_on(),
                    () if queued => self.start_over(&engine.owners),
                    () => {
                        self.nothing_taken();
                        // The backend may have released a grant of this owner, and such an owner must not be used
                        // again. So the claim gets a new owner.
                        let owner = self.claim.owner;
                        self.unless_sent(|| engine.owners.mint_like(owner));
                    }
                }
                Err(error)
            }
        }
    }

    /// Removes the claim from the store's queue. If the claim was granted in the meantime, the same request releases
    /// the grant. If the store does not answer, the background task repeats the request.
    pub(super) async fn leave(&mut self, engine: &Engine) {
        if !self.is_waiting() {
            return;
        }
        // The entry is discarded before the await, so that no other waiter takes it over. Otherwise this request could
        // release the grant of that waiter.
        self.leaving();
        // `settle` is called only after the answer. If the future is dropped at this await, the claim rolls back in the
        // background.
        if engine.release(&self.claim, None).await.is_ok() {
            self.settle();
        }
    }

    /// Records the answer that the key is held.
    fn held(&mut self, engine: &Engine, held: &Held, subscription: Option<Subscription>) {
        let Some(sent) = held.queued_at else {
            if self.claim.is_resent() {
                // This is the answer to a repeated request. The store may still grant the first one.
                self.start_over(&engine.owners);
            }
            self.settle();
            return;
        };
        let waiter_lease = engine.capability.waiter_lease(&self.claim);
        let (waiting, now) = (engine.capability.waiting, engine.clock.now());
        self.queued(|before| {
            let since = before.as_ref().map_or(sent, |entry| entry.since);
            let often = (held.foreign && held.position == Some(0))
                .then(|| FOREIGN_HEARTBEAT.mul_f64(1.0 + fastrand::f64()));
            let heartbeat =
                waiting.by_heartbeats().then(|| next_heartbeat(sent, waiter_lease, held, often, now));
            // The previous waiter of this entry, or an unanswered heartbeat, may have requested a shorter lease. The
            // store may have executed the requests in any order, so the shortest lease counts.
            let lease = before.as_ref().map_or(waiter_lease, |entry| entry.lease.min(waiter_lease));
            let subscription = subscription.or_else(|| before.and_then(|entry| entry.subscription));
            QueueEntry { since, sent, lease, heartbeat, unanswered: Duration::ZERO, subscription }
        });
    }

    /// Sends a heartbeat to the store. Returns `None` if the store no longer has the claim's entry.
    async fn heartbeat(&mut self, engine: &Engine) -> Result<Option<Answer>> {
        let (asked, ttl) = (engine.capability.waiter_lease(&self.claim), self.claim.ttl);
        let mut before = Duration::ZERO;
        if let Some(entry) = self.entry() {
            // The values are recorded before the request. The store may execute the request even if no answer arrives
            // or this future is dropped.
            entry.lease = entry.lease.min(asked);
            before = entry.unanswered;
            entry.unanswered = before.max(ttl);
        }
        match engine.store.heartbeat(&self.claim).await {
            Ok(Heartbeat::Granted(grant)) => {
                self.in_time(engine, grant).map(|granted| Some(Answer::Granted(granted)))
            }
            Ok(Heartbeat::Waiting(held)) => {
                self.held(engine, &held, None);
                if let Some(entry) = self.entry() {
                    // This heartbeat is answered, so it cannot reach the store later. Earlier unanswered heartbeats
                    // still can.
                    entry.unanswered = before;
                }
                Ok(Some(Answer::Held(held)))
            }
            Ok(Heartbeat::Gone) => Ok(None),
            // After an error the store may still have the entry, so the next heartbeat checks again.
            Err(error) => {
                if engine.capability.waiting.confirms() && error.is_ambiguous() {
                    // The backend may have released a grant that too few replicas had stored. That release may still be
                    // under way, and would remove a later grant of this owner.
                    self.start_over(&engine.owners);
                }
                Err(error)
            }
        }
    }

    /// Refuses a grant if its answer took at least as long as its lease. The claim then continues with a new owner.
    fn in_time(&mut self, engine: &Engine, grant: Grant) -> Result<Granted> {
        // The store may still have the late grant of this owner, so the claim releases it and starts over.
        in_time(engine, grant, engine.clock.now()).inspect_err(|_| self.start_over(&engine.owners))
    }
}

/// Refuses a grant if its answer, which arrived at `arrived`, took at least as long as the lease.
fn in_time(engine: &Engine, grant: Grant, arrived: Moment) -> Result<Granted> {
    let deadline = expiry::held_until(engine.capability.placement, grant.sent, grant.lease);
    if !deadline.is_past(arrived) {
        return Ok(Granted { grant, arrived });
    }
    let detail = "the answer took longer than the ttl: choose a longer ttl, or a store that is nearer";
    Err(LockError::new(LockErrorKind::Unavailable, detail).nothing_taken())
}

/// Returns when the next heartbeat is due: after a third of the waiter's lease, or when the holder's lease ends,
/// whichever is earlier. `often` is a shorter interval, for keys whose release only a heartbeat can discover.
fn next_heartbeat(
    sent: Moment,
    waiter_lease: Duration,
    held: &Held,
    often: Option<Duration>,
    now: Moment,
) -> Moment {
    let third = waiter_lease / 3;
    let regular = sent.plus(often.map_or(third, |often| third.min(often)));
    match held.remaining.map(|left| now.plus(left.max(SHORTEST_HEARTBEAT))) {
        Some(free) => free.earlier(regular, now),
        None => regular,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_due_in_time_for_whoever_may_hold() {
        let ms = Duration::from_millis;
        let sent = Moment::from_parts((1_000_000_000, 1_000_000_000));
        // Each row: the waiter's lease, the rest of the holder's lease, the value of `often`, and the time from the
        // last heartbeat to the next one.
        for (lease, left, often, expected) in [
            (ms(2_000), None, None, Duration::from_secs(2) / 3),
            (ms(2_000), Some(ms(60_000)), Some(ms(100)), ms(100)),
            (ms(2_000), None, Some(ms(100)), ms(100)),
            (ms(150), None, Some(ms(100)), ms(50)),
            (ms(2_000), Some(ms(40)), None, ms(60)),
            (ms(2_000), Some(ms(40)), Some(ms(100)), ms(60)),
            (ms(2_000), Some(ms(0)), Some(ms(100)), ms(21)),
        ] {
            let held = Held { remaining: left, ..Held::default() };
            // The answer took 20 ms.
            let due = next_heartbeat(sent, lease, &held, often, sent.plus(ms(20)));
            assert_eq!(due, sent.plus(expected), "{lease:?} {left:?} {often:?}");
        }
    }
}
