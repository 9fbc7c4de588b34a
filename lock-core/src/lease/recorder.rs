//! A lock in use, until it is released or lost.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use super::lease::Lease;
use crate::backend::Renewal;
use crate::clock::Moment;
use crate::error::{LockError, LossReason};
use crate::observe::{
    End, LeftOut, LockEvent, LockName, Meter, Observer, RedactedKey, ReleaseError, Renewed, Warning, failed,
    millis,
};

/// What was told of a hold.
///
/// Nothing is, before it comes to its caller: one key of several, or a grant whose fencing token could not be had, is not
/// in use. From then on it counts as held until [`close`](Self::close), which happens once.
#[derive(Debug, Default)]
pub(crate) struct HoldRecorder {
    phase: AtomicU8,
    subject: OnceLock<Subject>,
    reported_long: AtomicBool,
}

const IDLE: u8 = 0;
const OPEN: u8 = 1;
const CLOSED: u8 = 2;

/// What is said of a grant once it has come to its caller.
#[derive(Debug)]
pub(crate) struct HoldStart {
    pub(crate) meter: Meter,
    pub(crate) waited: Option<Duration>,
}

#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) template: Option<Cow<'static, str>>,
    pub(super) meter: Meter,
}

impl HoldRecorder {
    /// Ends it; what it was, for the one who ended what was in use.
    fn close(&self) -> Option<&Subject> {
        (self.phase.swap(CLOSED, Ordering::AcqRel) == OPEN).then(|| self.subject.get()).flatten()
    }
}

impl Lease {
    /// The lock has come to its caller.
    pub(crate) fn open_record(&self, template: Option<Cow<'static, str>>, start: HoldStart) {
        let HoldStart { meter, waited } = start;
        meter.holds();
        let subject = self.recorder.subject.get_or_init(|| Subject { template, meter });
        if let Some(waited) = waited {
            let fencing_token = self.known_fence();
            self.engine.observer.events.tell(|| {
                let lock = self.event_name();
                LockEvent::Granted { lock, waited, fencing_token }
            });
        }
        let opened = self.recorder.phase.compare_exchange(IDLE, OPEN, Ordering::AcqRel, Ordering::Acquire);
        // It may have been lost on its way.
        if opened.is_err()
            && let Some(reason) = self.loss()
        {
            self.count_lost(subject, reason);
        }
    }

    /// This hold goes on with what was told of another: the use has not ended.
    ///
    /// For one that nobody else knows of yet.
    pub(crate) fn continue_record(&self, before: &Self) {
        let Some(subject) = before.recorder.subject.get() else { return };
        if before.recorder.phase.swap(CLOSED, Ordering::AcqRel) != OPEN {
            subject.meter.holds();
        }
        let _ = self.recorder.subject.set(subject.clone());
        self.recorder
            .reported_long
            .store(before.recorder.reported_long.load(Ordering::Relaxed), Ordering::Relaxed);
        self.recorder.phase.store(OPEN, Ordering::Release);
    }

    /// The last guard is gone.
    pub(crate) fn record_released(&self) {
        let Some(subject) = self.recorder.close() else { return };
        subject.meter.holds_no_more();
        let events = &self.engine.observer.events;
        if subject.meter.is_on() || events.are_wanted() || !self.span.is_disabled() {
            let held = self.held();
            subject.meter.used(End::Released, held);
            self.span.record("lock.held_ms", millis(held));
            let fencing_token = self.known_fence();
            events.tell(|| LockEvent::Released { lock: self.event_name(), held, fencing_token });
        }
        tracing::debug!(parent: &self.span, "lock released");
    }

    /// It is lost.
    pub(crate) fn record_lost(&self, reason: LossReason) {
        let (template, key) = (self.template(), self.redacted_key());
        tracing::error!(parent: &self.span, lock.template = template, lock.key = %key, %reason, "lock lost");
        failed(&self.span, &reason);
        if let Some(subject) = self.recorder.close() {
            self.count_lost(subject, reason);
        }
    }

    fn count_lost(&self, subject: &Subject, reason: LossReason) {
        let held = self.held();
        subject.meter.holds_no_more();
        subject.meter.lost(reason);
        subject.meter.used(End::of(reason), held);
        self.span.record("lock.held_ms", millis(held));
        let fencing_token = self.known_fence();
        self.engine.observer.events.tell(|| {
            let lock = self.event_name();
            LockEvent::Lost { lock, reason, held, fencing_token }
        });
    }

