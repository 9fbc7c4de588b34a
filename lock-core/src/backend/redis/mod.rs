#![doc = include_str!("docs.md")]

mod acquire;
mod answer;
mod backend;
mod call;
pub mod cluster;
mod config;
mod confirm;
mod connection;
mod deadline;
mod dial;
mod downgrade;
mod durability;
mod error;
mod evictions;
mod fence;
mod inspect;
mod keys;
mod latch;
mod messages;
mod primary;
mod probe;
mod release;
mod renew;
mod role;
mod scripts;
mod sentinel;
mod server;
mod server_clock;
mod shared;
mod subscribe;
mod units;
pub mod voter;
mod watch;

pub use backend::Redis;
