//! Acquires and releases of the one server. Where many are under way, they leave in one call with those of other tasks.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::acquire::{fence_ttl, has_short_form, is_plain};
use super::release::{is_short, unmarked};
use super::server::Server;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::{Counted, Outcome, Step};
use crate::backend::redis::primary::{Primary, PrimaryConnection};
use crate::backend::redis::units::millis;
use crate::backend::{Ask, Attempt, Claim, Grant, Held, Released};
use crate::clock::{Clock, Moment};

/// The number of requests under way from which on those that can leave together do. With fewer, one write for many
/// commands does as well.
const MANY: usize = 48;

/// The number of full batches that the requests under way make, so that the server always has work.
const BATCHES: usize = 4;
const FULL_AT_LEAST: usize = 16;
/// The server serves nobody else for some 30 us. In larger batches the tasks take turns less evenly.
const FULL_AT_MOST: usize = 32;

/// Returns the number of steps in a full batch, or `None` where so few requests are under way that each is sent by
/// itself.
fn full(under_way: usize) -> Option<usize> {
    (under_way >= MANY).then(|| (under_way / BATCHES).clamp(FULL_AT_LEAST, FULL_AT_MOST))
}

/// What came of a request in a batch.
enum InBatch<T> {
    Answered(Result<T, Failure>),
    /// There was no answer by the deadline.
    Late,
    /// The server refused it as it is. Something else may be asked for, and has this time.
    Refused(Duration),
    /// It had no effect. The request is sent by itself, and has this time.
    Alone(Duration),
}

impl Server<Primary> {
    /// Makes one attempt within `deadline`.
    pub(crate) async fn acquire_within(
        &self,
        claim: &Claim,
        ask: Ask,
        deadline: Duration,
    ) -> Result<Attempt, Failure> {
        let live = self.connections.current();
        let counted = live.as_ref().map(|live| live.batches.count());
        let mut left = deadline;
        if let (Some(live), Some(full)) = (&live, counted.as_ref().map(Counted::under_way).and_then(full))
            && live.stops_scripts
            // A grant that needs copies is confirmed by itself.
            && live.session.is_none()
            && joins(claim, ask)
        {
            match acquire_in_batch(live, claim, full, deadline).await {
                InBatch::Answered(answer) => {
                    live.subscribe_holders(self.shared().shared_listeners());
                    return answer.map(Attempt::Granted);
                }
                InBatch::Late => return Err(self.elapsed(deadline)),
                // As after a plain SET: a caller that only probes gets no more than that the key is taken.
                InBatch::Refused(_) if ask == Ask::Probe => return Ok(Attempt::Held(Held::default())),
                InBatch::Refused(rest) => {
                    claim.mark_sent();
                    let asking = self.ask(live, claim, ask, (Clock::Suspend.now(), rest));
                    return timeout(rest, asking).await.unwrap_or_else(|_| Err(self.elapsed(deadline)));
                }
                InBatch::Alone(rest) => left = rest,
            }
        }
        match timeout(left, self.acquire(live.as_ref(), claim, ask, left)).await {
            Ok(answer) => answer,
            // Only a claim that was sent may have left something in the store.
            Err(_) if claim.is_sent() => Err(self.elapsed(deadline)),
            Err(_) => Err(self.not_sent(deadline)),
        }
    }

    /// Releases within `deadline`.
    pub(crate) async fn release_within(
        &self,
        claim: &Claim,
        keep_for: Option<Duration>,
        deadline: Duration,
    ) -> Result<Released, Failure> {
        let live = self.connections.current();
        let counted = live.as_ref().map(|live| live.batches.count());
        let mut left = deadline;
        if let (Some(live), Some(full)) = (&live, counted.as_ref().map(Counted::under_way).and_then(full))
            && keep_for.is_none_or(|keep| keep.is_zero())
            && is_short(claim)
        {
            match release_in_batch(live, claim, full, deadline).await {
                InBatch::Answered(answer) => return answer,
                InBatch::Late => return Err(self.elapsed(deadline)),
                InBatch::Refused(rest) | InBatch::Alone(rest) => left = rest,
            }
        }
        match timeout(left, self.release_over(live.as_ref(), claim, keep_for)).await {
            Ok(answer) => answer,
            Err(_) => Err(self.elapsed(deadline)),
        }
    }
}

