//! The builder: which key, which lock, for which requests, and what is answered without it.

mod answers;
mod builder;
mod keyed;
mod lock;
mod options;
mod when;

pub use builder::{HasKey, HasNoKey, Keyed, LockLayer, NoKeyYet};
pub(crate) use options::Options;
pub(crate) use when::Methods;
pub use when::{OnDisconnect, OnNoRoute, OnStoreError};
