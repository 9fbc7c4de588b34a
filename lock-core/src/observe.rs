//! Spans and events: their names and fields.

use std::time::Duration;

use tracing::Span;

use crate::acquire::Plan;
use crate::backend::Held;
use crate::error::LockErrorKind;
use crate::key::Key;

/// From the request to the grant or the refusal.
pub(crate) fn acquire_span(plan: &Plan) -> Span {
    tracing::debug_span!(
        "lock.acquire",
        lock.template = plan.template.as_deref(),
        lock.key = %plan.key,
        lock.kind = %plan.terms.kind,
        lock.backend = plan.engine.capability.store,
        lock.strategy = %plan.strategy.name(),
        lock.label = plan.label.as_deref(),
        lock.attempts = tracing::field::Empty,
        lock.waited_ms = tracing::field::Empty,
        lock.waiters = tracing::field::Empty,
        lock.position = tracing::field::Empty,
    )
}

/// From the grant to the release or the loss.
pub(crate) fn hold_span(plan: &Plan) -> Span {
    tracing::debug_span!(
        "lock.hold",
        lock.template = plan.template.as_deref(),
        lock.key = %plan.key,
        lock.kind = %plan.terms.kind,
        lock.backend = plan.engine.capability.store,
        lock.label = plan.label.as_deref(),
    )
}

fn waited(span: &Span, waited: Duration) {
    span.record("lock.waited_ms", u64::try_from(waited.as_millis()).unwrap_or(u64::MAX));
}

pub(crate) fn granted(attempts: u32, after: impl FnOnce() -> Duration) {
    let span = Span::current();
    if !span.is_disabled() {
        span.record("lock.attempts", attempts);
        waited(&span, after());
    }
    tracing::debug!("lock granted");
}

pub(crate) fn gave_up(key: &Key, kind: LockErrorKind, after: Duration, held: &Held) {
    let span = Span::current();
    waited(&span, after);
    if let Some(waiters) = held.waiters {
        span.record("lock.waiters", waiters);
    }
    if let Some(position) = held.position {
        span.record("lock.position", position);
    }
    let holder = held.holder.as_ref().map(tracing::field::display);
    match kind {
        LockErrorKind::Contended => tracing::debug!(lock.key = %key, holder, "lock is held"),
        LockErrorKind::Overloaded => tracing::warn!(lock.key = %key, holder, "too many wait for the lock"),
        _ => tracing::warn!(lock.key = %key, holder, waited = ?after, "gave up waiting for the lock"),
    }
}
