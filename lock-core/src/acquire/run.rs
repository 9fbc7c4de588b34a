//! Runs the loop of an acquisition: carry out an action, record the event, decide on the next action.
//!
//! `step.rs` decides, and the other files of this folder carry the actions out.

use std::sync::Arc;
use std::time::Duration;

use super::event::{Answer, Happened, Won};
use super::partial_grants::PartialGrants;
use super::plan::Plan;
use super::recorder::{never_expires, store_fails};
use super::state::{Found, Notices, StoreHealth, Tries};
use super::step::{self, Action, Event, Place, Rules, State};
use crate::backend::{Ask, BoxFuture, Claim, Held, Queue};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::{LockError, LockErrorKind, Result};
use crate::guard::Hold;
use crate::local_queue::{Expected, Waiter};
use crate::pending::PendingClaim;
use crate::strategy::Decision;

/// How often the log reports that the store keeps failing.
const STORE_WARNING: Duration = Duration::from_secs(30);

/// The shortest pause after a failure of the store. The first pauses of a strategy are meant for held keys, and are too
/// short for outages.
const STORE_PAUSE: Duration = Duration::from_millis(25);

/// The longest pause after a failure while the claim has a place in a queue, because the claim must keep its entry
/// alive.
const LONGEST_STORE_PAUSE: Duration = Duration::from_secs(1);

/// How long a request waits before the log reports that another library has locked the key without an expiry.
const NO_EXPIRY_WARNING: Duration = Duration::from_secs(5);

/// One acquisition under way.
pub(super) struct Acquire<'a> {
    pub(super) plan: &'a Plan,
    pub(super) claim: PendingClaim,
    /// The request's place in the local queue.
    pub(super) waiter: Option<Waiter<'a>>,
    pub(super) state: State,
    pub(super) tries: Tries,
    pub(super) store: StoreHealth,
    pub(super) notices: Notices,
    pub(super) found: Found,
    /// Set if the grant of this request may linger.
    pub(super) expected: Option<Expected<'a>>,
    /// The grants of single keys that a request for several keys already has.
    pub(super) partial_grants: PartialGrants,
}

impl<'a> Acquire<'a> {
    pub(super) fn new(plan: &'a Plan, started: Moment, claim: Claim) -> Self {
        let engine = plan.engine();
        Self {
            plan,
            claim: PendingClaim::new(&engine.cleanup, claim),
            waiter: None,
            state: State::BEGIN,
            tries: Tries::new(started),
            store: StoreHealth::default(),
            notices: Notices { relies_since: None, asked_in: engine.reconnects(), watch: None },
            found: Found::default(),
            expected: None,
            partial_grants: PartialGrants::default(),
        }
    }

