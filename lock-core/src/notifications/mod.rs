//! Delivers what the store reports by itself to those who wait for it in this process.
//!
//! A waiter is woken on one of four roads: a notification for its owner or its latch (here), the local queue, the watch on
//! the store, and its own timer. A notification may be lost on its way, so nothing relies on it alone.

mod grants;
mod latches;
mod lost_owners;

pub(crate) use grants::{Notifications, Subscription};
pub(crate) use latches::Latches;
pub(crate) use lost_owners::LostOwners;
