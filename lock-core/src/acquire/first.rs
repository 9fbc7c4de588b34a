//! The first question to the store, for a lock that is handed off inside its process.
//!
//! As a rule the key is free. Then there is a hold of it, and the state of the [loop](super::run), which waits for a held
//! key, is never made. What else came of the question is left to the loop.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tracing::Span;

use super::event::Answer;
use super::plan::Plan;
use super::spans::hold_span;
use crate::backend::{Ask, Attempt, Claim, Placement, Queue};
use crate::clock::Moment;
use crate::engine::{Acquiring, Engine};
use crate::error::Result;
use crate::guard::Hold;
use crate::lease::{Lease, Schedule};
use crate::pending::{Certainty, Earlier, Granted, PendingClaim};
use crate::strategy::{Contention, Decision};

/// What came of the first question.
pub(super) enum First<'a> {
    Granted(Hold),
    /// The loop goes on with the answer.
    Answered(Box<Answered<'a>>),
    /// The loop begins with the question.
    NotAsked,
    /// The key is held or waited for here, so the loop begins with the wait. The strategy's first pause.
    Busy(Duration),
}

/// How an acquisition of a barging claim begins.
pub(super) enum Begin {
    Ask(Ask),
    /// With a pause of the strategy, because the answer is known.
    Wait(Duration),
}

/// An answer that is left to the loop.
pub(super) struct Answered<'a> {
    pub(super) claim: PendingClaim,
    pub(super) ask: Ask,
    /// [`Engine::reconnects`] before the question.
    pub(super) asked_in: u64,
    pub(super) answer: Result<Answer>,
    /// The releases of this process that the question was asked behind.
    pub(super) earlier: Vec<Arc<Earlier>>,
    _under_way: Acquiring<'a>,
}

impl Plan {
    /// Returns whether the first question is asked before anything is waited for.
    pub(super) fn asks_first(&self) -> bool {
        self.options.kind.queue() == Queue::Barging && self.more.is_empty()
    }

    /// Returns how the acquisition begins.
    pub(super) fn begin(&self) -> Begin {
        let decide = || {
            let waiters = || self.engine().local_queue.waiters(&self.key);
            let contention = Contention::new()
                .with_attempts(1)
                .with_waited(Duration::ZERO)
                .with_wait_limit(self.wait)
                .with_waiters(self.strategy.uses_waiters().then(waiters))
                .with_jitter(fastrand::f64());
            self.strategy.decide(&contention)
        };
        self.begin_barging(decide)
    }

    /// Returns the cheapest question of a barging claim that can end in a grant, unless the answer is known. `decide`
    /// asks the strategy.
    pub(super) fn begin_barging(&self, decide: impl FnOnce() -> Decision) -> Begin {
        let (store, local_queue) = (&self.engine().capability.waiting, &self.engine().local_queue);
        let is_busy = local_queue.is_busy(&self.key);
        if !store.by_heartbeats() && !is_busy {
            // Where a question costs nothing, the strategy need not be asked first.
            return Begin::Ask(Ask::Try);
        }
        let Decision::RetryAfter(pause) = decide() else { return Begin::Ask(Ask::Try) };
        match () {
            // It waits for nobody, so it must ask to know anything.
            () if self.max_waiters == Some(0) => Begin::Ask(Ask::Probe),
            // The key is held or waited for in this process, so the request joins the local queue without a question. A
            // newcomer that asked could overtake those who wait.
            () if is_busy => Begin::Wait(pause),
            () if store.in_order() && local_queue.was_held(&self.key) => Begin::Wait(pause),
            () => Begin::Ask(Ask::Probe),
        }
    }
}

/// Asks a store in this process, which answers without waiting. `None` where it cannot. `now` is a clock that was just
/// read.
pub(super) fn at_once(plan: &Plan, ask: Ask, now: Moment) -> Result<Option<First<'_>>> {
    let engine = plan.engine();
    if engine.capability.placement != Placement::Embedded {
        return Ok(None);
    }
    // Behind a release of this process only the store's answer will do.
    if !engine.cleanup.under_way.of(plan.keys()).is_empty() {
        return Ok(None);
    }
    let _under_way = engine.begin_acquiring();
    engine.check_open()?;
    let schedule = plan.hub.renewers.here()?;
    let asked_in = engine.reconnects();
    let claim = plan.claim(now);
    let answer = match engine.store.acquire_now(&claim, ask, now) {
        None => return Ok(None),
        Some(Ok(Attempt::Granted(grant))) => {
            let mut unused = Unused { engine, claim: Some(&claim) };
            // A shutdown that began meanwhile does not wait for guards that come after it.
            engine.check_open()?;
            // The answer of a store in this process arrives when it is given, and so in time.
            let granted = Granted { grant, arrived: grant.sent };
            let span = hold_span(plan);
            unused.claim = None;
            drop(unused);
            return Ok(Some(First::Granted(hold(plan, &schedule, claim, &granted, span))));
        }
        Some(Ok(Attempt::Held(held))) => Ok(Answer::Held(held)),
        Some(Err(error)) => Err(error),
    };
    let mut claim = PendingClaim::new(&engine.cleanup, claim);
    if answer.as_ref().is_err_and(|error| error.is_ambiguous()) {
        claim.begin_request();
        claim.start_over(&engine.owners);
    }
    Ok(Some(First::Answered(Box::new(Answered {
        claim,
        ask,
        asked_in,
        answer,
        earlier: Vec::new(),
        _under_way,
    }))))
}

