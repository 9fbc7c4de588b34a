#![doc = include_str!("docs.md")]

mod display;
mod event;
mod events;
mod hold;
#[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "nothing shows the names of the values"))]
mod labels;
mod metrics;
mod observer;
mod redact;
mod spans;
mod throttle;

pub use event::{LockEvent, LockName};
pub use events::LockEvents;

#[cfg(feature = "testing")]
pub(crate) use events::Witness;
pub(crate) use hold::{HoldRecorder, HoldStart, ReleaseContext, Subject};
pub(crate) use labels::{End, Op, Outcome, ReleaseError, Renewed};
pub(crate) use metrics::Meter;
#[cfg(feature = "metrics")]
pub use metrics::NamedTemplate;
pub(crate) use metrics::{quarantined, templates_of_attributes};
pub(crate) use observer::{LeftOut, Observer, Settings};
pub(crate) use redact::RedactedKey;
pub(crate) use spans::{failed, millis};
pub(crate) use throttle::Warning;
