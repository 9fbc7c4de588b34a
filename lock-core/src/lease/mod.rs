//! Manages grants in use: their deadlines, guards, losses and renewals.
//!
//! | file | holds |
//! | --- | --- |
//! | `lease` | [`Lease`]: a grant in use, shared by its guards |
//! | `state` | the states of a lease: held, endangered, released, lost |
//! | `bounds` | the time until which a new grant is held |
//! | `deadline` | the time until which a grant is certainly held |
//! | `loss` | the check for a loss, and the notifications of a loss |
//! | `fencing` | the fencing token |
//! | `handoff` | the hand-off of the grant inside the process |
//! | `renew`, `release` | a renewal at once, a release in the background |
//! | `recorder` | the metrics, events and log of a lease |
//! | `watch` | the times at which a lease is checked |
//! | `due`, `due_queue`, `schedule` | the time of the next check, the queue of these times, and its use by the loop |
//! | `renewer` | the loop that renews leases and reports losses |
//! | `renewers` | the loops of one manager |
//!
//! A `Renewer` is a loop with a schedule of leases, ordered by the time of their next check. A renewal is due after a
//! third of the lease, and the report of a loss at the lease's deadline. All renewals that are due at about the same
//! time are sent in one batch for each shard of the store. So a node that hangs does not delay the answers of other
//! nodes.
//!
//! Over a remote store the renewer runs on a separate thread with a current-thread runtime. So a body that blocks every
//! worker of the caller's runtime keeps its lock. The disadvantage is that an application that hangs keeps its locks
//! too; `max_hold` limits this. Over the memory store the renewer runs on the caller's runtime, so that tests with a
//! paused clock control it. The log subscriber and the wakers of the application run inside the renewer. If one of them
//! panics, the renewals of other leases must continue.
//!
//! When a runtime ends, its renewer ends too. The leases of that runtime stay in the schedule, so that a shutdown and
//! the reports of the store still reach them. These leases stay held until they expire.
//!
//! A loss is reported before the lease ends at the store. Over the memory store the margin is 2 ms. The expiry in that
//! store and the timer of the loss use the same clock, so without a margin a waiter could run before the old body is
//! dropped. Releases of dropped guards and of cancelled requests also run on the renewer's runtime
//! (`pending/cleanup.rs`).

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
