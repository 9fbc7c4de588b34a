#![doc = include_str!("docs.md")]

mod asked;
mod event;
mod events;
mod held;
#[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "nothing shows the names of the values"))]
mod labels;
mod metrics;
mod observer;
mod spans;
mod throttle;

pub use event::{LockEvent, LockName};
pub use events::LockEvents;

pub(crate) use asked::{Asked, store_fails};
#[cfg(feature = "testing")]
pub(crate) use events::Witness;
pub(crate) use held::{Origin, Seen};
pub(crate) use labels::{Op, ReleaseError};
#[cfg(feature = "redis")]
pub(crate) use metrics::quarantined;
pub(crate) use observer::{Observer, Settings};
pub(crate) use spans::{acquire_span, hold_span};
pub(crate) use throttle::Warning;
