//! How long a grant was held before it was handed on.

use std::time::Duration;

use crate::clock::Moment;

/// A hold of this length is long: another turn of the runtime adds next to nothing to it.
const LONG: Duration = Duration::from_millis(1);

/// How long the holder before the present one had the grant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HoldTime {
    since: Option<Moment>,
    was_long: bool,
}

impl HoldTime {
    /// Notes that the store has granted it.
    pub(super) fn begins(&mut self, now: Moment) {
        *self = Self { since: Some(now), was_long: false };
    }

    /// Notes that it goes to another holder.
    pub(super) fn is_handed_on(&mut self, now: Moment) {
        let was_long = self.since.is_some_and(|since| now.since(since) >= LONG);
        *self = Self { since: Some(now), was_long };
    }

    /// Returns whether the last holder had it for long.
    pub(super) fn was_long(self) -> bool {
        self.was_long
    }
}
