//! Reads the time, in microseconds since the Unix epoch.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time, or the difference of two times, as the tables store it.
pub(crate) type Micros = i64;

/// Reads the clock of the system.
#[allow(clippy::disallowed_methods, reason = "the library reads time in one place; this is a program")]
pub(crate) fn now() -> Micros {
    micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(crate) fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}

#[allow(clippy::cast_precision_loss, reason = "it is printed with three digits")]
pub(crate) fn seconds(micros: Micros) -> f64 {
    micros as f64 / 1e6
}
