#![doc = include_str!("docs.md")]

mod acquire;
mod answer;
mod client;
pub mod cluster;
mod config;
mod confirm;
mod connection;
mod dial;
mod durability;
mod error;
mod evictions;
mod fence;
mod inspect;
mod latch;
mod links;
mod listeners;
mod probe;
mod release;
mod renew;
mod scripts;
mod sentinel;
mod shared;
#[cfg_attr(not(feature = "redis-tls"), path = "no_tls.rs")]
mod tls;
pub mod voter;

pub use client::Redis;
