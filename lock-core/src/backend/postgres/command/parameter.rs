//! Converts values to parameters of statements.

use std::time::Duration;

use tokio_postgres::types::Type;

use crate::backend::postgres::link::Parameter;
use crate::key::Key;

/// Returns a duration as a parameter, in us, rounded up: the lease in the store must not end before the holder's lease.
pub(super) fn micros(duration: Duration) -> Parameter {
    number(micros_of(duration))
}

/// Returns a duration in us, rounded up.
pub(super) fn micros_of(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000).max(1)).unwrap_or(i64::MAX)
}

pub(super) fn number(number: i64) -> Parameter {
    (Box::new(number), Type::INT8)
}

pub(super) fn int(number: impl Into<Option<i32>>) -> Parameter {
    (Box::new(number.into()), Type::INT4)
}

pub(super) fn flag(flag: bool) -> Parameter {
    (Box::new(flag), Type::BOOL)
}

/// Returns keys as a parameter.
pub(super) fn texts<'a>(keys: impl Iterator<Item = &'a Key>) -> Parameter {
    let keys: Vec<String> = keys.map(|key| key.as_str().to_owned()).collect();
    (Box::new(keys), Type::TEXT_ARRAY)
}
