#![doc = include_str!("docs.md")]

mod grants;
mod id;
mod session;
mod session_keeper;
mod store;

pub use store::PostgresAdvisory;