    pub(super) fn engine(&self) -> &'a Arc<Engine> {
        self.plan.engine()
    }

    pub(super) fn now(&self) -> Moment {
        self.engine().clock.now()
    }

    pub(super) fn waited(&self) -> Duration {
        self.tries.waited(self.now())
    }

    fn rules(&self) -> Rules {
        let (plan, store) = (self.plan, self.engine().capability.waiting);
        Rules {
            queue: plan.queue(),
            hands_off: plan.options.kind.queue() == Queue::Barging && plan.more.is_empty(),
            several: !plan.more.is_empty(),
            room: plan.max_waiters,
            in_order: store.in_order(),
            heartbeats: store.by_heartbeats(),
        }
    }

    /// Runs the loop until it returns a hold or an error.
    pub(super) async fn run(&mut self) -> Result<Hold> {
        // This call comes before the first request. If it fails, no lock could be held, because a lock needs a renewer.
        let schedule = self.plan.hub.renewers.here()?;
        let rules = self.rules();
        let mut happened = match self.lingering().await {
            Some(handoff) => Happened::Won(Won::Handoff(handoff)),
            None => self.begin(),
        };
        loop {
            let event = match happened {
                Happened::Won(won) => match self.take(won, &schedule).await? {
                    Some(hold) => return Ok(hold),
                    None => Event::Worthless,
                },
                Happened::Event(event) => event,
            };
            let state = State { place: self.place(), failing: self.store.ask_again.is_some(), ..self.state };
            let (state, action) = step::next(&rules, state, event);
            self.state = state;
            happened = match action {
                Action::Begin => self.begin(),
                Action::Consult => self.consult(),
                Action::Ask(ask) => self.ask(ask).await?,
                Action::Decide => self.decide()?,
                Action::Join(pause) => self.join(pause)?,
                Action::Gather(pause) => self.gather(pause).await?,
                Action::Wait(pause) => self.wait(pause).await?,
                Action::Finish(decision) => match self.notification() {
                    Some(happened) => happened,
                    None => return Err(Box::pin(self.end(decision)).await),
                },
                // This future is boxed too. Few waits end like this, and otherwise the future of every wait would
                // reserve memory for it.
                Action::End(decision) => return Err(Box::pin(self.end(decision)).await),
            };
        }
    }

    fn begin(&self) -> Happened {
        Event::Begins { busy: self.engine().local_queue.is_busy(&self.plan.key) }.into()
    }

    /// Determines before the first request whether the strategy would wait for a held key.
    fn consult(&self) -> Happened {
        let (local_queue, key) = (&self.engine().local_queue, &self.plan.key);
        let busy = local_queue.is_busy(key);
        let decision = self.plan.strategy.decide(&self.known(&Held::default(), self.now()));
        let waits = matches!(decision, Decision::RetryAfter(_));
        Event::Consulted { waits, busy, was_held: local_queue.was_held(key) }.into()
    }

    /// Consults the strategy about a held key.
    fn decide(&mut self) -> Result<Happened> {
        self.engine().check_open()?;
        // The local queue is read first. Otherwise the strategy could end the wait of a waiter that already has a
        // hand-off.
        if let Some(news) = self.queue_news() {
            return Ok(news);
        }
        Ok(match self.plan.strategy.decide(&self.contention(self.now())) {
            Decision::RetryAfter(pause) => Event::Pauses(pause).into(),
            enough => Event::Enough(enough).into(),
        })
    }

    /// Sends a request to the store. The future is boxed because it is larger than the future of a waiter, and most
    /// waiters send no request.
    fn ask(&mut self, ask: Ask) -> BoxFuture<'_, Result<Happened>> {
        Box::pin(async move {
            match self.request(ask).await {
                Ok(Answer::Granted(granted)) => Ok(Happened::Won(Won::Store(granted))),
                Ok(Answer::Held(held)) => {
                    self.found = Found::new(held, self.now());
                    Ok(Event::Refused.into())
                }
                Err(error) => {
                    self.store_failed(error).await?;
                    Ok(Event::Failed.into())
                }
            }
        })
    }

    async fn request(&mut self, ask: Ask) -> Result<Answer> {
        self.engine().check_open()?;
        if self.tries.count == 0 {
            self.outlast_releases(ask).await?;
        }
        self.tries.count_one();
        // The counter is read before the request, because a reconnect during the request may lose the notification that
        // follows the answer.
        self.notices.asked_in = self.engine().reconnects();
        self.set_asking(true);
        let answer = self.claim.ask(self.engine(), ask).await;
        self.set_asking(false);
        // The time for which the waiter relies on notifications starts again with the next pause, even after an error.
        self.notices.relies_since = None;
        let answer = answer?;
        self.store.ask_again = None;
        if let Answer::Held(held) = &answer {
            self.note_answer(self.now(), None);
            self.refused(ask, held)?;
        }
        Ok(answer)
    }

    /// Waits, for at most a second, until the store has answered this process's releases of these keys. Otherwise the
    /// first request could fail because of a lock that this process is just releasing.
    ///
    /// A request that queues in order of arrival does not wait here, because requests of other processes would overtake
    /// it.
    async fn outlast_releases(&self, ask: Ask) -> Result<()> {
        if ask.enqueues() && self.plan.queue() == Queue::Fifo {
            return Ok(());
        }
        let (engine, releases) = (self.engine(), &self.engine().cleanup.under_way);
        // Releases that begin later are ignored. A busy key may always have a release under way, and the wait would
        // never end.
        let begun = releases.begun();
        for key in self.plan.keys() {
            while let Some(release) = releases.first(key, begun, engine.clock.now()) {
                let left = release.until.remaining(engine.clock.now());
                tokio::select! {
                    // `biased` keeps the simulation deterministic.
                    biased;
                    () = release.over() => {}
                    slept = engine.sleep(left) => slept?,
                }
            }
        }
        Ok(())
    }

    /// Records in the local queue whether this waiter awaits an answer of the store. For a limited time, a head that
    /// awaits an answer does not count as stalled.
    fn set_asking(&self, asking: bool) {
        if let Some(waiter) = &self.waiter {
            waiter.set_asking(asking, self.now());
        }
    }

    /// Handles the answer that the key is held.
    fn refused(&self, ask: Ask, held: &Held) -> Result<()> {
        let (local_queue, key) = (&self.engine().local_queue, &self.plan.key);
        if ask == Ask::Probe {
            local_queue.record_held(key, true);
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
        if held.own && held.waiters.is_some_and(|waiters| waiters > 0) {
            // The store may have notified this process of those waiters before the local queue existed.
            local_queue.contended(key);
        }
        Ok(())
    }

    /// Handles a failure of the store: returns the error, waits, or sets the time of the next request of a waiter in a
    /// queue.
    pub(super) async fn store_failed(&mut self, error: LockError) -> Result<()> {
        if !error.is_temporary() || error.kind() == LockErrorKind::Overloaded {
            return Err(error.with_waited(self.waited()));
        }
        let now = self.now();
        // The request must be sent again. No notification will announce the right time, so the strategy chooses the
        // pause.
        let contention = self.known(&Held::default(), now).with_notified(false);
        let pause = match self.plan.strategy.decide(&contention) {
            Decision::RetryAfter(pause) => pause.max(STORE_PAUSE),
            enough => {
                self.note_answer(now, Some(error));
                return Err(self.give_up(enough, &Held::default()));
            }
        };
        if self.store.warned.is_none_or(|last| now.since(last) >= STORE_WARNING) {
            self.store.warned = Some(now);
            store_fails(self.plan, &error);
        }
        self.note_answer(now, Some(error));
        if self.place() == Place::Nowhere {
            return self.engine().sleep(pause).await;
        }
        // The waiter stays in its queue, so it can be notified during the pause.
        self.store.ask_again = Some(now.plus(pause.min(LONGEST_STORE_PAUSE)));
        Ok(())
    }

    /// Removes the claim from the store's queue, and returns the error that ends the wait. The entry is removed first.
    /// As soon as the caller has the error, the holder may release the key, and the store would then grant the key to
    /// an entry without a waiter.
    async fn end(&mut self, decision: Decision) -> LockError {
        let held = self.found.held.clone();
        let error = self.give_up(decision, &held);
        // If other waiters of the local queue follow, dropping this value passes the entry on to the next head.
        if !self.leaves_its_entry_to_another() {
            self.claim.leave(self.engine()).await;
        }
        error
    }

    fn leaves_its_entry_to_another(&self) -> bool {
        self.waiter.as_ref().is_some_and(|waiter| waiter.is_head() && waiter.others() > 0)
    }
}

impl Drop for Acquire<'_> {
    /// Passes the entry in the store's queue on to the next waiter, because the entry serves the whole local queue and
    /// not only its head.
    fn drop(&mut self) {
        // The entry is passed on before the fields are dropped. Otherwise the dropped claim would release it.
        if let Some(mut waiter) = self.waiter.take().filter(|waiter| !waiter.is_served()) {
            let to_another = waiter.is_head() && waiter.others() > 0;
            waiter.leave(if to_another { self.claim.take_entry() } else { None });
        }
    }
}
