//! The waiters of one process on one key, and the hand-off between them.
//!
//! A waiter of a barging claim joins the queue of its key. The queue has one head, who alone asks the store; all others
//! wait for their *turn*: a holder of this process that releases gives the grant itself to the next in queue, without a
//! word to the store. So a hot key costs the store one waiter for each process, and a hand-off inside a process costs
//! nothing but a wake-up.
//!
//! Once others are known to wait elsewhere, the turns end after a quantum, and the grant goes back to the store.
//!
//! A waiter whose future nobody polls is none. What it was told and has not heard after a moment is for the next, or for the
//! store: the renewers [look](LocalQueue::look) after that. It leaves the queue, and lines up again when it is polled.

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
