//! Waiting: for a hand-off, for a notification of the store, for the time of the next request.

use std::time::Duration;

use super::event::{Happened, Won};
use super::run::Acquire;
use super::state::Holder;
use super::step::{Event, Place};
use super::watch::{self, Watch};
use crate::clock::Moment;
use crate::error::{LockError, LockErrorKind, Result};
use crate::local_queue::Waiter;

/// The longest pause of a waiter with others after it, if the store has no queue. A strategy with long pauses must not
/// slow the others down.
const LONGEST_IN_COMPANY: Duration = Duration::from_millis(200);

/// How often a waiter in the local queue checks whether the waiters before it are being polled. This is the only cost
/// of thousands of waiters while they wait.
const CHECK_IN: Duration = Duration::from_secs(1);

/// The same for the head and the next waiter, on which all others depend.
const CHECK_IN_FIRST: Duration = Duration::from_millis(200);

/// How long after the end of a holder's lease the waiter asks again.
const AFTER_LEASE: Duration = Duration::from_millis(1);

impl Acquire<'_> {
    /// Joins the local queue.
    ///
    /// A holder of this process may have released the key after the last request, when there was no waiter here that it
    /// could notify.
    pub(super) fn join(&mut self, pause: Duration) -> Result<Happened> {
        let engine = self.engine();
        let max = self.plan.max_waiters.filter(|_| !self.tries.has_queued).unwrap_or(usize::MAX);
        match Waiter::join(&engine.local_queue, &self.plan.key, max, self.plan.ttl, self.now()) {
            Ok(waiter) => {
                let asks = engine.capability.waiting.in_order() && waiter.take_ask();
                self.waiter = Some(waiter);
                Ok(Event::Joined { asks, pause }.into())
            }
            Err(waiters) => {
                let detail = format!("{waiters} wait for it in this process, `max_waiters` allows no more");
                Err(LockError::new(LockErrorKind::Overloaded, detail).with_waiters(Some(waiters)))
            }
        }
    }

    /// Takes the hand-off, the turn or the entry that the local queue has for this waiter.
    pub(super) fn queue_news(&mut self) -> Option<Happened> {
        let waiter = self.waiter.as_mut()?;
        // The hand-off comes first, because it ends the wait, and another waiter gets it after 250 ms.
        if let Some(handoff) = waiter.check_in() {
            return Some(Happened::Won(Won::Handoff(handoff)));
        }
        // The turn to ask is taken in any case: a waiter that leaves it looks as if it were not polled, and would be
        // skipped.
        let (entry, must_ask) = waiter.take_left();
        // An entry that is not adopted was rolled back, so this waiter requests a new one. A waiter with an entry is
        // notified by the store.
        let adopted = entry.is_none_or(|entry| self.claim.adopt(entry));
        let asks = !adopted || must_ask && !self.claim.is_queued();
        // While the store fails, a turn to ask is ignored until the due time: the release after a failed request gives
        // a turn too, and the next request would follow without a pause.
        (asks && self.store.ask_again.is_none()).then(|| Event::MustAsk.into())
    }

    /// Returns the place in which the acquisition waits.
    pub(super) fn place(&self) -> Place {
        match (&self.waiter, self.claim.is_queued()) {
            (Some(waiter), _) if !waiter.is_head() => Place::BehindHead,
            (Some(_), true) => Place::HeadQueued,
            (Some(_), false) => Place::AtHead,
            (None, true) => Place::Queued,
            (None, false) => Place::Nowhere,
        }
    }

    /// Returns when the next request is due at the latest; `None` if the head of the local queue sends it. `end` is the
    /// end of the strategy's pause.
    fn due(&mut self, place: Place, end: Moment, now: Moment) -> Option<Moment> {
        if place == Place::BehindHead {
            // A waiter that becomes the head later must not count the time in which another head sent the requests.
            self.notices.relies_since = None;
            return None;
        }
        let floor = self.floor(now);
        let store = self.engine().capability.waiting;
        match self.found.holder {
            // This comes first: a heartbeat that failed is still due, and would be sent to the failing store in a tight
            // loop.
            _ if self.store.ask_again.is_some() => self.store.ask_again,
            _ if place.is_queued() && store.by_heartbeats() => self.claim.heartbeat_due(),
            _ if place.is_queued() => Some(floor),
            // A holder of this process hands off or notifies. A lease in a session has no end that the store could
            // report.
            Holder::Here { free_at } if store.in_order() => {
                Some(free_at.map_or(floor, |free| free.plus(AFTER_LEASE)))
            }
            _ if store.watches() => Some(end.earlier(floor, now)),
            _ => Some(end),
        }
    }

    /// Returns when a waiter sends a request although the store notifies it: a lost notification costs a delay, not the
    /// wait.
    fn floor(&mut self, now: Moment) -> Moment {
        let since = *self.notices.relies_since.get_or_insert(now);
        since.plus(watch::floor(self.engine().capability.placement))
    }

    /// Returns whether the store has lost notifications since the last request, so that this waiter sends another one.
    /// In a local queue only the head does.
    fn has_missed(&self, place: Place) -> bool {
        place != Place::BehindHead && self.notices.asked_in != self.engine().reconnects()
    }

    /// Returns whether this waiter watches the store.
    fn watches(&self, place: Place) -> bool {
        self.engine().capability.waiting.watches() && place != Place::BehindHead
    }

    /// Takes the pending notification of the store, or makes a new one. `None` without a watch.
    fn take_watch(&mut self, place: Place) -> Option<Watch> {
        // It is taken in any case: the store may notify one watcher alone, and a waiter that is not the head would not
        // send a request.
        let kept = self.notices.watch.take();
        if !self.watches(place) {
            return None;
        }
        let now = self.now();
        let kept = kept.filter(|watch| watch.is_of(&self.claim, now));
        Some(kept.unwrap_or_else(|| Watch::new(self.engine(), &self.claim)))
    }

    /// Returns whether this waiter is notified when its turn comes, and so sends no request at the end of a pause: by
    /// the store in whose queue it is, by the previous waiter in the local queue, or by a holder of this process.
    pub(super) fn is_notified(&self) -> bool {
        let store = self.engine().capability.waiting;
        if self.store.ask_again.is_some() {
            return false;
        }
        match self.place() {
            Place::Queued | Place::HeadQueued => true,
            Place::BehindHead => store.in_order(),
            Place::AtHead => store.in_order() && matches!(self.found.holder, Holder::Here { .. }),
            Place::Nowhere => false,
        }
    }

    /// Waits, at most for `pause`.
    pub(super) async fn wait(&mut self, pause: Duration) -> Result<Happened> {
        // If a waiter was admitted without a request, this wait counts as its first try.
        self.tries.count = self.tries.count.max(1);
        let began = self.now();
        loop {
            if let Some(news) = self.queue_news() {
                return Ok(news);
            }
            let (place, now) = (self.place(), self.now());
            let (wakes, asks) = self.wakes(place, pause, began, now);
            if let Some(waiter) = &self.waiter {
                // From this, the other waiters tell a long pause from a future that is not polled.
                waiter.checks_in_by(wakes);
            }
            match self.notice(place, wakes.remaining(now)).await? {
                Notice::News => {}
                Notice::Served(waiters) => return Ok(self.served(waiters)),
                Notice::Changed => return Ok(Event::MustAsk.into()),
                Notice::Time => {
                    if let Some(waiter) = &self.waiter {
                        // If the head is not polled, no request is sent for the waiters after it.
                        waiter.skip_stalled(self.now());
                    }
                    if asks {
                        return Ok(Event::MustAsk.into());
                    }
                    self.tries.count_one();
                    return Ok(Event::PauseOver.into());
                }
            }
        }
    }

    /// Returns until when the waiter waits at `now`, and whether it then sends a request. `began`: when the strategy's
    /// `pause` began.
    fn wakes(&mut self, place: Place, pause: Duration, began: Moment, now: Moment) -> (Moment, bool) {
        // Others may join in the middle of the pause, and notify.
        let longest = match &self.waiter {
            Some(waiter) if self.engine().capability.waiting.in_order() => {
                // A short pause needs no check of the queue.
                if pause > CHECK_IN_FIRST && waiter.is_head_or_next() { CHECK_IN_FIRST } else { CHECK_IN }
            }
            Some(waiter) if waiter.others() > 0 => LONGEST_IN_COMPANY,
            _ => pause,
        };
        let end = began.plus(pause.min(longest));
        let due = self.due(place, end, now).filter(|due| due.remaining(now) <= end.remaining(now));
        (due.unwrap_or(end), due.is_some())
    }

    /// Completes with the first notice, and after `sleep` at the latest. A head that must send a request is notified.
    async fn notice(&mut self, place: Place, sleep: Duration) -> Result<Notice> {
        match &self.waiter {
            // The usual case: only the local queue notifies it.
            Some(waiter) if !self.watches(place) && !self.claim.is_queued() => {
                self.notices.watch = None;
                self.engine().check_open()?;
                if self.has_missed(place) {
                    return Ok(Notice::Changed);
                }
                Ok(news_of_queue(waiter, sleep).await)
            }
            // The future is boxed, because the future of every waiter would have room for this one.
            _ => Box::pin(self.any_notice(place, sleep)).await,
        }
    }

    /// The same if the store, or a change outside of the local queue, may notify too.
    async fn any_notice(&mut self, place: Place, sleep: Duration) -> Result<Notice> {
        let engine = self.engine();
        let mut changed = std::pin::pin!(engine.changed.notified());
        // A change wakes the waiters of the local queue through the queue: a list of all waiters would be a lock that
        // all keys share. Any other waiter registers before the two checks: a shutdown or a reconnect between them and
        // the wait would be missed.
        if self.waiter.is_none() {
            changed.as_mut().enable();
        }
        engine.check_open()?;
        if self.has_missed(place) {
            return Ok(Notice::Changed);
        }
        self.notices.watch = self.take_watch(place);
        let (waiter, claim, watch) = (&self.waiter, &self.claim, &mut self.notices.watch);
        let news = async {
            match waiter {
                Some(waiter) => waiter.notified().await,
                None => changed.await,
            }
        };
        let notice = tokio::select! {
            // `biased` keeps the simulation deterministic.
            biased;
            () = news => Notice::News,
            waiters = claim.notified() => Notice::Served(waiters),
            () = watched(watch) => Notice::Changed,
            () = tokio::time::sleep(sleep) => Notice::Time,
        };
        if matches!(notice, Notice::Changed) {
            // A completed watch is dropped.
            self.notices.watch = None;
        }
        Ok(notice)
    }
}

/// Completes when the local queue notifies `waiter`, and after `sleep` at the latest.
async fn news_of_queue(waiter: &Waiter<'_>, sleep: Duration) -> Notice {
    tokio::select! {
        // `biased` keeps the simulation deterministic.
        biased;
        () = waiter.notified() => Notice::News,
        () = tokio::time::sleep(sleep) => Notice::Time,
    }
}

/// The event that ends a sleep.
enum Notice {
    /// Something in this process has changed: the waiter checks in.
    News,
    /// The store has granted the waiter's request; this many more wait.
    Served(usize),
    /// The store has notified that another try makes sense, or that notifications were lost.
    Changed,
    /// The time is over.
    Time,
}

/// Completes when the store notifies that another try makes sense; never without a watch.
async fn watched(watch: &mut Option<Watch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}
