//! The count-down latch.
//!
//! [`count_down`] is what a program holds, [`retry`] the steps that are asked for until they are answered, [`wait`] the
//! loop that waits, and the `notifications` module the waiters of one process.

mod count_down;
mod retry;
mod wait;

pub use count_down::CountDownLatch;
