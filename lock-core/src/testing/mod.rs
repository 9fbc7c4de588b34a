#![doc = include_str!("docs.md")]

mod holder;
mod locks;
mod store;

pub use holder::TestHolder;
pub use locks::{TestLocks, TestLocksBuilder};
