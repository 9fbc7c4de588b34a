//! Provides counters, gauges and histograms through the `metrics` facade. Without the feature `metrics`, this module
//! does nothing.
//!
//! `on` and `off` have the same functions. The functions of `off` are empty, and its values have no size.

#[cfg(feature = "metrics")]
mod handles;
#[cfg(not(feature = "metrics"))]
mod off;
#[cfg(feature = "metrics")]
mod on;
#[cfg(feature = "metrics")]
mod recorder_id;
#[cfg_attr(not(feature = "metrics"), path = "no_templates.rs")]
mod templates;

#[cfg(feature = "metrics")]
pub(crate) use handles::Meter;
#[cfg(feature = "metrics")]
pub(crate) use handles::quarantined;
#[cfg(not(feature = "metrics"))]
pub(crate) use off::quarantined;
#[cfg(not(feature = "metrics"))]
pub(crate) use off::{Meter, Meters};
#[cfg(feature = "metrics")]
pub(crate) use on::Meters;
#[cfg(feature = "metrics")]
pub use templates::NamedTemplate;
pub(crate) use templates::templates_of_attributes;
