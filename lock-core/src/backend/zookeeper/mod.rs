#![doc = include_str!("docs.md")]

mod acquire;
mod acquire_all;
mod backend;
mod behind;
mod changed;
mod claim_sites;
mod config;
mod connect;
mod create_all;
mod doctor;
mod downgrade;
mod error;
mod fence;
mod grants;
mod inspect;
mod line;
mod made;
mod names;
#[cfg(feature = "testkit")]
mod operator;
mod own;
mod places;
mod process;
mod record;
mod release;
#[cfg_attr(not(feature = "tls"), path = "no_secure.rs")]
mod secure;
mod session;
mod store;
mod tidy;
mod turns;

#[cfg(feature = "testkit")]
#[doc(hidden)]
pub use operator::Operator;
pub use store::ZooKeeper;
