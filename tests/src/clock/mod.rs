//! The wall clock of one server, which a test can set.

mod set;

pub use set::Clock;
