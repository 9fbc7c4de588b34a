//! Makes the two spans of a lock, with their fields.

use tracing::Span;
use tracing::field::Empty;

use super::plan::Plan;

/// Makes the span that lasts from the request to the grant or the refusal.
pub(super) fn acquire_span(plan: &Plan) -> Span {
    tracing::debug_span!(
        "lock.acquire",
        lock.template = plan.template.as_deref(),
        lock.key = %plan.engine().observer.redact_key(&plan.key, plan.template.as_deref()),
        lock.kind = %plan.options.kind,
        lock.backend = plan.engine().capability.store,
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

/// Makes the span that lasts from the grant to the release or the loss.
pub(super) fn hold_span(plan: &Plan) -> Span {
    tracing::debug_span!(
        "lock.hold",
        lock.template = plan.template.as_deref(),
        lock.key = %plan.engine().observer.redact_key(&plan.key, plan.template.as_deref()),
        lock.kind = %plan.options.kind,
        lock.backend = plan.engine().capability.store,
        lock.label = plan.label.as_deref(),
        lock.fencing_token = Empty,
        lock.held_ms = Empty,
        otel.status_code = Empty,
        error = Empty,
    )
}
