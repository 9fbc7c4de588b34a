#![doc = include_str!("../voter.md")]

mod boot;
mod clock_guard;
mod connect;
mod new_cluster;
mod options;
mod peers;
mod probe;
mod refusal;
mod state;
#[cfg(feature = "redlock")]
mod url;
mod vote;

pub use options::VoterOptions;
#[cfg(feature = "redlock")]
pub(crate) use url::RedlockUrl;

pub(super) use boot::Seat;
pub(super) use state::Voter;
