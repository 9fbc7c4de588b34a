#![doc = include_str!("docs.md")]

mod arrivals;
mod backend;
mod compatibility;
mod entry;
mod events;
mod fence;
mod holders;
mod inspect;
mod latch;
mod multi;
mod queue;
mod store;
#[cfg(test)]
mod tests;
mod ticket;
mod tickets;
mod watch;

pub use store::Memory;
