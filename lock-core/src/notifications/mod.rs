//! Delivers the notifications of the store to the waiters of this process.
//!
//! A notification is one of several ways to wake a waiter; the docs of `acquire/` show all of them in one picture. A
//! notification may be lost on its way, so nothing relies on it alone.

mod grants;
mod latches;
mod lost_owners;

pub(crate) use grants::{Notifications, Subscription};
pub(crate) use latches::Latches;
pub(crate) use lost_owners::LostOwners;
