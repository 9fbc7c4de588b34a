//! The waiters of one process on one key, and the hand-off between them.
//!
//! A waiter of a barging claim joins the queue of its key. Only the head of the queue asks the store; all others wait for
//! a *hand-off*: a holder of this process that releases passes the grant itself to the next waiter, without a message to
//! the store. So a hot key costs the store one waiter for each process, and a hand-off costs a wake-up instead of two
//! commands. The process has one entry in the queue of the store. It belongs to the key's queue here, so a head that gives
//! up leaves it to the next one.
//!
//! Once waiters of other processes are known, the hand-offs end after a quantum, 64 of them or 10 ms. The holder then
//! releases, and the head queues in the store again. One script could do both, but two commands for 64 hand-offs are
//! little, and their answers cannot be lost between two futures.
//!
//! A waiter whose future is not polled does not count. A hand-off that it does not take within 250 ms passes to the next
//! waiter, or back to the store. The renewers [look](LocalQueue::look) after all keys at once, because a timer for each
//! hand-off would cost more than the hand-off. Such a waiter leaves the queue until it is polled: one that was offered the
//! grant in every round would slow down a hot key to one hand-off in 250 ms.

mod handoff;
mod key_queue;
mod queues;
mod recently_held;
#[cfg(test)]
mod tests;
mod unheard;
mod waiter;
mod waiter_node;

pub(crate) use handoff::{Handoff, HandoffLease};
pub(crate) use queues::LocalQueue;
pub(crate) use unheard::UNHEARD;
pub(crate) use waiter::Waiter;
