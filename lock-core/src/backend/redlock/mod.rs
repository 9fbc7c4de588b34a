#![doc = include_str!("docs.md")]

#[cfg(not(feature = "redlock"))]
compile_error!("a build without the feature `redlock` compiles nothing of this folder");

mod connect;
pub mod quorum;
mod url;
mod voter;

pub(crate) use connect::connect;
#[cfg(test)]
pub(crate) use voter::CONSTANTS;
#[cfg(feature = "testkit")]
pub(crate) use voter::boot_script;
pub use voter::{Voter, VoterOptions};
