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
//!     |  or no waiter              v
//!     +--------> store <------ next in the queue
//!                  |
//!               freed ---> head asks
//! ```
//!
//! Once others are known to wait in other processes, the hand-offs end after a [quantum](quantum::Quantum), and the
//! grant goes back to the store. A store that does not report them is asked when the quantum is over, and the hand-offs
//! continue until it answers: if there are no waiters elsewhere, another quantum begins.
//!
//! If the request allows it, a grant without waiters [lingers](lingering): it stays here for a moment, and the next
//! acquisition of the key takes it without a request to the store.
//!
//! A waiter whose future is not polled does not count. A hand-off that it has not taken after a moment goes to the next
//! waiter, or to the store: the renewers [reclaim](LocalQueue::reclaim) it. Such a waiter leaves the queue, and joins
//! it again when it is polled.
//!
//! | file | holds |
//! | --- | --- |
//! | `queues` | [`LocalQueue`]: the queues of all keys |
//! | `key_queue` | the queue of one key |
//! | `last_answer` | the last answer of the store about a key |
//! | `waiter_node` | a waiter's part of a queue |
//! | `waiter` | [`Waiter`]: the waiter's side of it |
//! | `held_grant` | [`HeldGrant`]: the grant of one holder; [`SharedGrant`]: the state that successive holders share |
//! | `handoff` | [`Handoff`]: a grant between two holders |
//! | `lingering_keys`, `lingering` | grants that are kept after their release |
//! | `fence_sequence` | the fencing tokens of the holders of one grant |
//! | `quantum` | how long a process may keep a grant with waiters elsewhere |
//! | `recently_held` | which keys were held a moment ago |
//! | `shards` | how the keys are spread |
//! | `reclaim` | whether a waiter may have a hand-off that it does not take |

mod fence_sequence;
mod handoff;
mod held_grant;
mod key_queue;
mod last_answer;
mod lingering;
mod lingering_keys;
mod quantum;
mod queues;
mod recently_held;
mod reclaim;
mod shards;
#[cfg(test)]
mod tests;
mod waiter;
mod waiter_node;

pub(crate) use fence_sequence::FenceSequence;
pub(crate) use handoff::Handoff;
pub(crate) use held_grant::{Bounds, HeldGrant, SharedGrant};
pub(crate) use last_answer::LastAnswer;
pub(crate) use lingering::Expected;
pub(crate) use quantum::QUESTION_TIMEOUT;
pub(crate) use queues::{HandedOff, LocalQueue};
pub(crate) use reclaim::RECLAIM_AFTER;
pub(crate) use waiter::Waiter;
