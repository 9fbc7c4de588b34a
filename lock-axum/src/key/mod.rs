//! What a request locks: templates with the values of the request, or what a function says.

mod canonical;
mod choice;
mod keys;
mod place;
mod query;
mod source;
mod uuid;
mod value;

pub use choice::KeyChoice;
pub(crate) use keys::{Keys, Rendered};
pub(crate) use source::NoKey;