    /// A renewal was answered, or was not.
    pub(crate) fn record_renewal(&self, answer: &Renewal) {
        if let Some(subject) = self.recorder.subject.get() {
            subject.meter.renewed(Renewed::of(answer));
        }
    }

    /// It will be lost unless a renewal gets through.
    pub(crate) fn record_endangered(&self, error: &LockError) {
        let left = self.remaining();
        self.engine.observer.events.tell(|| LockEvent::Endangered { lock: self.event_name(), left });
        if let Some(left_out) = self.admit(Warning::Renewal) {
            let error = self.engine.observer.redact_error(error);
            tracing::warn!(parent: &self.span, lock.template = self.template(), lock.key = %self.redacted_key(), %error,
                ?left, left_out, "renewal not answered, trying again within the lease");
        }
    }

    /// When it will have been held for long; `None` once that was told.
    pub(crate) fn held_long_at(&self) -> Option<Moment> {
        let is_told = self.recorder.reported_long.load(Ordering::Relaxed);
        (!is_told).then(|| self.since.plus(self.engine.observer.settings.held_long))
    }

    /// Tells, once, that it is held for long.
    pub(crate) fn record_if_held_long(&self, now: Moment) {
        if !self.held_long_at().is_some_and(|after| after.is_past(now)) {
            return;
        }
        let Some(subject) = self.recorder.subject.get() else { return };
        if self.recorder.reported_long.swap(true, Ordering::Relaxed) {
            return;
        }
        subject.meter.held_long();
        let held = now.since(self.since);
        self.engine.observer.events.tell(|| LockEvent::HeldLong { lock: self.event_name(), held });
        if let Some(left_out) = self.admit(Warning::HeldLong) {
            tracing::warn!(parent: &self.span, lock.template = self.template(), lock.key = %self.redacted_key(),
                lock.held_ms = millis(held), left_out, "the lock is held for long: is its holder stuck?");
        }
    }

    /// Its release did not go well.
    pub(crate) fn record_release_failed(&self, why: ReleaseError, error: Option<&LockError>) {
        if let Some(subject) = self.recorder.subject.get() {
            subject.meter.release_failed(why);
        }
        let observer = &self.engine.observer;
        observer.events.tell(|| LockEvent::ReleaseFailed { lock: self.event_name() });
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

    /// What is said of this lock after it is gone.
    pub(crate) fn release_context(&self) -> ReleaseContext {
        ReleaseContext { subject: self.recorder.subject.get().cloned() }
    }

    fn held(&self) -> Duration {
        self.engine.clock.now().since(self.since)
    }

    pub(crate) fn template(&self) -> Option<&str> {
        self.recorder.subject.get()?.template.as_deref()
    }

    /// Its key as the log may show it.
    pub(crate) fn redacted_key(&self) -> RedactedKey<'_> {
        self.engine.observer.redact_key(&self.claim.key, self.template())
    }

    fn admit(&self, warning: Warning) -> Option<LeftOut> {
        let group = Observer::group(self.template(), self.claim.record.label());
        self.engine.observer.admit(group, warning)
    }

    fn event_name(&self) -> LockName {
        let template = self.recorder.subject.get().and_then(|subject| subject.template.clone());
        LockName::of_claim(&self.claim, self.options.kind, template)
    }
}

/// Of which lock a release in the background is.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReleaseContext {
    subject: Option<Subject>,
}

impl ReleaseContext {
    fn meter(&self) -> Meter {
        self.subject.as_ref().map(|subject| subject.meter.clone()).unwrap_or_default()
    }

    pub(crate) fn template(&self) -> Option<&str> {
        self.subject.as_ref()?.template.as_deref()
    }

    /// The release was given up.
    pub(crate) fn abandoned(&self) {
        self.meter().release_failed(ReleaseError::Abandoned);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing::Span;

    use super::*;
    use crate::backend::Grant;
    use crate::guard::LockGuard;
    use crate::manager::LockManager;

    /// A hold like that of `guard` that has not come to its caller.
    fn another(guard: &LockGuard) -> Arc<Lease> {
        let lease = guard.lease();
        let (engine, grant) = (Arc::clone(&lease.engine), Grant::new(lease.since, Duration::from_secs(9)));
        let renewer = engine.renewers.here().expect("there is a runtime");
        Lease::new(engine, &renewer, lease.claim.clone(), lease.options, &grant, Span::none())
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
