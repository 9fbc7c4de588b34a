//! Distributed locks.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod key;
pub mod strategy;
pub mod owner;
pub mod clock;
pub mod backend;
mod error;

pub use error::{LockError, LockErrorKind, LossReason, Result};
