#![doc = include_str!("docs.md")]

mod grants;
mod id;
mod process;
mod session;
mod store;

pub use store::PostgresAdvisory;
