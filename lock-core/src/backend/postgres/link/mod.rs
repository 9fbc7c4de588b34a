//! The link to a server: dialling, probing, watching and using a connection, and listening for notifications.

mod abandoned;
mod connect;
mod connection;
mod dial;
mod listen;
mod probe;
mod session;
mod session_pooling;
mod shared;
mod sweep;
mod tls_request;
mod watch;

pub(crate) use connection::{Connection, Parameter, text};
pub(crate) use dial::{Goal, dial};
pub(crate) use listen::Listening;
pub(crate) use probe::check_version;
pub(crate) use session::Session;
pub(crate) use shared::Shared;
