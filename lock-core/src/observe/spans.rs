//! The two spans, and their fields.

use std::time::Duration;

use tracing::Span;
use tracing::field::Empty;

use crate::acquire::Plan;

/// From the request to the grant or the refusal.
pub(crate) fn acquire_span(plan: &Plan) -> Span {
    tracing::debug_span!(
        "lock.acquire",
        lock.template = plan.template.as_deref(),
        lock.key = %plan.engine.observer.shown(&plan.key, plan.template.as_deref()),
        lock.kind = %plan.terms.kind,
        lock.backend = plan.engine.capability.store,
        lock.strategy = %plan.strategy.name(),
        lock.label = plan.label.as_deref(),
        lock.attempts = Empty,
        lock.waited_ms = Empty,
        lock.waiters = Empty,
        lock.position = Empty,
        lock.fencing_token = Empty,
        otel.status_code = Empty,
        error = Empty,
    )
}

/// From the grant to the release or the loss.
pub(crate) fn hold_span(plan: &Plan) -> Span {
    tracing::debug_span!(
        "lock.hold",
        lock.template = plan.template.as_deref(),
        lock.key = %plan.engine.observer.shown(&plan.key, plan.template.as_deref()),
        lock.kind = %plan.terms.kind,
        lock.backend = plan.engine.capability.store,
        lock.label = plan.label.as_deref(),
        lock.fencing_token = Empty,
        lock.held_ms = Empty,
        otel.status_code = Empty,
        error = Empty,
    )
}

/// What the span of something that failed says.
pub(super) fn failed(span: &Span, error: &dyn std::fmt::Display) {
    span.record("otel.status_code", "ERROR");
    span.record("error", tracing::field::display(error));
}

/// A duration as fields have it.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
