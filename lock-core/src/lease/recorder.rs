//! Records the metrics, events, spans and log of a lease.

use std::borrow::Cow;
use std::time::Duration;

use super::lease::Lease;
use crate::backend::Renewal;
use crate::clock::Moment;
use crate::error::{LockError, LossReason};
use crate::observe::{
    End, HoldStart, LeftOut, LockEvent, LockName, Observer, RedactedKey, ReleaseError, Renewed, Subject,
    Warning, failed, millis,
};

impl Lease {
    /// Opens the record of the hold. Call this when the guard reaches its caller.
    pub(crate) fn open_record(&self, template: Option<Cow<'static, str>>, start: HoldStart) {
        let HoldStart { meter, waited } = start;
        meter.hold_began();
        let subject = self.recorder.describe(template, meter);
        if let Some(waited) = waited {
            let fencing_token = self.known_fence();
            self.engine.observer.events.emit(|| {
                let lock = self.event_name();
                LockEvent::Granted { lock, waited, fencing_token }
            });
        }
        if !self.recorder.open()
            && let Some(reason) = self.loss()
        {
            self.count_lost(subject, reason);
        }
    }

    /// Closes the record if the last guard was released or dropped. If the lease was lost before, the loss is already
    /// recorded.
    pub(crate) fn record_released(&self) {
        if !self.has_ended() {
            return;
        }
        let Some(subject) = self.recorder.close() else { return };
        subject.meter.hold_ended();
        let events = &self.engine.observer.events;
        if subject.meter.is_on() || events.are_wanted() || !self.span.is_disabled() {
            let held = self.held();
            subject.meter.hold_time(End::Released, held);
            self.span.record("lock.held_ms", millis(held));
            let fencing_token = self.known_fence();
            events.emit(|| LockEvent::Released { lock: self.event_name(), held, fencing_token });
        }
        tracing::debug!(parent: &self.span, "lock released");
    }

    /// Closes the record of a lock that outlives its guard. The lock has not ended, so no end is reported.
    pub(crate) fn record_detached(&self) {
        if let Some(subject) = self.recorder.close() {
            subject.meter.hold_ended();
        }
        tracing::debug!(parent: &self.span, "lock detached");
    }

    /// Closes the record of a lost lock.
    pub(super) fn record_lost(&self, reason: LossReason) {
        let (template, key) = (self.template(), self.redacted_key());
        let why = self.why_lost(reason);
        tracing::error!(parent: &self.span, lock.template = template, lock.key = %key, reason = %why, "lock lost");
        failed(&self.span, &why);
        if let Some(subject) = self.recorder.close() {
            self.count_lost(subject, reason);
        }
    }

    fn count_lost(&self, subject: &Subject, reason: LossReason) {
        let held = self.held();
        subject.meter.hold_ended();
        subject.meter.lost(reason);
        subject.meter.hold_time(End::from_loss(reason), held);
        self.span.record("lock.held_ms", millis(held));
        let fencing_token = self.known_fence();
        self.engine.observer.events.emit(|| {
            let lock = self.event_name();
            LockEvent::Lost { lock, reason, held, fencing_token }
        });
    }

    /// Counts a renewal in the metrics, by its answer.
    pub(crate) fn record_renewal(&self, answer: &Renewal) {
        if let Some(subject) = self.recorder.subject() {
            subject.meter.renewed(Renewed::from_answer(answer));
        }
    }

    /// Warns that the lock will be lost if no renewal succeeds.
    pub(super) fn record_endangered(&self, error: &LockError) {
        let left = self.remaining();
        self.engine.observer.events.emit(|| LockEvent::Endangered { lock: self.event_name(), left });
        if let Some(left_out) = self.admit(Warning::Renewal) {
            let error = self.engine.observer.redact_error(error);
            tracing::warn!(parent: &self.span, lock.template = self.template(), lock.key = %self.redacted_key(), %error,
                ?left, left_out, "renewal not answered, trying again within the lease");
        }
    }

    /// Returns the time at which the lock counts as held for long. Returns `None` after this was reported. Also returns
    /// `None` if that time has passed before the lock has a guard; the first renewal with a guard then reports the long
    /// hold.
    pub(super) fn held_long_at(&self) -> Option<Moment> {
        (!self.recorder.is_done_with_long()).then(|| self.long_from())
    }

    fn long_from(&self) -> Moment {
        self.since.plus(self.engine.observer.settings.held_long)
    }

