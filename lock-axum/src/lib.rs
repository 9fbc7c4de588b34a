#![doc = include_str!("docs.md")]

mod answer;
mod body;
mod config;
mod extract;
mod future;
mod hold;
mod in_flight;
mod key;
mod layer;
mod once;
mod service;
mod upload;

pub use answer::{LockRejection, Outcome};
pub use body::LockBody;
pub use extract::{FencingToken, LockHandle};
pub use future::ResponseFuture;
pub use hold::Hold;
pub use key::{IntoKeyChoice, KeyChoice, KeyValues, PathParams};
pub use layer::{HasKey, HasNoKey, Keyed, LockLayer, NoKeyYet, OnDisconnect, OnNoRoute, OnStoreError};
pub use service::Lock;

/// The README, so that its examples compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
