#![doc = include_str!("docs.md")]

mod ask;
mod commands;
mod map;
mod renew;
mod route;
mod router;
mod several;
pub(super) mod slot;

pub(super) use router::Router;
