//! Serializes times, keys and shared texts.

use std::sync::Arc;
use std::time::Duration;

use serde::ser::{SerializeStruct, Serializer};

use crate::key::Key;

/// Writes a time in whole milliseconds.
pub(crate) fn millis<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Writes an optional time in whole milliseconds.
#[allow(clippy::ref_option, reason = "serde passes a reference to the field")]
pub(crate) fn millis_if_any<S: Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.serialize_some(&u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        None => serializer.serialize_none(),
    }
}

/// Writes a time in whole microseconds.
pub(crate) fn micros<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

/// Writes a list of keys.
pub(crate) fn keys<S: Serializer>(keys: &Arc<[Key]>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(keys.iter())
}

/// Writes a shared text.
pub(crate) fn text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// Writes the number of missed events as a named field, because a tagged event cannot contain a plain number.
pub(crate) fn missed<S: Serializer>(count: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    let mut missed = serializer.serialize_struct("Missed", 1)?;
    missed.serialize_field("count", count)?;
    missed.end()
}
