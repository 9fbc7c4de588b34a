#![doc = include_str!("docs.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
mod config;
#[cfg(feature = "console")]
#[cfg_attr(docsrs, doc(cfg(feature = "console")))]
pub mod console;
mod extract;
mod hold;
mod in_use;
mod key;
mod key_limit;
mod label;
mod layer;
mod once;
mod router;
mod service;

pub use answer::{LockRejection, Outcome};
pub use config::{OnDisconnect, OnNoRoute, OnStoreError};
pub use extract::{FencingToken, LockHandle};
pub use hold::Hold;
pub use key::{IntoKeyChoice, KeyChoice, KeyValues, PathParams};
pub use layer::{HasKey, HasNoKey, Keyed, LockLayer, NoKeyYet, TakesExtension};
pub use service::{Lock, LockBody, ResponseFuture};

/// The README, so that its examples compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
