//! The URL of a Redis server, parsed once.

mod address;
mod form;
mod options;
mod parse;
mod settings;
#[cfg(test)]
mod tests;

pub(super) use address::{Address, Sentinels};
pub(super) use form::FORM;
#[cfg(feature = "redlock")]
pub(super) use settings::CALL_TIMEOUT;
pub(super) use settings::Config;
