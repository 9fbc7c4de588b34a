//! The loop from request to guard: the one place that waits.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::backend::{Attempt, Claim, Grant, Held, Mode, Queue};
use crate::clock::Moment;
use crate::engine::{Acquiring, Engine};
use crate::error::{LockError, LockErrorKind, Result};
use crate::gate::Waiter;
use crate::guard::LockGuard;
use crate::hold::{Hold, Terms};
use crate::key::Key;
use crate::observe;
use crate::owner::OwnerRecord;
use crate::renewal::{Certainty, Keeper};
use crate::scope::LockScope;
use crate::strategy::{Contention, Decision, Strategy};

/// How often a wait says in the log that the store keeps failing.
const STORE_WARNING: Duration = Duration::from_secs(30);

/// The shortest pause after a failure of the store: a strategy's first pauses are meant for holders.
const STORE_PAUSE: Duration = Duration::from_millis(25);

/// What an error adds when the holder is this process: perhaps the very task that asks.
const OWN_GUARD: &str = "by this process; a task enters its own lock again only inside `run`";

/// For so long at least an unanswered request is cleaned up after, however short its ttl.
const LATE_REQUEST: Duration = Duration::from_secs(30);

/// The longest pause of a waiter with others behind it: a strategy with long pauses must not slow down those that have
/// short ones.
const LONGEST_IN_COMPANY: Duration = Duration::from_millis(200);

/// A request with all its defaults filled in.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) engine: Arc<Engine>,
    pub(crate) key: Key,
    /// Further keys, all or none.
    pub(crate) more: Arc<[Key]>,
    pub(crate) ttl: Duration,
    pub(crate) terms: Terms,
    pub(crate) strategy: Arc<dyn Strategy>,
    pub(crate) wait: Option<Duration>,
    pub(crate) fencing: bool,
    pub(crate) reentrant: bool,
    pub(crate) max_waiters: Option<usize>,
    pub(crate) label: Option<Cow<'static, str>>,
}

impl Plan {
    /// Refuses what contradicts itself or is beyond the store, before any I/O.
    pub(crate) fn check(&self) -> Result<()> {
        let store = &self.engine.capability;
        let invalid = |detail: String| Err(LockError::new(LockErrorKind::InvalidRequest, detail));
        self.terms.kind.check(store)?;
        if !self.more.is_empty() && !store.several {
            let detail = format!("the {} store cannot lock several keys at once in this version", store.store);
            return Err(LockError::new(LockErrorKind::Unsupported, detail));
        }
        if self.fencing && !store.fencing {
            let detail = format!("the {} store gives no fencing tokens", store.store);
            return Err(LockError::new(LockErrorKind::Unsupported, detail));
        }
        let ttl = self.ttl;
        if ttl.is_zero() {
            return invalid("ttl is 0: a lease needs a length, such as 10 s".to_owned());
        }
        if ttl < store.min_ttl || ttl > store.max_ttl {
            let (min, max) = (store.min_ttl, store.max_ttl);
            return invalid(format!("ttl is {ttl:?}: the {} store holds {min:?} to {max:?}", store.store));
        }
        if let Some(wait) = self.wait.filter(|_| !self.strategy.takes_wait_limit()) {
            let name = self.strategy.name();
            let detail =
                format!("wait is {wait:?}, but strategy `{name}` takes no limit: drop one, or use `retry`");
            return invalid(detail);
        }
        if self.terms.max_hold.is_some_and(|max| max.is_zero()) {
            return invalid("max_hold is 0: nothing could run".to_owned());
        }
        if let Some(min) = self.terms.min_hold {
            if let Some(max) = self.terms.max_hold.filter(|max| *max < min) {
                return invalid(format!("min_hold is {min:?}, longer than max_hold {max:?}"));
            }
            if !self.terms.renew && min > ttl {
                return invalid(format!(
                    "min_hold is {min:?}, longer than the ttl {ttl:?} that is not renewed"
                ));
            }
        }
        Ok(())
    }

