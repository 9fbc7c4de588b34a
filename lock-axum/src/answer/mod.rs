//! Makes the answers to requests that are not served.

mod answers;
mod grpc;
mod outcome;
mod problem;
mod rejection;

pub(crate) use answers::Answers;
pub use outcome::Outcome;
pub(crate) use problem::LONGEST;
pub use rejection::LockRejection;
pub(crate) use rejection::UNKNOWN;
