#![doc = include_str!("docs.md")]

mod builder;
mod fault;
mod history;
mod holder;
mod locks;
mod store;
mod until;

pub use builder::TestLocksBuilder;
pub use fault::StoreFault;
pub use history::{Happened, TestEvent};
pub use holder::TestHolder;
pub use locks::TestLocks;
