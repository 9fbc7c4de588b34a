//! Waits for a hand-off, for a notification of the store, or for the time of the next request.

use std::time::Duration;

use super::event::{Happened, Won};
use super::run::Acquire;
use super::step::{Event, Place};
use super::watch::{self, Watch};
use crate::clock::Moment;
use crate::error::{LockError, LockErrorKind, Result};
use crate::local_queue::Waiter;

/// The longest pause of a waiter that has other waiters after it, if the store has no queue. Without this limit, a
/// strategy with long pauses would delay the other waiters.
const LONGEST_IN_COMPANY: Duration = Duration::from_millis(200);

/// How often a waiter in the local queue checks whether the waiters before it are being polled. This check is the only
/// cost of a waiter while it waits.
const CHECK_IN: Duration = Duration::from_secs(1);

/// How often the head and the next waiter make this check. They check more often, because all other waiters depend on
/// them.
const CHECK_IN_FIRST: Duration = Duration::from_millis(200);

/// How long a waiter waits after the end of the holder's lease before it sends a request.
const AFTER_LEASE: Duration = Duration::from_millis(1);

impl Acquire<'_> {
    /// Joins the local queue.
    ///
    /// A holder in this process may have released the key before this waiter joined, when there was no waiter to
    /// notify. In that case the claim sends another request.
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

    /// Receives what the local queue has for this waiter: a hand-off, an entry in the store's queue, or its turn. A
    /// waiter whose turn it is sends the next request for the local queue.
    pub(super) fn queue_news(&mut self) -> Option<Happened> {
        let waiter = self.waiter.as_mut()?;
        // The hand-off comes first, because it ends the wait. After 250 ms the hand-off would pass to another waiter.
        if let Some(handoff) = waiter.check_in() {
            return Some(Happened::Won(Won::Handoff(handoff)));
        }
        // The turn is accepted even if no request follows. The queue skips a waiter that does not accept its turn,
        // because such a waiter seems not to be polled.
        let (entry, must_ask) = waiter.take_left();
        // An entry that cannot be adopted was rolled back, so this waiter must request a new entry. A waiter with an
        // entry sends no request, because the store notifies that waiter.
        let adopted = entry.is_none_or(|entry| self.claim.adopt(entry));
        let asks = !adopted || must_ask && !self.claim.is_queued();
        // While the store fails, no request is sent before its due time. The release after a failed request gives this
        // waiter a turn again, which would otherwise cause the next request without a pause.
        (asks && self.store.ask_again.is_none()).then(|| Event::MustAsk.into())
    }

    /// Returns the place in which the claim waits.
    pub(super) fn place(&self) -> Place {
        match (&self.waiter, self.claim.is_queued()) {
            (Some(waiter), _) if !waiter.is_head() => Place::BehindHead,
            (Some(_), true) => Place::HeadQueued,
            (Some(_), false) => Place::AtHead,
            (None, true) => Place::Queued,
            (None, false) => Place::Nowhere,
        }
    }

    /// Returns the time at which the next request is due, even without a notification. `end` is the end of the
    /// strategy's pause. Returns `None` if the head of the local queue sends the requests for this waiter.
    fn due(&mut self, place: Place, end: Moment, now: Moment) -> Option<Moment> {
        if place == Place::BehindHead {
            // Another waiter is the head and sends the requests. If this waiter becomes the head, the time until then
            // must not count as time without a request.
            self.notices.relies_since = None;
            return None;
        }
        let floor = self.floor(now);
        let store = self.engine().capability.waiting;
        match () {
            // This case comes first: a failed heartbeat is still due, and would be repeated in a tight loop.
            () if self.store.ask_again.is_some() => self.store.ask_again,
            () if place.is_queued() && store.by_heartbeats() => self.claim.heartbeat_due(),
            () if place.is_queued() => Some(floor),
            // A holder in this process hands its grant off, or notifies the waiters. If the holder's lease belongs to a
            // session, the store reports no end of the lease.
            () if self.found.held.own && store.in_order() => {
                Some(self.found.free_at.map_or(floor, |free| free.plus(AFTER_LEASE)))
            }
            () if store.watches() => Some(end.earlier(floor, now)),
            () => Some(end),
        }
    }

    /// Returns the time at which a waiter that relies on notifications sends a request anyway. Because of this limit, a
    /// lost notification only delays the waiter.
    fn floor(&mut self, now: Moment) -> Moment {
        let since = *self.notices.relies_since.get_or_insert(now);
        since.plus(watch::floor(self.engine().capability.placement))
    }

    /// Returns whether this waiter must send another request, because the store may have lost notifications since the
    /// last one. In a local queue only the head sends requests.
    fn has_missed(&self, place: Place) -> bool {
        place != Place::BehindHead && self.notices.asked_in != self.engine().reconnects()
    }

    /// Returns whether this waiter watches the store for changes.
    fn watches(&self, place: Place) -> bool {
        self.engine().capability.waiting.watches() && place != Place::BehindHead
    }

    /// Takes the pending notification of the store, or makes a new one. Returns `None` if this waiter does not watch
    /// the store.
    fn take_watch(&mut self, place: Place) -> Option<Watch> {
        // The old watch is removed even if this waiter no longer watches. The store may notify only one watcher, and a
        // waiter that is not the head would ignore that notification.
        let kept = self.notices.watch.take();
        if !self.watches(place) {
            return None;
        }
        let now = self.now();
        let kept = kept.filter(|watch| watch.is_of(&self.claim, now));
        Some(kept.unwrap_or_else(|| Watch::new(self.engine(), &self.claim)))
    }

    /// Returns whether this waiter relies on a notification, and so sends no request at the end of a pause. The
    /// notification may come from the store that queues its claim, from the previous waiter in the local queue, or from
    /// a holder in this process.
    pub(super) fn is_notified(&self) -> bool {
        let store = self.engine().capability.waiting;
        if self.store.ask_again.is_some() {
            return false;
        }
        match self.place() {
            Place::Queued | Place::HeadQueued => true,
            Place::BehindHead => store.in_order(),
            Place::AtHead => store.in_order() && self.found.held.own,
            Place::Nowhere => false,
        }
    }

    /// Waits for at most `pause`.
    pub(super) async fn wait(&mut self, pause: Duration) -> Result<Happened> {
        // If the waiter has sent no request yet, this wait counts as its first try.
        self.tries.count = self.tries.count.max(1);
        let began = self.now();
        loop {
            if let Some(news) = self.queue_news() {
                return Ok(news);
            }
            let (place, now) = (self.place(), self.now());
            let (wakes, asks) = self.wakes(place, pause, began, now);
            if let Some(waiter) = &self.waiter {
                // With this time, the other waiters can distinguish a long pause from a future that is no longer
                // polled.
                waiter.checks_in_by(wakes);
            }
            match self.notice(place, wakes.remaining(now)).await? {
                Notice::News => {}
                Notice::Served(waiters) => return Ok(self.served(waiters)),
                Notice::Changed => return Ok(Event::MustAsk.into()),
                Notice::Time => {
                    if let Some(waiter) = &self.waiter {
                        // A head that is not polled sends no requests for the waiters after it, so it is skipped.
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

    /// Returns when the waiter wakes, as seen at `now`, and whether it then sends a request. The strategy's `pause`
    /// started at `began`.
    fn wakes(&mut self, place: Place, pause: Duration, began: Moment, now: Moment) -> (Moment, bool) {
        // The pause is limited, because other waiters may join during the pause and depend on this waiter.
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

    /// Waits for the first notice, and returns it. After `sleep`, the notice is [`Notice::Time`].
    async fn notice(&mut self, place: Place, sleep: Duration) -> Result<Notice> {
        let engine = self.engine();
        let mut changed = std::pin::pin!(engine.changed.notified());
        // Waiters in the local queue are woken through that queue, because a list of all waiters would need a mutex
        // that all keys share. Any other waiter registers before the two checks. Otherwise it would miss a shutdown or
        // a reconnect between the checks and the wait.
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
            // A completed watch must not be polled again, so it is dropped.
            self.notices.watch = None;
        }
        Ok(notice)
    }
}

/// The event that ends a sleep.
enum Notice {
    /// Something in this process has changed, so the waiter checks the local queue.
    News,
    /// The store has granted the waiter's request. The field is the number of waiters that remain.
    Served(usize),
    /// The waiter must send a request: the store has notified it of a change, or notifications may be lost.
    Changed,
    /// The sleep is over.
    Time,
}

/// Completes when the store notifies that another request makes sense. Never completes without a watch.
async fn watched(watch: &mut Option<Watch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}
