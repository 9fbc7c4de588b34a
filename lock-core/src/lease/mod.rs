//! A grant in use: its local deadline, its guards, its loss, and its renewal.
//!
//! | file | holds |
//! | --- | --- |
//! | `lease` | [`Lease`], and the guards that share it |
//! | `state` | its states: held, endangered, released, lost |
//! | `bounds` | until when it is held at first |
//! | `deadline` | until when it is certainly held |
//! | `loss` | whether it is lost, and the notifications of a loss |
//! | `fencing` | its fencing token |
//! | `handoff` | handing its grant off inside the process |
//! | `renew`, `release` | renewing it at once, releasing it in the background |
//! | `recorder` | its metrics, events and log |
//! | `watch` | when it is looked at |
//! | `schedule` | the queue of one loop, by due time |
//! | `renewer` | the loop, which renews what is due and reports what is lost |
//! | `renewers` | the loops of one manager |
//!
//! One `Renewer` has a schedule of grants, ordered by the time at which they need attention: a renewal is due at a
//! third of the lease, a loss at its deadline. All grants that are due at about the same time leave as one batch for
//! each shard of the store, so that a node that hangs delays no answer of another.
//!
//! Over a remote store the renewer runs on a separate thread with a current-thread runtime, so that a body that blocks
//! every worker of the caller's runtime keeps its lock. The price: an application that hangs keeps its locks, and
//! `max_hold` is the answer. Over the memory store it runs on the caller's runtime, so that a paused clock drives it.
//! The application's log and wakers run inside the renewer, and a panic in one of them must not end the renewals of all
//! others.
//!
//! When a runtime ends, its renewer ends with it. Its leases stay listed, so that a shutdown and the reports of the
//! store reach them, and they are held until they run out.
//!
//! A loss is reported before the lease ends. Over the memory store the margin is 2 ms: expiry and the timer of the loss
//! are on one clock there, and without the margin a waiter could run before the old body is dropped. Releases of
//! dropped guards and of cancelled acquires also run on the renewer's runtime (`pending/cleanup.rs`).

mod bounds;
mod deadline;
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