    /// Warns once that the lock has been held for long.
    pub(super) fn record_if_held_long(&self, now: Moment) {
        if !self.long_from().is_past(now) {
            return;
        }
        // A single grant of a claim for several keys has no guard while the claim waits for another key. The next
        // renewal repeats the check. The due time must not stay in the past, because the loop would then check and
        // renew without a pause.
        let Some(subject) = self.recorder.subject() else { return self.recorder.defer_long() };
        if !self.recorder.report_long() {
            return;
        }
        subject.meter.held_long();
        let held = now.since(self.since);
        self.engine.observer.events.emit(|| LockEvent::HeldLong { lock: self.event_name(), held });
        if let Some(left_out) = self.admit(Warning::HeldLong) {
            tracing::warn!(parent: &self.span, lock.template = self.template(), lock.key = %self.redacted_key(),
                lock.held_ms = millis(held), left_out, "the lock is held for long: is its holder stuck?");
        }
    }

    /// Warns that a release failed.
    pub(crate) fn record_release_failed(&self, why: ReleaseError, error: Option<&LockError>) {
        if let Some(subject) = self.recorder.subject() {
            subject.meter.release_failed(why);
        }
        let observer = &self.engine.observer;
        observer.events.emit(|| LockEvent::ReleaseFailed { lock: self.event_name() });
        let Some(left_out) = self.admit(Warning::Release) else { return };
        let (template, key) = (self.template(), self.redacted_key());
        let error = error.map(|error| tracing::field::display(observer.redact_error(error)));
        match why {
            ReleaseError::NotOurs => tracing::warn!(parent: &self.span, lock.template = template,
                lock.key = %key, left_out, "the lock was not ours any more when it was released"),
            ReleaseError::Unanswered | ReleaseError::Abandoned => tracing::warn!(parent: &self.span,
                lock.template = template, lock.key = %key, error, left_out,
                "release not answered; it goes on in the background"),
        }
    }

    fn held(&self) -> Duration {
        self.engine.clock.now().since(self.since)
    }

    pub(crate) fn template(&self) -> Option<&str> {
        self.recorder.subject()?.template.as_deref()
    }

    /// Returns the key in the form that the log may show.
    pub(crate) fn redacted_key(&self) -> RedactedKey<'_> {
        self.engine.observer.redact_key(&self.claim().key, self.template())
    }

    fn admit(&self, warning: Warning) -> Option<LeftOut> {
        let group = Observer::group(self.template(), self.claim().record.label());
        self.engine.observer.admit(group, warning)
    }

    fn event_name(&self) -> LockName {
        let template = self.recorder.subject().and_then(|subject| subject.template.clone());
        LockName::of_claim(self.claim(), self.options.kind, template)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::runtime::Handle;
    use tracing::Span;

    use super::*;
    use crate::backend::Grant;
    use crate::guard::LockGuard;
    use crate::manager::LockManager;
    use crate::observe::Meter;
    use crate::pending::Granted;

    /// Makes a lease like that of `guard`. The new lease is in the state before its guard reaches a caller.
    fn another(guard: &LockGuard) -> Arc<Lease> {
        let lease = guard.lease();
        let (engine, grant) = (Arc::clone(&lease.engine), Grant::new(lease.since, Duration::from_secs(9)));
        let granted = Granted { grant, arrived: lease.since };
        let runtime = Handle::current().id();
        Lease::new(lease.since, engine, runtime, lease.claim().clone(), lease.options, &granted, Span::none())
    }

    fn start() -> HoldStart {
        HoldStart { meter: Meter::default(), waited: Some(Duration::ZERO) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_that_is_lost_on_its_way_to_the_caller_is_told_in_order() {
        let locks = LockManager::in_memory();
        let guard = locks.lock("k").acquire().await.expect("it is free");
        let mut events = locks.events();
        let lease = another(&guard);
        assert!(lease.lose(LossReason::Taken));
        lease.open_record(None, start());
        assert!(matches!(events.next().await, Some(LockEvent::Granted { .. })));
        assert!(matches!(events.next().await, Some(LockEvent::Lost { .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn what_never_came_to_its_caller_is_never_told() {
        let locks = LockManager::in_memory();
        let guard = locks.lock("k").acquire().await.expect("it is free");
        let mut events = locks.events();
        let (released, lost) = (another(&guard), another(&guard));
        assert!(released.leave() && lost.lose(LossReason::Taken));
        guard.release().await.expect("memory answers");
        assert!(matches!(events.next().await, Some(LockEvent::Released { .. })), "that of the guard");
        let more = tokio::time::timeout(Duration::from_millis(1), events.next()).await;
        assert!(more.is_err(), "{more:?}");
    }
}
