#![doc = include_str!("docs.md")]

mod ask;
mod map;
mod redirect;
mod renew;
mod route;
mod router;
mod several;
pub(super) mod slot;
mod store;

pub use store::Cluster;

pub(super) use redirect::Redirect;
pub(super) use router::Router;
