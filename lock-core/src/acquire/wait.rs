//! Waiting: for a hand-off, for a notification of the store, for the time to ask.

use std::time::Duration;

use super::event::{Next, Wake};
use super::run::Acquire;
use super::state::{Holder, Waiting};
use super::watch::{self, Watch};
use crate::backend::{Ask, Queue};
use crate::clock::Moment;
use crate::error::{LockError, LockErrorKind, Result};
use crate::local_queue::Waiter;
use crate::strategy::Decision;

/// The longest pause of a waiter with others behind it, where the store has no queue. A strategy with long pauses must
/// not slow down those behind it.
const LONGEST_IN_COMPANY: Duration = Duration::from_millis(200);

/// How often a waiter in the local queue checks whether those before it are being polled. This is all that thousands of
/// waiters cost while they wait.
const CHECK_IN: Duration = Duration::from_secs(1);

/// The same of the head and of who is next: all others depend on the two.
const CHECK_IN_FIRST: Duration = Duration::from_millis(200);

/// How long after the end of a holder's lease the waiter asks again.
const AFTER_LEASE: Duration = Duration::from_millis(1);

impl Acquire<'_> {
    /// Joins the local queue at `now`. Returns whether the store must be asked at once.
    ///
    /// It was asked before, but a holder of this process that has released since knew of nobody in the queue.
    pub(super) fn joins(&mut self, now: Moment) -> Result<bool> {
        let barging = self.plan.options.kind.queue() == Queue::Barging;
        if self.waiter.is_some() || !barging || self.is_of_several() {
            return Ok(false);
        }
        let max = self.plan.max_waiters.filter(|_| !self.has_queued).unwrap_or(usize::MAX);
        match Waiter::join(&self.engine.local_queue, &self.plan.key, max, self.plan.ttl, now) {
            Ok(waiter) => {
                let asks = self.engine.capability.waiting.in_order() && waiter.take_ask();
                self.waiter = Some(waiter);
                Ok(asks)
            }
            Err(waiters) => {
                let detail = format!("{waiters} wait for it in this process, `max_waiters` allows no more");
                Err(LockError::new(LockErrorKind::Overloaded, detail).with_waiters(Some(waiters)))
            }
        }
    }

    /// Returns what the others of the local queue have left for this waiter.
    pub(super) fn queue_news(&mut self) -> Option<Wake> {
        let waiter = self.waiter.as_mut()?;
        // First, because a hand-off ends the wait, and another waiter gets it after 250 ms.
        if let Some(handoff) = waiter.check_in() {
            return Some(Wake::Handoff(handoff));
        }
        // The question is taken in any case: one that stays with the waiter looks as if nobody polled it, and it would be
        // skipped.
        let (entry, must_ask) = waiter.take_left();
        // An entry that is not adopted was rolled back, so the store is asked for one of its own. With an entry, the store
        // notifies.
        let adopted = entry.is_none_or(|entry| self.claim.adopt(entry));
        let asks = !adopted || must_ask && !self.claim.is_queued();
        // While the store fails, it is asked when that is due: the release of an owner whose request has failed frees the
        // key too, and the next request would follow without a pause.
        (asks && self.ask_again.is_none()).then(|| Wake::Ask(self.question()))
    }

    /// Returns what the store is asked while the claim waits.
    pub(super) fn question(&self) -> Ask {
        match self.plan.queue() {
            _ if !self.engine.capability.waiting.in_order() || self.is_of_several() => Ask::Try,
            Queue::Fifo => Ask::Enqueue { room: self.plan.max_waiters },
            Queue::Barging => Ask::Enqueue { room: None },
        }
    }

    /// Returns where the acquisition waits.
    pub(super) fn waiting(&self) -> Waiting {
        match &self.waiter {
            Some(waiter) if !waiter.is_head() => Waiting::BehindHead,
            _ if self.claim.is_queued() => Waiting::Queued,
            Some(_) => Waiting::AtHead,
            None => Waiting::Nowhere,
        }
    }

    /// Returns when the store must be asked at the latest; `None` where the head of the local queue asks. `end` is the
    /// end of the strategy's pause.
    fn due(&mut self, waiting: Waiting, end: Moment, now: Moment) -> Option<Moment> {
        if waiting == Waiting::BehindHead {
            // A waiter that becomes the head later must not count the time in which others asked for it.
            self.relies_since = None;
            return None;
        }
        let floor = self.floor(now);
        let store = self.engine.capability.waiting;
        match (waiting, self.holder) {
            // First: a heartbeat that failed is still due, and the failing store would be asked in a tight loop.
            _ if self.ask_again.is_some() => self.ask_again,
            (Waiting::Queued, _) if store.by_heartbeats() => self.claim.heartbeat_due(),
            (Waiting::Queued, _) if store.watches() => Some(floor),
            // A holder of this process hands off or notifies. A lease in a session has no end that the store could
            // tell.
            (_, Holder::Here { free_at }) if store.in_order() => {
                Some(free_at.map_or(floor, |free| free.plus(AFTER_LEASE)))
            }
            _ if store.watches() => Some(end.earlier(floor, now)),
            _ => Some(end),
        }
    }

    /// Returns when a waiter that the store notifies asks all the same, so that a lost notification costs a delay and
    /// not the wait.
    fn floor(&mut self, now: Moment) -> Moment {
        let since = *self.relies_since.get_or_insert(now);
        since.plus(watch::floor(self.engine.capability.placement))
    }

    /// Returns whether the store has lost notifications since it was last asked, so that this waiter asks again. In a
    /// local queue only the head does.
    fn has_missed(&self, waiting: Waiting) -> bool {
        waiting != Waiting::BehindHead && self.asked_in != self.engine.reconnects()
    }

    /// Returns whether it is to watch the store.
    fn watches(&self, waiting: Waiting) -> bool {
        self.engine.capability.waiting.watches() && waiting != Waiting::BehindHead
    }

    /// Takes the pending notification of the store, or makes a new one. `None` where nothing is watched.
    fn take_watch(&mut self, waiting: Waiting) -> Option<Watch> {
        // Taken in any case: the store may notify one watcher alone, and a waiter that is not the head would not ask.
        let kept = self.watch.take();
        if !self.watches(waiting) {
            return None;
        }
        let now = self.engine.clock.now();
        let kept = kept.filter(|watch| watch.is_of(&self.claim, now));
        Some(kept.unwrap_or_else(|| Watch::new(self.engine, &self.claim)))
    }

    /// Returns whether it has an entry of its own in the store's queue, and is notified when that is served. The
    /// waiters of a local queue share one entry, and watch over each other.
    pub(super) fn is_notified(&self) -> bool {
        let store = &self.engine.capability;
        let tells = store.waiting.by_heartbeats() || store.waiting.watches();
        tells && self.waiter.is_none() && self.claim.is_queued() && self.ask_again.is_none()
    }

    /// Returns whether it is in the local queue and is notified when its turn comes, so that it asks nothing at the end of a
    /// pause. The waiter before it notifies it; the head is notified by a holder of this process, or by the store in whose
    /// queue it is.
    pub(super) fn is_notified_in_queue(&self) -> bool {
        let store = self.engine.capability.waiting;
        if self.waiter.is_none() || !store.in_order() || self.ask_again.is_some() {
            return false;
        }
        match (self.waiting(), self.holder) {
            (Waiting::BehindHead, _) | (_, Holder::Here { .. }) => true,
            (Waiting::Queued, Holder::Elsewhere) => store.by_heartbeats() || store.watches(),
            (Waiting::AtHead | Waiting::Nowhere, Holder::Elsewhere) => false,
        }
    }

    /// Waits in the queue of a store that is watched. The store is asked nothing until it notifies, or the floor is
    /// reached: the strategy's pauses pass within one wait. With thousands of waiters, the store would otherwise be
    /// busy with those that cannot be served yet.
    pub(super) async fn stay(&mut self, mut pause: Duration) -> Result<Next> {
        let engine = self.engine;
        let ask = |wait: &Self| Ok(Next::Go(Wake::Ask(wait.question())));
        let mut end = engine.clock.now().plus(pause);
        let mut watch = self.take_watch(Waiting::Queued);
        loop {
            let mut changed = std::pin::pin!(engine.changed.notified());
            // Registered before the two checks: a shutdown or a reconnect between them and the wait would be missed.
            changed.as_mut().enable();
            engine.check_open()?;
            if self.has_missed(Waiting::Queued) {
                return ask(self);
            }
            let now = engine.clock.now();
            let wakes = end.earlier(self.floor(now), now);
            tokio::select! {
                // `biased` keeps the simulation deterministic.
                biased;
                () = notified(&mut watch) => return ask(self),
                () = changed => continue,
                () = tokio::time::sleep(wakes.remaining(now)) => {}
            }
            let now = engine.clock.now();
            if self.floor(now).is_past(now) {
                return ask(self);
            }
            if !end.is_past(now) {
                continue;
            }
            self.attempts = self.attempts.saturating_add(1);
            pause = match self.plan.strategy.decide(&self.contention(now)) {
                Decision::RetryAfter(pause) => pause,
                enough => return Ok(Next::Enough(enough)),
            };
            end = now.plus(pause);
        }
    }

    /// Waits, at most for `pause`. `began` is a clock that was just read.
    pub(super) async fn pause(&mut self, pause: Duration, began: Moment) -> Result<Wake> {
        let mut just_read = Some(began);
        loop {
            if let Some(wake) = self.queue_news() {
                return Ok(wake);
            }
            let now = just_read.take().unwrap_or_else(|| self.engine.clock.now());
            let waiting = self.waiting();
            let (wakes, asks) = self.wakes(waiting, pause, began, now);
            if let Some(waiter) = &self.waiter {
                // By this the others tell a long pause from a future that nobody polls.
                waiter.checks_in_by(wakes);
            }
            match self.event(waiting, wakes.remaining(now)).await? {
                Event::News => {}
                Event::Served(waiters) => return Ok(Wake::Notified(waiters)),
                Event::Changed => return Ok(Wake::Ask(self.question())),
                Event::Time => {
                    if let Some(waiter) = &self.waiter {
                        // If the head is not polled, nobody asks the store for those behind it.
                        waiter.skip_stalled(self.engine.clock.now());
                    }
                    return Ok(if asks { Wake::Ask(self.question()) } else { Wake::Again });
                }
            }
        }
    }

    /// Returns until when it waits at `now`, and whether it asks the store then. `began`: when the strategy's `pause`
    /// began.
    fn wakes(&mut self, waiting: Waiting, pause: Duration, began: Moment, now: Moment) -> (Moment, bool) {
        // Others may join in the middle of the pause, and notify.
        let longest = match &self.waiter {
            Some(waiter) if self.engine.capability.waiting.in_order() => {
                // A short pause needs no look at the queue.
                if pause > CHECK_IN_FIRST && waiter.is_head_or_next() { CHECK_IN_FIRST } else { CHECK_IN }
            }
            Some(waiter) if waiter.others() > 0 => LONGEST_IN_COMPANY,
            _ => pause,
        };
        let end = began.plus(pause.min(longest));
        let due = self.due(waiting, end, now).filter(|due| due.remaining(now) <= end.remaining(now));
        (due.unwrap_or(end), due.is_some())
    }

    /// Completes with the first event, and after `sleep` at the latest. A head that must ask is notified.
    async fn event(&mut self, waiting: Waiting, sleep: Duration) -> Result<Event> {
        match &self.waiter {
            // As a rule: only the local queue has news for it.
            Some(waiter) if !self.watches(waiting) && !self.claim.is_queued() => {
                self.watch = None;
                self.engine.check_open()?;
                if self.has_missed(waiting) {
                    return Ok(Event::Changed);
                }
                Ok(event_in_queue(waiter, sleep).await)
            }
            // Boxed, because the future of every waiter would have room for this one.
            _ => Box::pin(self.any_event(waiting, sleep)).await,
        }
    }

    /// The same where the store, or a change outside of the local queue, may have news too.
    async fn any_event(&mut self, waiting: Waiting, sleep: Duration) -> Result<Event> {
        let engine = self.engine;
        let mut changed = std::pin::pin!(engine.changed.notified());
        // A change wakes the waiters of the local queue through the queue: a list of all waiters would be a lock that
        // all keys share. A waiter outside the queue registers before the two checks, as in `stay`.
        if self.waiter.is_none() {
            changed.as_mut().enable();
        }
        engine.check_open()?;
        if self.has_missed(waiting) {
            return Ok(Event::Changed);
        }
        self.watch = self.take_watch(waiting);
        let (waiter, claim, watch) = (&self.waiter, &self.claim, &mut self.watch);
        let news = async {
            match waiter {
                Some(waiter) => waiter.notified().await,
                None => changed.await,
            }
        };
        let event = tokio::select! {
            // `biased` keeps the simulation deterministic.
            biased;
            () = news => Event::News,
            waiters = claim.notified() => Event::Served(waiters),
            () = notified(watch) => Event::Changed,
            () = tokio::time::sleep(sleep) => Event::Time,
        };
        if matches!(event, Event::Changed) {
            // A watch that has completed is not kept.
            self.watch = None;
        }
        Ok(event)
    }
}

/// Completes when the local queue has news for `waiter`, and after `sleep` at the latest.
async fn event_in_queue(waiter: &Waiter<'_>, sleep: Duration) -> Event {
    tokio::select! {
        // `biased` keeps the simulation deterministic.
        biased;
        () = waiter.notified() => Event::News,
        () = tokio::time::sleep(sleep) => Event::Time,
    }
}

/// What ends a pause.
enum Event {
    /// Something in this process has changed: the waiter checks in.
    News,
    /// The store has served the waiter; this many more wait.
    Served(usize),
    /// The store says that another try makes sense, or that notifications were lost.
    Changed,
    /// The time is over.
    Time,
}

/// Completes when the store says that another try makes sense; never without a watch.
async fn notified(watch: &mut Option<Watch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}
