#![doc = include_str!("docs.md")]

mod acquire;
mod answers;
mod builder;
mod crew;
mod fence;
mod heal;
mod ledger;
mod node;
mod patience;
mod release;
mod renew;
mod reports;
mod round;
mod store;
mod timing;
mod votes;

pub use builder::QuorumBuilder;
pub use store::Quorum;
