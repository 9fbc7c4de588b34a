//! Writes the metrics, events, spans and log of a request.

use std::time::Duration;

use tracing::{Level, Span};

use super::plan::Plan;
use crate::clock::Moment;
use crate::error::{LockError, Result};
use crate::guard::Hold;
use crate::observe::{HoldStart, LockEvent, LockName, Meter, Observer, Outcome, Warning, failed, millis};

/// Records a request that is under way. If this value is dropped before [`finish`](Self::finish), the request counts as
/// cancelled.
#[derive(Debug)]
pub(super) struct AcquireRecorder<'a> {
    plan: &'a Plan,
    span: &'a Span,
    started: Moment,
    meter: Meter,
    finished: bool,
}

impl<'a> AcquireRecorder<'a> {
    /// Starts the record of a request that began at `started`, with the request's span.
    pub(super) fn begin(plan: &'a Plan, span: &'a Span, started: Moment) -> Self {
        let group = Observer::group(plan.template.as_deref(), plan.label.as_deref());
        let meter = plan.engine().observer.meters.meter(group, started);
        meter.request_began();
        Self { plan, span, started, meter, finished: false }
    }

    /// Records the outcome. Returns the values that the record of the hold starts with.
    pub(super) fn finish(mut self, outcome: &Result<Hold>) -> HoldStart {
        self.finished = true;
        match outcome {
            Ok(hold) => self.granted(hold),
            Err(error) => self.refused(error),
        }
    }

    fn observer(&self) -> &'a Observer {
        &self.plan.engine().observer
    }

    fn waited(&self) -> Duration {
        self.plan.engine().clock.now().since(self.started)
    }

    fn granted(&self, hold: &Hold) -> HoldStart {
        let meter = self.meter.clone();
        let observed = meter.is_on() || self.observer().events.are_wanted() || tracing::enabled!(Level::INFO);
        if !observed && self.span.is_disabled() {
            return HoldStart { meter, waited: None };
        }
        let waited = self.waited();
        meter.request_ended(Outcome::Acquired, waited);
        if let Some(token) = hold.lease().known_fence() {
            self.span.record("lock.fencing_token", token.get());
        }
        self.span.record("lock.waited_ms", millis(waited));
        if waited >= self.observer().settings.waited_long {
            let template = self.plan.template.as_deref();
            let key = self.observer().redact_key(&self.plan.key, template);
            tracing::info!(lock.template = template, lock.key = %key, lock.waited_ms = millis(waited),
                "lock granted after a long wait");
        } else {
            tracing::debug!("lock granted");
        }
        HoldStart { meter, waited: Some(waited) }
    }

    fn refused(&self, error: &LockError) -> HoldStart {
        let waited = error.waited().unwrap_or_else(|| self.waited());
        let outcome = Outcome::from_error(error);
        self.meter.request_ended(outcome, waited);
        self.span.record("lock.waited_ms", millis(waited));
        if let Some(waiters) = error.waiters() {
            self.span.record("lock.waiters", waiters);
        }
        if let Some(position) = error.position() {
            self.span.record("lock.position", position);
        }
        if outcome.is_failure() {
            failed(self.span, &self.observer().redact_error(error));
        }
        self.log(error, outcome, waited);
        self.observer().events.emit(|| LockEvent::Refused {
            lock: name(self.plan),
            why: error.kind(),
            skipped: error.is_skipped(),
            waited,
            holder: error.holder().cloned(),
        });
        HoldStart { meter: Meter::default(), waited: None }
    }

    fn log(&self, error: &LockError, outcome: Outcome, waited: Duration) {
        let plan = self.plan;
        let (template, label) = (plan.template.as_deref(), plan.label.as_deref());
        let admit = |warning| self.observer().admit(Observer::group(template, label), warning);
        let key = self.observer().redact_key(&plan.key, template);
        let holder = error.holder().map(tracing::field::display);
        let waited = millis(waited);
        match outcome {
            Outcome::Timeout => {
                if let Some(left_out) = admit(Warning::GaveUp) {
                    tracing::warn!(lock.template = template, lock.key = %key, holder, lock.waited_ms = waited,
                        left_out, "gave up waiting for the lock");
                }
            }
            Outcome::Overloaded => {
                if let Some(left_out) = admit(Warning::Overloaded) {
                    tracing::warn!(lock.template = template, lock.key = %key, holder, waiters = error.waiters(),
                        left_out, "too many requests wait for the lock");
                }
            }
            Outcome::Contended | Outcome::Skipped => {
                tracing::debug!(lock.key = %key, holder, lock.waited_ms = waited, "lock is held")
            }
            Outcome::StoreError | Outcome::Refused | Outcome::Acquired | Outcome::Cancelled => {
                let error = self.observer().redact_error(error);
                tracing::debug!(lock.key = %key, %error, "lock not granted");
            }
        }
    }
}

impl Drop for AcquireRecorder<'_> {
    fn drop(&mut self) {
        let observed = self.meter.is_on() || self.observer().events.are_wanted() || !self.span.is_disabled();
        if self.finished || !observed {
            return;
        }
        let waited = self.waited();
        self.meter.request_ended(Outcome::Cancelled, waited);
        self.span.record("lock.waited_ms", millis(waited));
        self.observer().events.emit(|| LockEvent::Cancelled { lock: name(self.plan), waited });
    }
}

pub(super) fn name(plan: &Plan) -> LockName {
    LockName {
        key: plan.key.clone(),
        more: plan.more.to_arc(),
        template: plan.template.clone(),
        label: plan.label.clone(),
        kind: plan.options.kind,
    }
}

/// Records that the store failed, and that the request keeps waiting.
pub(super) fn store_fails(plan: &Plan, error: &LockError) {
    let observer = &plan.engine().observer;
    let (template, label) = (plan.template.as_deref(), plan.label.as_deref());
    observer.events.emit(|| LockEvent::StoreFailed { lock: name(plan), error: error.to_string() });
    let Some(left_out) = observer.admit(Observer::group(template, label), Warning::StoreFails) else {
        return;
    };
    let (key, error) = (observer.redact_key(&plan.key, template), observer.redact_error(error));
    tracing::warn!(lock.template = template, lock.key = %key, %error, left_out,
        "the store fails, the wait for the lock goes on");
}

/// Records that a request waits for a key that a client of another library has locked without an expiry. If that client
/// has crashed, the key stays locked.
pub(super) fn never_expires(plan: &Plan, waited: Duration) {
    let observer = &plan.engine().observer;
    // The limit on warnings applies to each key and not to each template, because an operator has to check this very
    // key.
    let Some(left_out) = observer.admit(plan.key.as_str(), Warning::NoExpiry) else { return };
    let template = plan.template.as_deref();
    let key = observer.redact_key(&plan.key, template);
    tracing::warn!(lock.template = template, lock.key = %key, lock.waited_ms = millis(waited), left_out,
        "the key has a value of another library without an expiry: if its client is gone, nobody will free it");
}
