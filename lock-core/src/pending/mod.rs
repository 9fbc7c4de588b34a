//! Tracks unanswered requests: claims that were sent to the store, and releases.
//!
//! A [`PendingClaim`] exists before the first byte of its request is sent, and rolls back when it is dropped. Grants
//! left over by a dropped claim, a dropped guard or an unclaimed hand-off go to the [`Cleanup`], which releases them in
//! the background. `under_way` contains the releases for which the next acquisition of their keys waits.

mod claim;
mod cleanup;
mod granted;
mod under_way;

pub(crate) use claim::{LeftEntry, PendingClaim, QueueEntry};
pub(crate) use cleanup::{Certainty, Cleanup, Counted, FreedKeys};
pub(crate) use granted::Granted;
pub(crate) use under_way::ReleaseUnderWay;
