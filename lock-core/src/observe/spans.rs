//! Writes the fields of spans.

use std::time::Duration;

use tracing::Span;

/// Marks a span as failed.
pub(crate) fn failed(span: &Span, error: &dyn std::fmt::Display) {
    span.record("otel.status_code", "ERROR");
    span.record("error", tracing::field::display(error));
}

/// Returns a duration in milliseconds, which is the unit of the span fields.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