    fn claim(&self) -> Claim {
        let record = OwnerRecord::new(Arc::clone(&self.engine.identity), self.label.clone());
        Claim {
            more: Arc::clone(&self.more),
            mode: self.terms.kind.mode(),
            queue: self.terms.kind.queue(),
            fencing: self.fencing,
            ..Claim::new(self.key.clone(), self.engine.owners.mint(), self.ttl, record)
        }
    }

    /// The grant that this task has already, if any.
    fn entered(&self) -> Result<Option<LockGuard>> {
        let Some(hold) = LockScope::hold(&self.engine, &self.key) else { return Ok(None) };
        if hold.has_ended() || hold.loss().is_some() {
            return Ok(None);
        }
        if !self.reentrant {
            return Err(LockError::new(LockErrorKind::Reentered, "the request says `reentrant(false)`"));
        }
        hold.terms.kind.admits(self.terms.kind)?;
        Ok(hold.enter().then(|| LockGuard::new(hold)))
    }
}

/// Acquires as planned.
pub(crate) async fn acquire(plan: Box<Plan>) -> Result<LockGuard> {
    let span = observe::acquire_span(&plan);
    let key = plan.key.clone();
    async move {
        plan.engine.check_process()?;
        match plan.entered()? {
            Some(guard) => Ok(guard),
            None => Acquire::new(&plan).run().await,
        }
    }
    .instrument(span)
    .await
    .map_err(|error| error.with_key(&key))
}

/// Why the loop stopped waiting.
enum Wake {
    /// Another try makes sense.
    Try,
    /// The strategy has had enough. Where the last try lies back, one more is owed.
    GiveUp(Decision),
}

/// One acquisition under way.
struct Acquire<'a> {
    plan: &'a Plan,
    engine: &'a Arc<Engine>,
    claim: InFlight<'a>,
    started: Moment,
    attempts: u32,
    /// Whether nothing was waited for since the last try.
    fresh: bool,
    /// When the log was last told that the store fails.
    warned: Option<Moment>,
    waiter: Option<Waiter<'a>>,
    /// Ends after the claim is given back, for a shutdown that waits for both.
    _under_way: Acquiring<'a>,
}

impl<'a> Acquire<'a> {
    fn new(plan: &'a Plan) -> Self {
        let engine = &plan.engine;
        Self {
            plan,
            engine,
            claim: InFlight { engine, claim: plan.claim(), state: Sent::Nothing },
            started: engine.clock.now(),
            attempts: 0,
            fresh: false,
            warned: None,
            waiter: None,
            _under_way: engine.begin_acquiring(),
        }
    }

    async fn run(mut self) -> Result<LockGuard> {
        // Found before the first byte is sent: without a keeper there is nothing to renew with.
        let keeper = self.engine.keepers.here()?;
        let mut last: Option<Decision> = None;
        loop {
            self.engine.check_open()?;
            self.attempts = self.attempts.saturating_add(1);
            self.fresh = true;
            let held = match self.claim.attempt().await {
                Ok(Attempt::Granted(grant)) => {
                    // A shutdown that began meanwhile does not wait for guards that come after it: dropping the claim
                    // gives it back.
                    self.engine.check_open()?;
                    let hold = self.granted(&grant, &keeper);
                    keeper.watch(&hold, grant.lease);
                    return Ok(LockGuard::new(hold));
                }
                Ok(Attempt::Held(held)) => held,
                Err(error) => {
                    self.store_failed(error).await?;
                    continue;
                }
            };
            if let Some(decision) = last {
                return Err(self.give_up(decision, held));
            }
            match self.wait(&held).await? {
                Wake::Try => {}
                Wake::GiveUp(decision) if self.fresh => return Err(self.give_up(decision, held)),
                Wake::GiveUp(decision) => last = Some(decision),
            }
        }
    }

    fn waited(&self) -> Duration {
        self.engine.clock.now().since(self.started)
    }

