//! A voter is one Redis server of a quorum. The gate is the check, before each vote, that the server cannot have
//! forgotten a lease.

mod backend;
mod boot;
mod clock_guard;
mod connect;
mod doctor;
mod new_cluster;
mod options;
mod peers;
mod probe;
mod refusal;
mod role;
mod scripts;
mod session;
mod state;
mod vote;

pub use backend::Voter;
pub use options::VoterOptions;
#[cfg(test)]
pub(crate) use scripts::CONSTANTS;
#[cfg(feature = "testkit")]
pub(crate) use scripts::boot_script;
