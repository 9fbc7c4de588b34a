//! The settings of a Redis store, read from a URL or from a client of the crate `redis`.

mod address;
mod deadline;
mod durability;
mod form;
mod from_driver;
mod options;
mod parse;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use address::{Address, Endpoint, Sentinels};
pub(crate) use durability::{Durability, MinReplicas};
pub(crate) use form::FORM;
pub(crate) use settings::Config;
