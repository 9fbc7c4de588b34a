//! Defines the count-down latch.
//!
//! [`count_down`] has the type that a program uses, [`retry`] repeats a step until the store answers, and [`wait`] is
//! the loop that waits. The `notifications` module lists the waiters of this process.

mod count_down;
mod retry;
mod wait;

pub use count_down::CountDownLatch;
