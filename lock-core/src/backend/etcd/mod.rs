#![doc = include_str!("docs.md")]

mod backend;
mod busy;
mod command;
mod config;
mod error;
mod fence;
mod keyspace;
mod ledger;
mod line;
mod link;
mod look;
mod names;
mod proto;
mod spare;
mod store;
mod ttl;

pub use backend::Etcd;
