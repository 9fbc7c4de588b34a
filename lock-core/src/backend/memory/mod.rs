#![doc = include_str!("docs.md")]

mod state;
mod store;
#[cfg(test)]
mod tests;
mod watch;

pub use store::Memory;
