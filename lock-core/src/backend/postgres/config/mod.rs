//! The settings of a store, from a URL or from settings of the driver.

mod address;
mod advisory;
mod driver;
mod foreign;
mod form;
mod hosts;
mod listen;
mod options;
mod parse;
mod settings;
#[cfg(test)]
mod tests;
mod timers;

pub(crate) use address::{Address, Host};
pub(crate) use form::FORM;

pub(crate) use options::is_schema;
pub(crate) use settings::{Config, LOCK_TIMEOUT, Listen, SEARCH_PATH, STATEMENT_TIMEOUT};
pub(crate) use timers::Timers;
