//! One grant in use: its local deadline, how many guards share it, whether it is lost, and what renews it.
//!
//! | file | holds |
//! | --- | --- |
//! | `lease` | [`Lease`], and the guards that share it |
//! | `state` | what it may be: held, endangered, ended, lost |
//! | `deadline`, `atomic_moment` | until when it is certainly ours |
//! | `loss` | whether it is still ours |
//! //! | `fencing` | its fencing token |
//! | `fork` | what is refused in a forked child |
//! | `handoff` | passing it on inside the process |
//! | `recorder` | what an operator sees of it: metrics, events, log |
//! | `release` | the release of a lease in the background |
//! | `renew`, `renewer` | renewals: one at once, and the loop for all that are due |
//! | `renewers` | the renewers of a manager, one for each runtime |
//! | `schedule`, `watch` | the queue ordered by due time, and what is due for a lease |
//!
//! One `Renewer` has a schedule of grants, ordered by the time at which they need attention: a renewal is due at a third
//! of the lease, a loss at its deadline. All grants that are due at about the same time leave as one batch for each shard of
//! the store, so that a node that hangs delays no answer of another.
//!
//! Over a remote store the renewer runs on a thread of its own with a current-thread runtime, so that a body that blocks
//! every worker of the caller's runtime keeps its lock. The price: an application that hangs keeps its locks, and `max_hold`
//! is the answer. Over the memory store it runs on the caller's runtime, so that a paused clock drives it. The application's
//! log and wakers run inside the renewer, and a panic in one of them must not end the renewals of all others.
//!
//! A loss is reported before the lease ends, also over the memory store, 2 ms early: expiry and its timer are on one clock
//! there, and without that margin a waiter could run before the old body is dropped. Releases of dropped guards and of
//! cancelled acquires also run where the renewer runs (`pending/cleanup.rs`).

mod atomic_moment;
mod deadline;
mod fencing;
mod fork;
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

pub(crate) use lease::{Lease, LeaseOptions};
pub(crate) use renewers::Renewers;
pub(crate) use schedule::Schedule;
