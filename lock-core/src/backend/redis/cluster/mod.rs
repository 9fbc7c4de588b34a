#![doc = include_str!("docs.md")]

mod ask;
mod map;
mod renew;
mod route;
mod router;
mod several;
pub(super) mod slot;
mod store;

pub use store::Cluster;
