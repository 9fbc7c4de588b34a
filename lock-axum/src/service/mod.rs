//! Defines the service that a layer makes. The service handles each request from its key to its answer.

mod admission;
mod body;
mod caught;
mod future;
mod lock;
mod release;
mod upload;
mod work;

pub use body::LockBody;
#[cfg(feature = "console")]
pub(crate) use caught::caught;
pub use future::ResponseFuture;
pub use lock::Lock;
