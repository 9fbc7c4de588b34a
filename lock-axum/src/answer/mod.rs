//! The answers to requests that are not served.

mod answers;
mod grpc;
mod outcome;
mod problem;
mod rejection;

pub(crate) use answers::Answers;
pub use outcome::Outcome;
pub use rejection::LockRejection;
