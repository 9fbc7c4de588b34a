//! Tracks unanswered requests: claims that were sent to the store, and releases.
//!
//! A [`PendingClaim`] is made before its request is sent, and rolls back when it is dropped. The [`Cleanup`] releases,
//! in the background, the grants that a dropped claim, a dropped guard or an unaccepted hand-off has left. `under_way`
//! contains the unanswered releases, for which the next acquisition of their keys waits.

mod claim;
mod cleanup;
mod granted;
mod under_way;

pub(crate) use claim::{LeftEntry, PendingClaim, QueueEntry};
pub(crate) use cleanup::{Certainty, Cleanup, Counted, FreedKeys};
pub(crate) use granted::Granted;
pub(crate) use under_way::ReleaseUnderWay;