/// Acquires with the SET of a batch.
async fn acquire_in_batch(
    live: &Arc<PrimaryConnection>,
    claim: &Claim,
    full: usize,
    deadline: Duration,
) -> InBatch<Grant> {
    // From here on the request may take effect, so a dropped claim must be released.
    claim.mark_sent();
    let value = claim.record.to_value(&claim.owner.token());
    let fence = claim.fencing.then(|| millis(fence_ttl(claim.ttl)));
    let step = Step::Acquire { key: claim.key.clone(), value, lease: millis(claim.ttl), fence };
    let (sent, outcome) = live.send_in_batch(step, full, deadline).await;
    match outcome {
        Outcome::Done(fence) => {
            if fence.is_some() {
                // From now on every renewal must keep the token remembered.
                claim.mark_fenced();
            }
            return InBatch::Answered(Ok(Grant::new(sent, claim.ttl).with_fence(fence)));
        }
        Outcome::Failed(failure) => return InBatch::Answered(Err(failure)),
        Outcome::Late => return InBatch::Late,
        Outcome::Refused | Outcome::Alone => {}
    }
    claim.mark_not_sent();
    match outcome {
        Outcome::Refused => InBatch::Refused(rest(sent, deadline)),
        _ => InBatch::Alone(rest(sent, deadline)),
    }
}

/// Releases in a batch, unless somebody waits for the lock.
async fn release_in_batch(
    live: &Arc<PrimaryConnection>,
    claim: &Claim,
    full: usize,
    deadline: Duration,
) -> InBatch<Released> {
    let step = Step::Release { key: claim.key.clone(), head: unmarked(&claim.owner.token()) };
    let (sent, outcome) = live.send_in_batch(step, full, deadline).await;
    match outcome {
        Outcome::Done(_) => InBatch::Answered(Ok(Released::Released)),
        Outcome::Failed(failure) => InBatch::Answered(Err(failure)),
        Outcome::Late => InBatch::Late,
        Outcome::Refused => InBatch::Refused(rest(sent, deadline)),
        Outcome::Alone => InBatch::Alone(rest(sent, deadline)),
    }
}

/// Returns what is left of a deadline that counts from `sent`.
fn rest(sent: Moment, deadline: Duration) -> Duration {
    sent.plus(deadline).remaining(Clock::Suspend.now())
}

/// Returns whether an acquire may join a batch: a free key is all that it hopes for.
fn joins(claim: &Claim, ask: Ask) -> bool {
    let is_short = is_plain(claim) || claim.more.is_empty() && has_short_form(claim, ask);
    // A holder that is notified subscribes first.
    is_short && !ask.enqueues() && !claim.notify_holder
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Mode, Queue};
    use crate::key::Key;
    use crate::owner::{Identity, OwnerRecord, OwnerSource};

    #[test]
    fn only_many_requests_leave_together() {
        for (under_way, expected) in
            [(MANY - 1, None), (MANY, Some(FULL_AT_LEAST)), (100, Some(25)), (1_000, Some(FULL_AT_MOST))]
        {
            assert_eq!(full(under_way), expected, "{under_way}");
        }
    }

    #[test]
    fn only_those_who_hope_for_a_free_key_join() {
        let owner = OwnerSource::new().expect("random bytes").mint();
        let record = OwnerRecord::new(Arc::new(Identity::of_this_process("test")), None);
        let key = |key| Key::new(key).expect("a key");
        let claim = || Claim::new(key("k"), owner, Duration::from_secs(1), record.clone());
        for fencing in [false, true] {
            let claim = || Claim { fencing, ..claim() };
            assert!(joins(&claim(), Ask::Probe) && joins(&claim(), Ask::Try));
            assert!(!joins(&claim(), Ask::Enqueue { room: None }));
            let shared = Claim { mode: Mode::Shared, ..claim() };
            let fair = Claim { queue: Queue::Fifo, ..claim() };
            let several = Claim { more: [key("l")].into(), ..claim() };
            let notified = Claim { notify_holder: true, ..claim() };
            for claim in [shared, fair, several, notified] {
                assert!(!joins(&claim, Ask::Probe), "{claim:?}");
            }
            // The script makes the name of the key of the token in the simple way.
            assert_eq!(joins(&Claim { key: key("{k}l"), ..claim() }, Ask::Try), !fencing);
        }
    }
}
