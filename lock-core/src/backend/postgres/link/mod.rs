//! The link to a server: dialling, probing, watching and using a connection, and listening for notifications.

mod abandoned;
mod connection;
mod dial;
mod listen;
mod probe;
mod shared;
mod stream;
mod sweep;
mod watch;

pub(crate) use connection::{Connection, Parameter, text};
pub(crate) use dial::{Session, dial, open};
pub(crate) use listen::Listening;
pub(crate) use probe::check_version;
pub(crate) use shared::Shared;
