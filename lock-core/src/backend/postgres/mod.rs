#![doc = include_str!("docs.md")]

pub mod advisory;
mod backend;
mod builder;
mod command;
mod config;
mod connect;
mod doctor;
mod error;
mod link;
mod migrate;
mod opener;
mod sql;
mod verify;

pub use backend::Postgres;
pub use builder::PostgresBuilder;
pub(crate) use connect::connect;
pub use migrate::{migrate, migration};
pub use opener::OpenConnection;
pub use tokio_postgres;
pub(crate) use verify::verify;
