//! What a client gets whose request was not served.

mod answers;
mod grpc;
mod outcome;
mod problem;
mod rejection;

pub(crate) use answers::{Answers, Form};
pub use outcome::Outcome;
pub use rejection::LockRejection;
