#![doc = include_str!("../voter.md")]

mod backend;
mod boot;
mod clock_guard;
mod connect;
mod new_cluster;
mod options;
mod peers;
mod probe;
#[cfg(feature = "redlock")]
mod redlock;
mod refusal;
mod role;
mod state;
#[cfg(feature = "redlock")]
mod url;
mod vote;

pub use backend::Voter;
#[cfg(test)]
pub(super) use boot::CONSTANTS;
#[cfg(feature = "testkit")]
pub(crate) use boot::boot_script;
pub use options::VoterOptions;
#[cfg(feature = "redlock")]
pub(crate) use redlock::connect;
