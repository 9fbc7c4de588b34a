//! Defines the count-down latch.
//!
//! [`count_down`] defines the type that a program uses, [`retry`] repeats a step until the store answers, and [`wait`]
//! contains the loop that waits. The module `notifications` notifies the waiters of this process.

mod count_down;
mod retry;
mod wait;

pub use count_down::CountDownLatch;
