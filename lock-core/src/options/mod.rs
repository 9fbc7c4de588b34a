//! Defines the options of requests, and the defaults and the profiles of a manager.

#[cfg_attr(not(feature = "config"), path = "no_attributes.rs")]
#[cfg_attr(
    not(feature = "macros"),
    allow(unreachable_pub, dead_code, unused_macros, reason = "only the attribute names profiles")
)]
mod attributes;
mod check;
#[cfg(feature = "config")]
mod config;
mod flaw;
mod linger;
mod named;
mod on_lost;
#[allow(clippy::module_inception, reason = "the folder is named after its type")]
mod options;
mod profile;
mod profiles;
mod release;
mod resolved;
mod take;

#[cfg(all(feature = "config", feature = "macros"))]
pub use attributes::NamedProfile;
pub(crate) use named::find;
pub use on_lost::OnLost;
#[cfg(feature = "config")]
pub(crate) use options::Options;
pub(crate) use options::Usual;
pub use profile::Profile;
pub(crate) use profiles::Profiles;
pub use release::Release;
pub(crate) use resolved::{LeaseOptions, Resolved};
