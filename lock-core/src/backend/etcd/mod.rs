#![doc = include_str!("docs.md")]

mod backend;
mod command;
mod config;
mod doctor;
mod entering;
mod entries;
mod error;
mod fence;
mod keep;
mod keyspace;
mod line;
mod link;
mod plan;
mod proto;
mod session;
mod store;
mod ttl;

pub use backend::Etcd;
