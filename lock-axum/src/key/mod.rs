//! What a request locks: templates with the values of the request, or what a function says.

mod choice;
mod keys;
mod source;

pub use choice::KeyChoice;
pub(crate) use keys::{Keys, Rendered};
pub(crate) use source::NoKey;
