#![doc = include_str!("docs.md")]

mod commands;
mod discover;
mod doctor;
mod follow;
mod multi;
mod ping;
mod renew;
mod router;
mod slot_map;

pub(super) use router::Router;
