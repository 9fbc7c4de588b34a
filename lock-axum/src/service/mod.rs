//! The service that a layer makes. It serves each request from its key to its answer.

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
