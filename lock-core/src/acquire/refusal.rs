//! Reports why a wait ended without the lock, and builds the input of the strategy.

use std::borrow::Cow;

use super::run::Acquire;
use crate::backend::Held;
use crate::clock::Moment;
use crate::error::{LockError, LockErrorKind};
use crate::local_queue::{LastAnswer, Waiter};
use crate::strategy::{Contention, Decision};

/// The text that an error adds if the holder is this process. Usually another task holds the lock. Sometimes the
/// requesting task holds it.
const OWN_GUARD: &str = "it was taken in this process, by another task as a rule; should it be this very task: only inside \
                         `run` can it enter its own lock again";

impl Acquire<'_> {
    /// Returns the input of the strategy at `now`, after the key was found held.
    pub(super) fn contention(&self, now: Moment) -> Contention {
        self.known(&self.found.held, now).with_rate(self.rate(now))
    }

    /// Returns the input of the strategy at `now`, with the facts in `held` and without the arrival rate. `held` is
    /// empty before the first request and after a failure.
    pub(super) fn known(&self, held: &Held, now: Moment) -> Contention {
        // If the strategy decided to wait before the first request, it has already counted the waiters of this process.
        // So after the first answer, only the waiters at the store count.
        let are_counted = self.state.admitted && self.tries.count <= 1;
        let waiters = if are_counted { held.waiters } else { Some(self.waiters(held)) };
        Contention::new()
            .with_attempts(self.tries.count.max(1))
            .with_waited(self.tries.waited(now))
            .with_wait_limit(self.plan.wait)
            .with_holder_remaining(held.remaining)
            .with_waiters(waiters)
            .with_notified(self.is_notified())
            .with_jitter(fastrand::f64())
    }

    /// Returns the number of other waiters, as far as it is known.
    fn waiters(&self, held: &Held) -> usize {
        let local = match &self.waiter {
            Some(waiter) => waiter.others(),
            None => self.engine().local_queue.waiters(&self.plan.key),
        };
        local.max(held.waiters.unwrap_or(0))
    }

    /// Returns how many requests per second find the key held, including this one. Each request counts once.
    fn rate(&self, now: Moment) -> Option<f64> {
        let count = || self.engine().rates.arrived(self.plan.key.as_str(), now);
        self.plan.strategy.uses_rate().then(|| *self.tries.rate.get_or_init(count))
    }

    pub(super) fn overloaded(&self, held: &Held, room: usize) -> LockError {
        let waiters = held.waiters.unwrap_or(room);
        let detail = format!("{waiters} wait for it in the store, `max_waiters` allows no more");
        LockError::new(LockErrorKind::Overloaded, detail)
            .with_waiters(Some(waiters))
            .with_retry_after(held.remaining)
            .with_holder(held.holder.clone())
    }

    /// Records an answer or a failure of the store.
    pub(super) fn note_answer(&mut self, at: Moment, failure: Option<LockError>) {
        let answer = LastAnswer { at, failure };
        if let Some(waiter) = &self.waiter {
            waiter.note_answer(&answer);
        }
        self.store.last_answer = Some(answer);
    }

    /// Returns the failure of the store, if the last answer about the key was a failure. The last answer may be an
    /// answer to another waiter of this process.
    fn outage(&mut self) -> Option<LockError> {
        let (own, other) =
            (self.store.last_answer.take(), self.waiter.as_ref().and_then(Waiter::last_answer));
        let last = match (own, other) {
            (Some(own), Some(other)) if other.at.since(own.at).is_zero() => own,
            (own, other) => other.or(own)?,
        };
        last.failure
    }

    /// Returns the error that ends the wait. If the last answer of the store was a failure, the error is that failure,
    /// and not that the key is held. A caller may skip work if another holder does it, but must not skip it because the
    /// store is down.
    pub(super) fn give_up(&mut self, decision: Decision, held: &Held) -> LockError {
        let waited = self.waited();
        if let Some(failure) = self.outage() {
            return failure.with_waited(waited);
        }
        let kind = match decision {
            Decision::Shed => LockErrorKind::Overloaded,
            _ if self.waiter.is_none() && self.tries.count <= 1 => LockErrorKind::Contended,
            _ => LockErrorKind::TimedOut,
        };
        let waiters = Some(self.waiters(held));
        let error = LockError::new(kind, self.detail(held))
            .with_waited(waited)
            .with_waiters(waiters)
            .with_position(held.position)
            .with_retry_after(held.remaining)
            .with_holder(held.holder.clone());
        let error = match &held.key {
            Some(key) => error.with_key(key),
            None => error,
        };
        let error = if held.kept { error.kept() } else { error };
        if decision == Decision::Skip { error.skipped() } else { error }
    }

    /// Returns the part of the error's text that explains why the key is held. The text may be empty.
    fn detail(&self, held: &Held) -> Cow<'static, str> {
        let is_own =
            || held.holder.as_ref().is_some_and(|holder| *holder.identity() == *self.engine().identity);
        match held.remaining {
            Some(left) if held.kept => {
                format!("it is kept until its `min_hold` is over, {left:.1?} more").into()
            }
            None if held.kept => "it is kept until its `min_hold` is over".into(),
            _ if is_own() => OWN_GUARD.into(),
            _ => Cow::default(),
        }
    }
}
