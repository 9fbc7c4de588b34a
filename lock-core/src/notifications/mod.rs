//! Delivers the notifications of the store to the waiters of this process.
//!
//! A notification is one of several ways to wake a waiter. The docs of `acquire/` show all of them in one diagram. A
//! notification may be lost, so every waiter also has another way to wake up.

mod grants;
mod latches;
mod lost_owners;

pub(crate) use grants::{Notifications, Subscription};
pub(crate) use latches::Latches;
pub(crate) use lost_owners::LostOwners;
