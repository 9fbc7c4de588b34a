#![doc = include_str!("docs.md")]

mod fence;
mod holders;
mod inspect;
mod latch;
mod line;
mod roll;
mod room;
mod several;
mod signal;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod tickets;
mod watch;

pub use store::Memory;
