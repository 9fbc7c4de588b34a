//! Manages grants in use: their deadlines, guards, losses and renewals.
//!
//! | file | holds |
//! | --- | --- |
//! | `lease` | [`Lease`]: a grant in use, shared by its guards |
//! | `state` | the states of a lease: held, endangered, released, lost |
//! | `bounds` | until when a new grant is held |
//! | `deadline` | until when a grant is certainly held |
//! | `loss` | whether a grant is lost, and the notifications of a loss |
//! | `fencing` | the fencing token |
//! | `handoff` | the hand-off of the grant inside the process |
//! | `renew`, `release` | a renewal at once, a release in the background |
//! | `recorder` | the metrics, events and log of a lease |
//! | `watch` | when a lease is checked |
//! | `due`, `due_queue`, `schedule` | when a lease is checked next: the times, their queue, and the loop's side of it |
//! | `renewer` | the loop that renews leases and reports losses |
//! | `renewers` | the loops of one manager |
//!
//! A `Renewer` has a schedule of grants, ordered by the time of their next check. A renewal is due at a third of the
//! lease, a loss at its deadline. All renewals that are due at about the same time are sent as one batch for each shard
//! of the store. So a node that hangs does not delay the answers of other nodes.
//!
//! Over a remote store the renewer runs on a separate thread with a current-thread runtime. So a body that blocks every
//! worker of the caller's runtime keeps its lock. The price is that an application that hangs keeps its locks too;
//! `max_hold` limits that. Over the memory store the renewer runs on the caller's runtime, so that a paused clock
//! drives it. The log and the wakers of the application run inside the renewer, and a panic in one of them must not
//! stop the renewals of other leases.
//!
//! When a runtime ends, its renewer ends too. The leases of that runtime stay listed, so that a shutdown and the
//! reports of the store still reach them. They are held until they expire.
//!
//! A loss is reported before the lease ends. Over the memory store the margin is 2 ms. There, the expiry and the timer
//! of the loss use one clock, and without a margin a waiter could run before the old body is dropped. Releases of
//! dropped guards and of cancelled requests also run on the renewer's runtime (`pending/cleanup.rs`).

mod bounds;
mod deadline;
mod due;
mod due_queue;
mod fencing;
mod handoff;
#[allow(clippy::module_inception, reason = "the folder is named after its type")]
mod lease;
mod loss;
mod recorder;
mod release;
mod renew;
mod renewer;
mod renewers;
mod schedule;
mod state;
#[cfg(test)]
mod tests;
mod watch;

pub(crate) use lease::Lease;
pub(crate) use renewers::Renewers;
pub(crate) use schedule::Schedule;
