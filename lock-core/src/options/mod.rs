//! The options of requests, the defaults of a manager, and named sets of them.

mod linger;
#[allow(clippy::module_inception, reason = "the folder is named after its type")]
mod options;
mod profile;
mod release;

pub(crate) use linger::Lingers;
pub(crate) use options::Options;
pub use profile::Profile;
pub(crate) use profile::Profiles;
pub use release::Release;
