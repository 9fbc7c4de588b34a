//! The service: one request from key to answer.

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
