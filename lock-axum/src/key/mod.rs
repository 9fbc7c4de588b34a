//! What a request locks: templates with the values of the request, or what a function says.

mod canonical;
mod choice;
mod extension;
mod extracted;
mod keys;
mod no_key;
mod place;
mod query;
mod source;
mod uuid;
mod value;

pub(crate) use choice::Chooser;
pub use choice::{IntoKeyChoice, KeyChoice, PathParams};
pub(crate) use extension::Registered;
pub(crate) use extracted::Extracted;
pub use extracted::KeyValues;
pub(crate) use keys::{Keys, Rendered};
pub(crate) use no_key::NoKey;