    fn contention(&self, held: &Held) -> Contention {
        let local = match &self.waiter {
            Some(waiter) => waiter.others(),
            None => self.engine.gate.waiters(&self.plan.key),
        };
        Contention::new()
            .with_attempts(self.attempts)
            .with_waited(self.waited())
            .with_wait_limit(self.plan.wait)
            .with_holder_remaining(held.remaining)
            .with_waiters(Some(local.max(held.waiters.unwrap_or(0))))
            .with_jitter(fastrand::f64())
    }

    /// Waits until another try makes sense, or the strategy has had enough.
    async fn wait(&mut self, held: &Held) -> Result<Wake> {
        loop {
            let pause = match self.plan.strategy.decide(&self.contention(held)) {
                Decision::RetryAfter(pause) => pause,
                enough => return Ok(Wake::GiveUp(enough)),
            };
            self.join()?;
            self.fresh = false;
            let was_head = self.asks_the_store();
            let alone = self.waiter.as_ref().is_none_or(|waiter| waiter.others() == 0);
            let news = self.pause(if alone { pause } else { pause.min(LONGEST_IN_COMPANY) }).await?;
            if news || was_head {
                return Ok(Wake::Try);
            }
            // Not its turn: the time is over, so the strategy is asked again, but not the store.
            self.attempts = self.attempts.saturating_add(1);
        }
    }

    /// Lines up with the other waiters of this process.
    fn join(&mut self) -> Result<()> {
        if self.waiter.is_some() {
            return Ok(());
        }
        match self.engine.gate.join(&self.plan.key, self.plan.max_waiters.unwrap_or(usize::MAX)) {
            Ok(waiter) => {
                self.waiter = Some(if self.queues_there() { waiter.only_counts() } else { waiter });
                Ok(())
            }
            Err(waiters) => {
                let detail = format!("{waiters} wait for it in this process, `max_waiters` allows no more");
                Err(LockError::new(LockErrorKind::Overloaded, detail).with_waiters(Some(waiters)))
            }
        }
    }

    fn asks_the_store(&self) -> bool {
        self.queues_there() || self.waiter.as_ref().is_none_or(Waiter::is_head)
    }

    /// Whether it has a place in the store's own queue; then its place in the line here only counts.
    fn queues_there(&self) -> bool {
        self.claim.claim.queue == Queue::Fifo
    }

    /// Sleeps, at most for `pause`. Says whether it was cut short by news.
    async fn pause(&mut self, pause: Duration) -> Result<bool> {
        let watches = self.engine.capability.notifies && self.asks_the_store();
        let queues_there = self.queues_there();
        let claim = &self.claim.claim;
        let waiter = &mut self.waiter;
        let news = async {
            match waiter {
                Some(waiter) if !queues_there => waiter.news().await,
                _ => std::future::pending().await,
            }
        };
        let mut changed = std::pin::pin!(self.engine.changed.notified());
        changed.as_mut().enable();
        self.engine.check_open()?;
        tokio::select! {
            () = news => Ok(true),
            () = self.engine.backend.changed_dyn(claim), if watches => Ok(true),
            () = tokio::time::sleep(pause) => Ok(false),
            () = changed => self.engine.check_open().map(|()| true),
        }
    }

    /// After a failure of the store: waits for another try, or returns the error.
    async fn store_failed(&mut self, error: LockError) -> Result<()> {
        if !error.is_temporary() {
            return Err(error.with_waited(self.waited()));
        }
        match self.plan.strategy.decide(&self.contention(&Held::default())) {
            Decision::RetryAfter(pause) => {
                let now = self.engine.clock.now();
                if self.warned.is_none_or(|last| now.since(last) >= STORE_WARNING) {
                    self.warned = Some(now);
                    tracing::warn!(lock.key = %self.plan.key, %error, "the store fails, the wait for the lock goes on");
                }
                self.engine.sleep(pause.max(STORE_PAUSE)).await
            }
            _ => Err(error.with_waited(self.waited())),
        }
    }

