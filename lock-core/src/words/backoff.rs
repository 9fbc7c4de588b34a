//! Defines the default pauses of a strategy that retries.

use std::time::Duration;

/// The upper bound of the first pause.
pub(crate) const BASE: Duration = Duration::from_millis(5);
/// The upper bound of all pauses.
pub(crate) const MAX: Duration = Duration::from_millis(200);
