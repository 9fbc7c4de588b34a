//! Defines the checked configuration of a layer, and the answers to requests that get no lock.
//!
//! A layer with options that contradict each other can still be mounted, and never panics. axum mounts the layers of a
//! method router when the router gets its state. This may happen in the accept loop, for each connection.
//! `LockLayer::check` finds such a contradiction at start-up. Without `check`, it becomes a 500 for each request and
//! one line in the log. The type of the layer does not enforce the check, because a correct layer should compile
//! without it.

mod check;
mod checked;
mod log;
mod methods;
mod mounted;
mod options;
mod policy;
mod refusal;

pub(crate) use checked::Config;
pub(crate) use methods::Methods;
pub(crate) use mounted::Mounted;
pub(crate) use options::{Options, SkipIf};
pub use policy::{OnDisconnect, OnNoRoute, OnStoreError};
