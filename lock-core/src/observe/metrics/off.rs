//! Replaces `on` and `handles` in a build without the feature `metrics`.

use std::future::Future;
use std::time::Duration;

use crate::backend::NodeAnswer;
use crate::clock::{Clock, Moment};
use crate::error::LossReason;
use crate::observe::labels::{End, Op, Outcome, ReleaseError, Renewed};

/// Replaces the type of the same name in `on`.
#[derive(Debug)]
pub(crate) struct Meters;

/// Replaces the type of the same name in `handles`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(());

impl Meters {
    pub(crate) fn new(_backend: &'static str, _clock: Clock) -> Self {
        Self
    }

    pub(crate) fn meter(&self, _template: &str, _now: Moment) -> Meter {
        Meter(())
    }

    pub(crate) fn timed<'a, F: Future + 'a>(&'a self, _op: Op, call: F) -> F {
        call
    }

    pub(crate) fn register(&self, _template: &str) {}

    pub(crate) fn evicted(&self, _keys: u64) {}

    pub(crate) fn node_answered(&self, _answer: &NodeAnswer<'_>) {}

    pub(crate) fn stalled(&self, _late: Duration) {}
}

/// Replaces the function of the same name in `handles`.
pub(crate) fn quarantined(_node: &str, _is: bool) {}

impl Meter {
    pub(crate) fn is_on(&self) -> bool {
        false
    }

    pub(crate) fn request_began(&self) {}

    pub(crate) fn request_ended(&self, _outcome: Outcome, _waited: Duration) {}

    pub(crate) fn hold_began(&self) {}

    pub(crate) fn hold_ended(&self) {}

    pub(crate) fn hold_time(&self, _end: End, _held: Duration) {}

    pub(crate) fn renewed(&self, _answer: Renewed) {}

    pub(crate) fn lost(&self, _reason: LossReason) {}

    pub(crate) fn release_failed(&self, _why: ReleaseError) {}

    pub(crate) fn record_bypass(&self) {}

    pub(crate) fn held_long(&self) {}
}
