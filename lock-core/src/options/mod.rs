//! What a request leaves unsaid: the defaults of a manager, and named sets of them.

mod profile;

pub use profile::Profile;
pub(crate) use profile::Profiles;
