//! What a layer asks for, checked, and what it answers without its lock.

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
