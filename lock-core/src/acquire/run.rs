//! The loop: ask the store, ask the strategy, wait, ask again.
//!
//! ```text
//!            +-- Wake::Ask ------> store ---- granted ----> Won ---> guard
//!            |                       |                      ^
//!  first --->+-- Wake::Notified -----|----------------------+
//!            +-- Wake::Handoff ------|----------------------+
//!            +-- Wake::Again         | held
//!            ^                       v
//!            +------ wait <------ strategy ---- enough ---> refusal
//! ```

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tracing::Span;

use super::event::{Answer, Asked, Next, Taken, Wake, Won};
use super::first::{Answered, Begin};
use super::lazy_claim::LazyClaim;
use super::partial_grants::PartialGrants;
use super::plan::Plan;
use super::recorder::{never_expires, store_fails};
use super::state::{Holder, LastQuestion, Waiting};
use super::watch::Watch;
use crate::backend::{Ask, BoxFuture, Held, Queue};
use crate::clock::Moment;
use crate::engine::{Acquiring, Engine};
use crate::error::{LockError, LockErrorKind, Result};
use crate::guard::Hold;
use crate::local_queue::{Expected, LastAnswer, Waiter};
use crate::pending::Earlier;
use crate::strategy::Decision;

/// How often the log says that the store keeps failing.
const STORE_WARNING: Duration = Duration::from_secs(30);

/// The shortest pause after a failure of the store. A strategy's first pauses are meant for holders.
const STORE_PAUSE: Duration = Duration::from_millis(25);

/// The longest pause of a claim with a queue entry, which it must keep alive.
const LONGEST_STORE_PAUSE: Duration = Duration::from_secs(1);

/// How long a request waits behind a value of another library without an expiry before the log says so.
const NO_EXPIRY_WARNING: Duration = Duration::from_secs(5);

/// The answer to the first question, if it was asked before the loop, and the releases that it was asked behind. Boxed,
/// because the future of the loop has room for it several times.
pub(super) type FirstAnswer = Option<Box<(Ask, Result<Answer>, Vec<Arc<Earlier>>)>>;

/// One acquisition under way.
pub(super) struct Acquire<'a> {
    pub(super) plan: &'a Plan,
    pub(super) engine: &'a Arc<Engine>,
    pub(super) claim: LazyClaim<'a>,
    pub(super) started: Moment,
    pub(super) attempts: u32,
    /// Whether it may have been suspended since `started`, so that the clock is to be read again.
    pub(super) has_awaited: bool,
    /// The strategy's first pause, where the key was held or waited for in this process when it began.
    pub(super) first_pause: Option<Duration>,
    /// The last question to the store.
    pub(super) question: LastQuestion,
    /// Whether the store was asked without a request for an entry in its queue, and has answered that the key is held.
    pub(super) has_only_tried: bool,
    /// Whether the strategy has decided to wait before the store was asked.
    pub(super) was_admitted: bool,
    /// Whether it was in the local queue before. Nobody who comes back is turned down.
    pub(super) has_queued: bool,
    /// The store failed: it is asked again then, not before.
    pub(super) ask_again: Option<Moment>,
    /// Since when it relies on being notified: since its first pause after the last question, or after it became the
    /// head of the local queue.
    pub(super) relies_since: Option<Moment>,
    /// [`Engine::reconnects`] before the store was last asked.
    pub(super) asked_in: u64,
    /// The pending notification of a store that is watched.
    pub(super) watch: Option<Watch>,
    /// What the store said last of the key, if that is held.
    pub(super) held: Held,
    pub(super) holder: Holder,
    /// How many requests a second find the key held: see `refusal.rs`.
    pub(super) rate: OnceLock<f64>,
    /// The store's last answer to this request.
    pub(super) last_answer: Option<LastAnswer>,
    /// When the log last said that the store fails.
    warned: Option<Moment>,
    pub(super) waiter: Option<Waiter<'a>>,
    /// Its grant may linger.
    pub(super) expected: Option<Expected<'a>>,
    /// The span of the request. One key of several has none.
    span: Option<&'a Span>,
    /// The keys that a request for several has already.
    pub(super) partial_grants: PartialGrants,
    /// Dropped after the claim has rolled back: a shutdown waits for both.
    _under_way: Acquiring<'a>,
}

