#![doc = include_str!("docs.md")]

mod fence;
mod inspect;
mod latch;
mod line;
mod room;
mod several;
mod signal;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod watch;

pub use store::Memory;
