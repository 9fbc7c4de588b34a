//! The count-down latch.
//!
//! [`count_down`] is what a program holds, [`insist`] the steps that are asked for until they are answered, [`wait`] the
//! loop that waits, and [`told`] the waiters of one process.

mod count_down;
mod insist;
mod told;
mod wait;

pub use count_down::CountDownLatch;
pub(crate) use told::Latches;
