#![doc = include_str!("docs.md")]

mod acquire;
mod client;
mod config;
mod connection;
mod error;
mod links;
mod probe;
mod release;
mod renew;
mod scripts;

pub use client::Redis;
