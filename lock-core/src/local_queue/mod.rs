//! The waiters of one process, and the hand-off between them.
//!
//! A waiter of a barging claim joins the queue of its key. The head of the queue alone asks the store. The others wait
//! for a *hand-off*: a holder of this process that releases gives its grant to the next in the queue, without a request
//! to the store. So a hot key costs the store one waiter for each process, and a hand-off inside a process costs a
//! wake-up.
//!
//! ```text
//!  release ---> hand_off ---> next in the queue      while the quantum lasts
//!     |                            |
//!     |  quantum over,             |  not polled for a while: reclaim
//!     |  nobody waits              v
//!     +--------> store <------ next in the queue
//!                  |
//!               freed ---> head asks
//! ```
//!
//! Once others are known to wait in other processes, the hand-offs end after a [quantum](quantum::Quantum), and the
//! grant goes back to the store.
//!
//! Where the request allows it, a grant that nobody waits for [lingers](lingering): it stays here for a moment, and the
//! next acquisition of the key takes it without a request to the store.
//!
//! A waiter whose future nobody polls is no waiter. What it was given and has not taken after a moment is for the next,
//! or for the store: the renewers [reclaim](LocalQueue::reclaim) it. Such a waiter leaves the queue, and joins it again
//! when it is polled.
//!
//! | file | holds |
//! | --- | --- |
//! | `queues` | [`LocalQueue`]: the queues of all keys |
//! | `key_queue` | the queue of one key |
//! | `waiter_node` | a waiter's part of a queue |
//! | `waiter` | [`Waiter`]: the waiter's side of it |
//! | `handoff` | [`Handoff`]: a grant on its way from holder to holder |
//! | `lingering` | grants that stay at hand after their release |
//! | `fence_sequence` | the fencing tokens of the holders of one grant |
//! | `quantum` | how long a process may keep a grant that others want |
//! | `recently_held` | which keys were held a moment ago |
//! | `reclaim` | whether a waiter may have something that it does not take |

mod fence_sequence;
mod handoff;
mod key_queue;
mod lingering;
mod quantum;
mod queues;
mod recently_held;
mod reclaim;
#[cfg(test)]
mod tests;
mod waiter;
mod waiter_node;

pub(crate) use fence_sequence::FenceSequence;
pub(crate) use handoff::{Handoff, HandoffLease};
pub(crate) use lingering::Expected;
pub(crate) use queues::LocalQueue;
pub(crate) use reclaim::RECLAIM_AFTER;
pub(crate) use waiter::Waiter;
