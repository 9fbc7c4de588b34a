//! Defines the holder of a lock: the secret token of one grant, and a readable record.
//!
//! | file | holds |
//! | --- | --- |
//! | `owner`, `source` | [`Owner`], the identity of one grant, and its generator |
//! | `record`, `field` | [`OwnerRecord`], a readable description of the holder, and its format in the store |
//! | `identity` | the process that requests the lock |

mod field;
mod identity;
#[allow(clippy::module_inception, reason = "the folder is named after its type")]
mod owner;
mod record;
mod source;

pub use identity::Identity;
pub use owner::{Owner, OwnerToken};
pub use record::OwnerRecord;
pub(crate) use source::OwnerSource;
