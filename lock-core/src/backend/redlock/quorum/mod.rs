#![doc = include_str!("docs.md")]

mod acquire;
mod answers;
mod backend;
mod builder;
mod deadline;
mod doctor;
mod fanout;
mod fence;
mod heal;
mod ledger;
mod node;
mod ping;
mod release;
mod renew;
mod reports;
mod round;
mod timing;
mod votes;

pub use backend::Quorum;
pub use builder::QuorumBuilder;
