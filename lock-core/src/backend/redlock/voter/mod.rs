//! A Redis server as a voter: a role of its connections, and the gate that a server which may have forgotten a lease
//! must pass.

mod backend;
mod boot;
mod clock_guard;
mod connect;
mod new_cluster;
mod options;
mod peers;
mod probe;
mod refusal;
mod role;
mod state;
mod vote;

pub use backend::Voter;
#[cfg(test)]
pub(crate) use boot::CONSTANTS;
#[cfg(feature = "testkit")]
pub(crate) use boot::boot_script;
pub use options::VoterOptions;
