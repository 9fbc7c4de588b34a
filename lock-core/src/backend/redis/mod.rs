#![doc = include_str!("docs.md")]

mod backend;
pub mod cluster;
mod command;
mod config;
mod durability;
mod error;
mod keyspace;
mod link;
mod primary;
pub(crate) mod scripts;
mod slot;
mod units;
pub mod voter;

pub use backend::Redis;
