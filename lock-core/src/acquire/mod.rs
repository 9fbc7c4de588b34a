//! From request to guard: the one place that waits.
//!
//! | file | holds |
//! | --- | --- |
//! | `plan` | [`Plan`]: the request with its defaults, and what is checked without the store |
//! | `outcome` | [`acquire`](acquire()): the loop, and the record of its outcome |
//! | `step` | the action that follows from each event: the decision alone |
//! | `run` | the loop, which carries out what `step` decides |
//! | `ask` | one request to the store |
//! | `linger` | the grant that lingers in this process |
//! | `state` | the memory of an acquisition |
//! | `wait` | what the loop waits for |
//! | `watch` | the pending notification of a watched store, and how long a waiter relies on it |
//! | `promote` | from a grant to the hold of a guard |
//! | `refusal` | why a wait ended without the lock |
//! | `recorder` | the metrics, events and log of a request |
//! | `spans` | its span, and the span of the grant |
//! | `multi`, `partial_grants` | several keys: all or none |
//! | `event` | the results of the loop's steps, as values |
//!
//! [`PendingClaim`](crate::pending::PendingClaim) rolls back what a dropped loop may have taken.
//!
//! # The ways in which a waiter is woken
//!
//! ```text
//!  a holder of this process releases                     the store
//!              |                                             |
//!   1 local_queue/                           2 granted   3 changed   4 reconnected
//!   hand-off, or "ask": the                  Listener    Backend     Listener
//!   key is free or lost                          |           |           |
//!              |                          notifications/    watch.rs  engine.rs
//!              |                             grants.rs     kept over   counts, and
//!              |                                |          the pauses  notifies all
//!              v                                v           v           v
//!          +----------------------------------------------------------------+
//!          |  wait.rs: `notice` selects between them                         |
//!          +----------------------------------------------------------------+
//!              ^                                            ^
//!              |                                            |
//!   5 a timer (`due`): the next heartbeat, the       6 engine.changed:
//!     end of the holder's lease, the floor, or         the manager closes
//!     the pause of the strategy
//! ```
//!
//! | | reaches | what the waiter does | if it is lost |
//! | --- | --- | --- | --- |
//! | 1 hand-off, ask | the next, or the head, of the local queue | takes the grant, or asks the store | cannot be lost; a waiter that is not polled is skipped after 250 ms |
//! | 2 `granted` | the owner of a queue entry that lives on heartbeats | takes the grant of its entry | the next heartbeat finds it |
//! | 3 `changed` | the claim that watches the key | asks the store | the floor |
//! | 4 `reconnected` | every waiter that asks the store: outside a local queue, or at its head | asks the store | 5 |
//! | 5 timer | the waiter itself | sends a heartbeat, asks the store, or asks its strategy | cannot be lost |
//! | 6 closing | every waiter | ends with `ShuttingDown` | cannot be lost |
//!
//! A waiter of the local queue is notified of 4 and 6 through the queue, any other one by `engine.changed`.
//!
//! `hub.rs` is the `Listener` that a store calls. The reports of a store (2 to 4) are hints. The timer alone ends every
//! wait: a waiter asks at the next heartbeat if the store has heartbeats, and at the floor if it is watched, 2 s over a
//! remote store and 60 s over one in this process.

mod ask;
mod event;
mod linger;
mod multi;
mod outcome;
mod partial_grants;
mod plan;
mod promote;
mod recorder;
mod refusal;
mod run;
mod spans;
mod state;
mod step;
mod wait;
mod watch;

pub(crate) use outcome::acquire;
pub(crate) use plan::Plan;
