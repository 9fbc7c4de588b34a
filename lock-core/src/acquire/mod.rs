//! Turns a request into a guard. This is the only module in which a request waits.
//!
//! | file | holds |
//! | --- | --- |
//! | `plan` | [`Plan`]: the request with its defaults, and the checks that need no store |
//! | `outcome` | [`acquire`](acquire()): the loop, and the record of its outcome |
//! | `step` | the rules that choose the next action after each event |
//! | `run` | the loop, which carries out what `step` decides |
//! | `ask` | one request to the store |
//! | `linger` | the use or the release of a grant that this process kept after an earlier release |
//! | `state` | the state of an acquisition |
//! | `wait` | the wait for a hand-off, a notification or a timer |
//! | `watch` | the pending notification of a watched store, and how long a waiter relies on it |
//! | `promote` | the step from a grant to a `Hold`, the share of a guard in a lease |
//! | `refusal` | the error that ends a wait without the lock |
//! | `recorder` | the metrics, events and log of a request |
//! | `spans` | the span of a request, and the span of its grant |
//! | `multi`, `partial_grants` | requests for several keys: all or none |
//! | `event` | the results of the loop's steps, as values |
//!
//! If the loop is dropped, [`PendingClaim`](crate::pending::PendingClaim) rolls back the requests that it sent.
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
//! | 1 hand-off, ask | the next waiter, or the head, of the local queue | takes the grant, or sends a request | cannot be lost; a waiter that is not polled is skipped after 250 ms |
//! | 2 `granted` | the owner of a queue entry that is kept alive by heartbeats | takes the grant of its entry | the next heartbeat finds the grant |
//! | 3 `changed` | the claim that watches the key | sends a request | the waiter sends a request at the floor |
//! | 4 `reconnected` | every waiter that sends its own requests: outside of a local queue, or at its head | sends a request | the timer (5) ends the wait |
//! | 5 timer | the waiter itself | sends a heartbeat or a request, or consults its strategy | cannot be lost |
//! | 6 closing | every waiter | ends with `ShuttingDown` | cannot be lost |
//!
//! Events 4 and 6 reach a waiter in the local queue through that queue, and any other waiter through `engine.changed`.
//!
//! `hub.rs` is the `Listener` that a store calls. The reports of a store (2 to 4) are only hints, because the timer
//! alone ends every wait. If the store has heartbeats, the answer to the next heartbeat also reports a grant. If the
//! waiter watches the store, it sends a request at the floor, which is the longest time between two requests: 2 s over
//! a remote store, and 60 s over a store in this process.

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
