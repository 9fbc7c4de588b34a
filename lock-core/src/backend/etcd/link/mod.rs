//! The connections to the members of a cluster. Each runtime has one connection at a time, to a member that answers.

mod ask;
mod codec;
mod connection;
mod connector;
mod dial;
mod http2;
mod members;
mod streams;

pub(super) use ask::{Place, places, state};
pub(super) use connection::WATCH;
pub(super) use dial::{dial, linearizable_read};
pub(super) use members::Members;
pub(super) use streams::Events;