impl<'a> Acquire<'a> {
    pub(super) fn new(plan: &'a Plan, started: Moment, span: Option<&'a Span>, claim: LazyClaim<'a>) -> Self {
        let engine = plan.engine();
        Self {
            plan,
            engine,
            claim,
            started,
            attempts: 0,
            has_awaited: false,
            first_pause: None,
            question: LastQuestion::None,
            has_only_tried: false,
            was_admitted: false,
            has_queued: false,
            ask_again: None,
            relies_since: None,
            asked_in: engine.reconnects(),
            watch: None,
            held: Held::default(),
            holder: Holder::Elsewhere,
            rate: OnceLock::new(),
            last_answer: None,
            warned: None,
            waiter: None,
            expected: None,
            span,
            partial_grants: PartialGrants::default(),
            _under_way: engine.begin_acquiring(),
        }
    }

    /// An acquisition whose first question is answered already. Returns the answer, for [`run`](Self::run).
    pub(super) fn after(
        plan: &'a Plan,
        started: Moment,
        span: &'a Span,
        answered: Answered<'a>,
    ) -> (Box<Self>, FirstAnswer) {
        let Answered { claim, ask, asked_in, answer, earlier, .. } = answered;
        let mut acquire =
            Box::new(Self::new(plan, started, Some(span), LazyClaim::made(plan, started, claim)));
        (acquire.attempts, acquire.asked_in, acquire.has_awaited) = (1, asked_in, true);
        acquire.question = LastQuestion::Fresh;
        (acquire, Some(Box::new((ask, answer, earlier))))
    }

    /// Runs until there is a hold, or none any more. `first` is the answer to the first question, if it was asked
    /// already.
    pub(super) async fn run(&mut self, mut first: FirstAnswer) -> Result<Hold> {
        // Before the first byte is sent: without a renewer nothing could be held.
        let schedule = self.plan.hub.renewers.here()?;
        let mut last = None;
        // With an answer, the key was asked for before the loop. Who joins the local queue takes a grant that lingers
        // since.
        let lingering = if first.is_none() { self.lingering().await } else { None };
        let mut wake = match (lingering, &first) {
            (Some(handoff), _) => Wake::Handoff(handoff),
            (None, Some(first)) => Wake::Ask(first.0),
            (None, None) if self.first_pause.is_some() => Wake::Again,
            (None, None) => self.first()?,
        };
        loop {
            let won = match wake {
                Wake::Ask(ask) => match self.asked(ask, first.take()).await? {
                    Asked::Granted(granted) => Some(Won::Store(granted)),
                    Asked::Held => None,
                    Asked::Go(again) => {
                        wake = again;
                        continue;
                    }
                },
                Wake::Notified(waiters) => self.served(waiters),
                Wake::Handoff(handoff) => match self.take_now(handoff, &schedule)? {
                    Taken::Hold(hold) => return Ok(hold),
                    Taken::Lacks(handoff) => Some(Won::Handoff(handoff)),
                },
                Wake::Again => None,
            };
            if let Some(won) = won {
                if let Some(hold) = self.take(won, &schedule).await? {
                    return Ok(hold);
                }
                // The store may have been asked, and the clock is to be read again.
                self.has_awaited = true;
            }
            // That was the last try, after the strategy had enough.
            if let Some(decision) = last {
                // Boxed, here and below: few waits end so, and the future of each would have room for it.
                return Err(Box::pin(self.end(decision)).await);
            }
            wake = match self.next().await? {
                Next::Go(wake) => wake,
                Next::Enough(decision) => match self.last_wake() {
                    Some(wake) => {
                        last = Some(decision);
                        wake
                    }
                    None => return Err(Box::pin(self.end(decision)).await),
                },
            };
        }
    }

