//! Dials, probes, supervises and uses the connections to a server. The server may have any role in the store.
//!
//! A connection calls its [`Role`] for everything that depends on the role. The commands, the confirmation of copies,
//! the Cluster and the quorum use this module, but the module does not depend on them.

mod call;
mod clock;
mod connection;
mod dial;
mod driver;
mod evictions;
mod gather;
mod messages;
mod probe;
mod rights;
mod role;
mod sentinel;
mod session_state;
mod shared;
mod subscribe;
mod subscriptions;
mod watch;
mod way;

pub(crate) use call::Reply;
#[cfg(feature = "redlock")]
pub(crate) use clock::micros;
pub(crate) use clock::server_time;
pub(crate) use connection::Connection;
#[cfg(feature = "redlock")]
pub(crate) use dial::dial;
pub(crate) use dial::{Progress, Session, first, open};
pub(crate) use messages::digits;
pub(crate) use probe::{field, parsed, text, version_of};
pub(crate) use rights::KEY as PING_KEY;
pub(crate) use role::{Greeting, Role};
pub(crate) use sentinel::{Answer as SentinelAnswer, sentinel_views};
pub(crate) use session_state::SessionState;
pub(crate) use shared::Shared;
pub(crate) use way::{Way, ways};
