//! Makes the keys that a request locks. A key comes from a template and the values of the request, from a function or
//! from an extractor.

mod canonical;
mod choice;
mod extension;
mod extracted;
mod keys;
mod no_key;
mod query;
mod source;
mod uri_path;
mod uuid;
mod value;

pub(crate) use choice::Chooser;
pub use choice::{IntoKeyChoice, KeyChoice, PathParams};
pub(crate) use extension::Registered;
pub(crate) use extracted::Extracted;
pub use extracted::KeyValues;
pub(crate) use keys::Keys;
pub(crate) use no_key::NoKey;
#[cfg(feature = "console")]
pub(crate) use query::decode as form_value;
pub(crate) use source::path_params;
pub(crate) use value::Value;