    /// Asks the store, and notes what it says of a key that is held. Boxed, because it is larger than all that waits:
    /// most of those who wait ask nothing.
    fn asked(&mut self, ask: Ask, first: FirstAnswer) -> BoxFuture<'_, Result<Asked>> {
        Box::pin(async move {
            match self.ask(ask, first).await {
                Ok(Answer::Granted(granted)) => Ok(Asked::Granted(granted)),
                Ok(Answer::Held(news)) => {
                    self.held = news;
                    Ok(Asked::Held)
                }
                Err(error) => {
                    self.store_failed(error).await?;
                    Ok(Asked::Go(self.first()?))
                }
            }
        })
    }

    /// Returns how to begin: with the cheapest question that can end in a grant, or without one where the answer is
    /// known.
    fn first(&mut self) -> Result<Wake> {
        let now = self.now();
        let decide = || self.plan.strategy.decide(&self.known(&Held::default(), now));
        Ok(match self.plan.queue() {
            // After a failure of the store, a claim that waits already keeps its place. `ask_again` says when it asks.
            _ if self.waiting() != Waiting::Nowhere => Wake::Again,
            _ if self.is_of_several() => Wake::Ask(Ask::Try),
            Queue::Fifo if !matches!(decide(), Decision::RetryAfter(_)) => Wake::Ask(Ask::Try),
            Queue::Fifo => Wake::Ask(Ask::Enqueue { room: self.plan.max_waiters }),
            Queue::Barging => match self.plan.begin_barging(decide) {
                Begin::Ask(ask) => Wake::Ask(ask),
                Begin::Wait(_) => {
                    self.was_admitted = true;
                    Wake::Again
                }
            },
        })
    }

    /// Asks the store, unless it has answered `first`.
    async fn ask(&mut self, ask: Ask, first: FirstAnswer) -> Result<Answer> {
        if let Some(first) = first {
            let (_, answer, earlier) = *first;
            let answer = self.unless_in_doubt(ask, answer, &earlier).await;
            return self.hears(ask, answer);
        }
        self.engine.check_open()?;
        self.has_awaited = true;
        self.attempts = self.attempts.saturating_add(1);
        self.question = LastQuestion::Fresh;
        // Before the question: a reconnect while it is under way may lose the notification that follows its answer.
        self.asked_in = self.engine.reconnects();
        let answer = self.answer_behind(ask).await;
        self.hears(ask, answer)
    }

    /// Notes an answer of the store.
    fn hears(&mut self, ask: Ask, answer: Result<Answer>) -> Result<Answer> {
        // Also after an error. The floor begins with the next pause.
        self.relies_since = None;
        let answer = answer?;
        self.ask_again = None;
        if let Answer::Held(held) = &answer {
            self.note_answer(self.engine.clock.now(), None);
            self.is_held(ask, held)?;
        }
        Ok(answer)
    }

    /// Notes the answer that the key is held.
    fn is_held(&mut self, ask: Ask, held: &Held) -> Result<()> {
        self.has_only_tried = !ask.enqueues();
        if ask == Ask::Probe {
            self.engine.local_queue.record_held(&self.plan.key, true);
        }
        if let Ask::Enqueue { room: Some(room) } = ask
            && held.queued_at.is_none()
            && held.waiters.is_some_and(|waiters| waiters >= room)
        {
            return Err(self.overloaded(held, room));
        }
        if held.foreign && held.remaining.is_none() && self.waited() >= NO_EXPIRY_WARNING {
            never_expires(self.plan, self.waited());
        }
        let free_at = held.remaining.map(|left| self.engine.clock.now().plus(left));
        self.holder = if held.own { Holder::Here { free_at } } else { Holder::Elsewhere };
        if held.own && held.waiters.is_some_and(|waiters| waiters > 0) {
            // The store's notification may have come before there was a queue to receive it.
            self.engine.local_queue.contended(&self.plan.key);
        }
        Ok(())
    }

    /// Asks the strategy, and waits as it says.
    async fn next(&mut self) -> Result<Next> {
        let now = self.now();
        // It was asked a moment ago, but not told of the rate, which only those count who find the key held.
        let said = self.first_pause.take();
        let has_decided = said.is_some();
        self.was_admitted |= has_decided;
        let said = said.filter(|_| !self.has_awaited && !self.plan.strategy.uses_rate());
        self.has_awaited = true;
        self.engine.check_open()?;
        // Before the strategy, which would turn away a waiter that has the grant already.
        if let Some(wake) = self.queue_news() {
            return Ok(Next::Go(wake));
        }
        let decision = match said {
            Some(pause) => Decision::RetryAfter(pause),
            None => self.plan.strategy.decide(&self.contention(now)),
        };
        let pause = match decision {
            Decision::RetryAfter(pause) => pause,
            enough => return Ok(Next::Enough(enough)),
        };
        if self.is_of_several() && self.engine.capability.waiting.in_order() {
            return self.gather(pause).await.map(Next::Go);
        }
        // Only now: a request that does not wait never joins, and so takes no hand-off from one that does.
        if self.joins(now)? {
            return Ok(Next::Go(Wake::Ask(Ask::Enqueue { room: None })));
        }
        if has_decided {
            // It has arrived: for the next decision it is one of those who wait.
            self.attempts = self.attempts.max(1);
        }
        if self.is_to_queue() {
            return Ok(Next::Go(Wake::Ask(self.question())));
        }
        self.question.age();
        // Heartbeats keep an entry alive, so `pause` sends them. Without them there is nothing to do until the store
        // notifies.
        if self.is_notified() && !self.engine.capability.waiting.by_heartbeats() {
            return Box::pin(self.stay(pause)).await;
        }
        let wake = self.pause(pause, now).await?;
        if matches!(wake, Wake::Again) {
            // The pause is over, so the strategy is asked again, and the store is not.
            self.attempts = self.attempts.saturating_add(1);
        }
        Ok(Next::Go(wake))
    }

    /// Returns whether it is to take its place in the order of arrival now: the strategy would not have waited when the
    /// store was asked, and does now that the holder is known.
    fn is_to_queue(&self) -> bool {
        let in_order = self.engine.capability.waiting.in_order();
        let fifo = self.plan.queue() == Queue::Fifo && self.waiting() == Waiting::Nowhere;
        in_order && fifo && self.has_only_tried && self.ask_again.is_none()
    }

    /// Returns what is tried before the wait is over. Where the last question lies back, one more is due: the key may
    /// be free by now. A claim that sends heartbeats would have been notified, and may have been this moment.
    fn last_wake(&self) -> Option<Wake> {
        let by_heartbeats = self.engine.capability.waiting.by_heartbeats();
        match self.question {
            LastQuestion::None => Some(Wake::Ask(Ask::Try)),
            LastQuestion::Stale if !by_heartbeats => Some(Wake::Ask(Ask::Try)),
            LastQuestion::Fresh | LastQuestion::Stale => self.claim.take_notification().map(Wake::Notified),
        }
    }

    /// Leaves the store's queue, and returns why the wait is over. In this order, because the caller may release the
    /// key when it has the error, and an entry that is still there would then be granted the key for nobody.
    async fn end(&mut self, decision: Decision) -> LockError {
        let held = self.held.clone();
        let error = self.give_up(decision, &held);
        // An entry that others wait behind goes to the next head when this value is dropped.
        if !self.leaves_its_entry_to_another() {
            self.claim.leave(self.engine).await;
        }
        error
    }

    fn leaves_its_entry_to_another(&self) -> bool {
        self.waiter.as_ref().is_some_and(|waiter| waiter.is_head() && waiter.others() > 0)
    }

    /// Returns the time. The clock was just read when the acquisition began.
    fn now(&self) -> Moment {
        if self.has_awaited { self.engine.clock.now() } else { self.started }
    }

    pub(super) fn waited(&self) -> Duration {
        self.engine.clock.now().since(self.started)
    }

    /// Waits after a failure of the store, or returns the error.
    pub(super) async fn store_failed(&mut self, error: LockError) -> Result<()> {
        if !error.is_temporary() || error.kind() == LockErrorKind::Overloaded {
            return Err(error.with_waited(self.waited()));
        }
        // It must ask the store again, and nobody notifies it of the time for that.
        let contention = self.known(&Held::default(), self.engine.clock.now()).with_notified(false);
        match self.plan.strategy.decide(&contention) {
            Decision::RetryAfter(pause) => {
                let now = self.engine.clock.now();
                if self.warned.is_none_or(|last| now.since(last) >= STORE_WARNING) {
                    self.warned = Some(now);
                    store_fails(self.plan, &error);
                }
                self.note_answer(now, Some(error));
                let pause = pause.max(STORE_PAUSE);
                if self.waiting() != Waiting::Nowhere {
                    // It can be notified meanwhile.
                    self.ask_again = Some(now.plus(pause.min(LONGEST_STORE_PAUSE)));
                    return Ok(());
                }
                self.engine.sleep(pause).await
            }
            enough => {
                self.note_answer(self.engine.clock.now(), Some(error));
                Err(self.give_up(enough, &Held::default()))
            }
        }
    }

    pub(super) fn record_attempts(&self) {
        if let Some(span) = self.span {
            span.record("lock.attempts", self.attempts);
        }
    }
}

impl Drop for Acquire<'_> {
    /// Leaves the entry in the store's queue to the next waiter: it belongs to the local queue, not to its head.
    fn drop(&mut self) {
        // Before the fields are dropped: the claim would release the entry that is left to another.
        if let Some(waiter) = self.waiter.take().filter(|waiter| !waiter.is_served()) {
            let to_another = waiter.is_head() && waiter.others() > 0;
            waiter.leave_with(if to_another { self.claim.take_entry() } else { None });
        }
    }
}
