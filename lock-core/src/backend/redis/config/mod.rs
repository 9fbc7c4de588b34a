//! The URL of a Redis server, read once.

mod address;
mod options;
mod parse;
mod settings;
#[cfg(test)]
mod tests;
mod text;

pub(super) use address::{Address, Sentinels};
#[cfg(feature = "redlock")]
pub(super) use settings::CALL_TIMEOUT;
pub(super) use settings::{Config, TlsFiles};
