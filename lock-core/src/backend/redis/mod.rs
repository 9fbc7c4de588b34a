#![doc = include_str!("docs.md")]

mod backend;
pub mod cluster;
pub(super) mod command;
pub(super) mod config;
pub(super) mod doctor;
mod durability;
pub(super) mod error;
pub(super) mod keyspace;
pub(super) mod link;
pub(super) mod primary;
pub(crate) mod scripts;
mod slot;
pub(super) mod units;

pub use backend::Redis;