    fn granted(&mut self, grant: &Grant, keeper: &Arc<Keeper>) -> Arc<Hold> {
        if let Some(waiter) = self.waiter.as_mut().filter(|_| self.claim.claim.mode == Mode::Exclusive) {
            // Others can share the other modes, so there the next one asks at once.
            waiter.granted();
        }
        let claim = self.claim.taken();
        observe::granted(self.attempts, || self.waited());
        let span = observe::hold_span(self.plan);
        let hold = Hold::new(Arc::clone(self.engine), keeper, claim, self.plan.terms, grant, span);
        self.engine.hold_began();
        hold
    }

    fn give_up(&self, decision: Decision, held: Held) -> LockError {
        let waited = self.waited();
        let kind = match decision {
            Decision::Shed => LockErrorKind::Overloaded,
            _ if self.waiter.is_none() && self.attempts <= 1 => LockErrorKind::Contended,
            _ => LockErrorKind::TimedOut,
        };
        let waiters = self.contention(&held).waiters;
        observe::gave_up(&self.plan.key, kind, waited, held.holder.as_ref());
        let own = held.holder.as_ref().is_some_and(|holder| holder.identity() == &*self.engine.identity);
        let error = LockError::new(kind, if own { OWN_GUARD } else { "" })
            .with_waited(waited)
            .with_waiters(waiters)
            .with_retry_after(held.remaining)
            .with_holder(held.holder);
        if decision == Decision::Skip { error.skipped() } else { error }
    }
}

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
struct InFlight<'a> {
    engine: &'a Arc<Engine>,
    claim: Claim,
    state: Sent,
}

impl InFlight<'_> {
    async fn attempt(&mut self) -> Result<Attempt> {
        let queued = self.state;
        self.state = Sent::Request;
        self.claim.not_sent();
        let backend = &self.engine.backend;
        let answer = match self.claim.queue {
            Queue::Fifo => backend.enqueue_dyn(&self.claim, None).await,
            Queue::Barging => backend.try_acquire_dyn(&self.claim).await,
        };
        match &answer {
            Ok(Attempt::Granted(grant)) => return self.in_time(*grant).map(Attempt::Granted),
            Ok(Attempt::Held(_)) if self.claim.queue == Queue::Fifo => self.state = Sent::Queued,
            Ok(Attempt::Held(_)) => self.state = Sent::Nothing,
            Err(error) if error.is_ambiguous() || queued == Sent::Queued => self.start_over(),
            Err(_) => self.state = Sent::Nothing,
        }
        answer
    }

    /// A grant whose answer took as long as its lease is no grant.
    fn in_time(&mut self, grant: Grant) -> Result<Grant> {
        let drift = crate::hold::drift(self.engine.capability.placement, grant.lease);
        let deadline = grant.sent.plus(grant.lease.saturating_sub(drift));
        if !deadline.is_past(self.engine.clock.now()) {
            return Ok(grant);
        }
        self.start_over();
        let detail = "the answer took longer than the ttl: choose a longer ttl, or a store that is nearer";
        Err(LockError::new(LockErrorKind::Unavailable, detail).nothing_taken())
    }

    /// Nobody knows what became of the request: its owner is given back in the background, and never used again.
    fn start_over(&mut self) {
        self.give_back();
        self.claim.owner = self.engine.owners.mint();
    }

    fn give_back(&mut self) {
        let certainty = match self.state {
            Sent::Nothing => return,
            // An outage must not pile up releases of what was never asked for.
            Sent::Request if self.engine.capability.marks_sent && !self.claim.is_sent() => return,
            Sent::Request => Certainty::Maybe,
            Sent::Queued => Certainty::Granted,
        };
        self.state = Sent::Nothing;
        // A request that is on its way to a server that stands still takes effect when that goes on, not before.
        let patience = if certainty == Certainty::Maybe { LATE_REQUEST } else { Duration::ZERO };
        let until = self.engine.clock.now().plus(self.claim.ttl.max(patience));
        self.engine.give_back(&self.claim, None, certainty, until);
    }

    /// The claim is granted, and somebody else's to give back.
    fn taken(&mut self) -> Claim {
        self.state = Sent::Nothing;
        self.claim.clone()
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}
