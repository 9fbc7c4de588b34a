//! The URL of a Redis server, read once.

mod address;
mod options;
mod parse;
mod settings;
#[cfg(test)]
mod tests;
mod text;

pub(super) use address::{Address, Sentinels};
pub(super) use settings::{Config, TlsFiles};
