//! The fields of spans.

use std::time::Duration;

use tracing::Span;

/// What the span of something that failed says.
pub(crate) fn failed(span: &Span, error: &dyn std::fmt::Display) {
    span.record("otel.status_code", "ERROR");
    span.record("error", tracing::field::display(error));
}

/// A duration as fields have it.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
