//! Queues the waiters of one process, and hands grants off between them.
//!
//! A waiter that need not be served in strict order of arrival joins the queue of its key. Only the *head*, the first
//! waiter of the queue, sends requests to the store. The others wait for a *hand-off*: when a holder of this process
//! releases, its grant passes to the next waiter in the queue without a request. So a hot key costs the store only one
//! waiter per process, and a hand-off costs only a wake-up.
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
//! If others wait elsewhere, that is, in other processes, the hand-offs end after a [quantum](quantum::Quantum), and
//! the grant is released at the store. Some stores do not report waiters in other processes. At the end of the quantum,
//! the process asks such a store whether others wait, and the hand-offs continue until the answer. If no one waits
//! elsewhere, a new quantum begins.
//!
//! If the request allows it, a released grant without waiters [lingers](lingering): it stays in this process for a
//! moment. The next acquisition of the key uses it without a request to the store.
//!
//! The future of a waiter may no longer be polled. If the waiter does not accept a hand-off within 250 ms, the renewers
//! [reclaim](LocalQueue::reclaim) the hand-off, and pass it to the next waiter or release it at the store. The unpolled
//! waiter leaves the queue, and joins again when it is polled.
//!
//! | file | holds |
//! | --- | --- |
//! | `queues` | [`LocalQueue`]: the queues of all keys |
//! | `key_queue` | the queue of one key |
//! | `last_answer` | the last answer of the store about a key |
//! | `waiter_node` | the state of one waiter, shared with the queue |
//! | `waiter` | [`Waiter`]: a waiter as the acquire loop uses it |
//! | `held_grant` | [`HeldGrant`]: the grant that successive holders share |
//! | `handoff` | [`Handoff`]: a grant between two holders |
//! | `lingering_keys`, `lingering` | grants that are kept after their release |
//! | `fence_sequence` | the fencing tokens of the holders of one grant |
//! | `quantum` | the time for which a process may keep a grant while others wait elsewhere |
//! | `recently_held` | the keys that were held a moment ago |
//! | `reclaim` | the signal that a waiter may not have accepted its hand-off |

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
#[cfg(test)]
mod tests;
mod waiter;
mod waiter_node;

pub(crate) use fence_sequence::FenceSequence;
pub(crate) use handoff::Handoff;
pub(crate) use held_grant::{Bounds, HeldGrant};
pub(crate) use last_answer::LastAnswer;
pub(crate) use lingering::Expected;
pub(crate) use quantum::QUESTION_TIMEOUT;
pub(crate) use queues::{HandedOff, LocalQueue};
pub(crate) use reclaim::RECLAIM_AFTER;
pub(crate) use waiter::Waiter;