/// Asks the store.
pub(super) async fn ask_first(plan: &Plan, ask: Ask, started: Moment) -> Result<First<'_>> {
    let engine = plan.engine();
    let _under_way = engine.begin_acquiring();
    engine.check_open()?;
    // Before the first byte is sent: without a renewer nothing could be held.
    let schedule = plan.hub.renewers.here()?;
    let mut earlier = engine.cleanup.under_way.of(plan.keys());
    earlier.retain(|release| !release.is_over());
    if !earlier.is_empty() && !are_ahead(&earlier) {
        // The loop waits for them.
        return Ok(First::NotAsked);
    }
    let asked_in = engine.reconnects();
    let mut claim = PendingClaim::new(&engine.cleanup, plan.claim(started));
    let answer = claim.ask(engine, ask).await;
    if let Ok(Answer::Granted(granted)) = &answer
        && (!plan.fencing || granted.grant.fence.is_some())
        && engine.reported_lost(claim.claim.owner).is_none()
    {
        // A shutdown that began meanwhile does not wait for guards that come after it.
        engine.check_open()?;
        let span = hold_span(plan);
        let claim = claim.take(&engine.owners);
        return Ok(First::Granted(hold(plan, &schedule, claim, granted, span)));
    }
    Ok(First::Answered(Box::new(Answered { claim, ask, asked_in, answer, earlier, _under_way })))
}

/// Returns whether what this task sends now arrives behind all these releases.
fn are_ahead(earlier: &[Arc<Earlier>]) -> bool {
    let runtime = Handle::current().id();
    earlier.iter().all(|release| release.lets_ask(runtime))
}

/// Makes the hold of a grant.
fn hold(plan: &Plan, schedule: &Schedule<Lease>, claim: Claim, granted: &Granted, span: Span) -> Hold {
    let engine = plan.engine();
    let lease = Lease::new(Arc::clone(engine), schedule, claim, plan.options, granted, span);
    engine.lease_began();
    let hold = Hold::new(lease);
    let lease = hold.lease();
    schedule.watch(lease, granted.grant.lease);
    if let Some(reason) = engine.reported_lost(lease.claim().owner) {
        // Reported before there was a lease that could be told.
        lease.lose(reason);
    }
    if plan.fencing
        && let Some(token) = lease.known_fence()
    {
        lease.span.record("lock.fencing_token", token.get());
    }
    hold
}

/// A grant without a lease, which goes back to the store when it is dropped.
struct Unused<'a> {
    engine: &'a Engine,
    /// `None` once there is a lease.
    claim: Option<&'a Claim>,
}

impl Drop for Unused<'_> {
    fn drop(&mut self) {
        if let Some(claim) = self.claim {
            let until = self.engine.clock.now().plus(claim.ttl);
            self.engine.cleanup.release(claim, None, Certainty::Granted, until);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Waker};

    use super::*;
    use crate::backend::memory::Memory;
    use crate::backend::{Backend, Capability, FencingToken, Released, Renew, Renewal};
    use crate::manager::LockManager;

    /// A log that panics at the span of a grant, if so.
    struct Log {
        panics: bool,
    }

    impl tracing::Subscriber for Log {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            assert!(!self.panics || span.metadata().name() != "lock.hold", "a full disk");
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, _: &tracing::Event<'_>) {}
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_grant_goes_back_where_the_log_panics_before_there_is_a_guard() {
        let locks = LockManager::in_memory();
        let poll_in = |log| {
            let mut acquire = pin!(locks.lock("k").acquire());
            let poll = || acquire.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            catch_unwind(AssertUnwindSafe(|| tracing::subscriber::with_default(log, poll)))
        };
        // With only one log, another test that reaches the span first disables it for all.
        let _second = tracing::Dispatch::new(Log { panics: false });
        assert!(poll_in(Log { panics: false }).is_ok_and(|polled| polled.is_ready()));
        let polled = poll_in(Log { panics: true });
        assert!(polled.is_err(), "the log was asked");
        let next = locks.lock("k").try_acquire().await.expect("an answer");
        assert!(next.is_some(), "the key is still held");
    }

    /// A store in this process that counts what it is asked.
    #[derive(Debug, Default)]
    struct Counts {
        memory: Memory,
        asked: Arc<AtomicUsize>,
    }

    impl Backend for Counts {
        fn capability(&self) -> Capability {
            self.memory.capability()
        }

        async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.memory.acquire(claim, ask).await
        }

        fn acquire_now(&self, claim: &Claim, ask: Ask, now: Moment) -> Option<Result<Attempt>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.memory.acquire_now(claim, ask, now)
        }

        async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
            self.memory.renew(batch).await
        }

        async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
            self.memory.release(claim, keep_for).await
        }

        async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
            self.memory.fence(claim).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_loop_does_not_repeat_a_question_that_is_answered() {
        let store = Counts::default();
        let asked = Arc::clone(&store.asked);
        let locks = LockManager::builder(store).build().expect("a manager");
        let held = locks.lock("k").acquire().await.expect("it is free");
        assert_eq!(asked.swap(0, Ordering::Relaxed), 1);
        assert!(locks.lock("k").try_acquire().await.expect("an answer").is_none());
        assert_eq!(asked.swap(0, Ordering::Relaxed), 1, "held, and nothing waits");
        held.release().await.expect("an answer");
    }
}
