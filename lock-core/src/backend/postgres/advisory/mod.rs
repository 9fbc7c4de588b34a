#![doc = include_str!("docs.md")]

mod grants;
mod id;
mod keep;
mod session;
mod store;

pub use store::PostgresAdvisory;
