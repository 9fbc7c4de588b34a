#![doc = include_str!("docs.md")]

mod arrivals;
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
mod tickets;
mod watch;

pub use store::Memory;
