//! The link to a server: how a connection is made, proved, watched and used, whatever the server is to the store.
//!
//! A connection asks its [`Role`] for what depends on that. So nothing here knows the commands, the copies, the Cluster or
//! the quorum that stand upon it.

mod call;
mod clock;
mod connection;
mod dial;
mod evictions;
mod messages;
mod probe;
mod role;
mod sentinel;
mod session_state;
mod shared;
mod subscribe;
mod subscriptions;
mod watch;

pub(crate) use call::Reply;
pub(crate) use connection::Connection;
pub(crate) use dial::{Progress, Session, dial, open};
pub(crate) use messages::Process;
pub(crate) use probe::{field, text, version_of};
pub(crate) use role::{Greeting, Role};
pub(crate) use session_state::SessionState;
pub(crate) use shared::Shared;
