//! Reports what happens to the locks of one manager.

use std::time::Duration;

use super::events::Events;
use super::metrics::{Meter, Meters};
use super::redact::{RedactedError, RedactedKey};
use super::spans::millis;
use super::throttle::{Throttle, Warning};
use crate::clock::Clock;
use crate::error::LockError;
use crate::key::Key;

/// The settings for reports.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Whether keys must not appear in spans and in the log.
    pub(crate) redact_keys: bool,
    /// A lock that is held for longer than this duration is reported.
    pub(crate) held_long: Duration,
    /// A grant is logged at INFO if its request waited for longer than this duration.
    pub(crate) waited_long: Duration,
    /// The templates whose metrics are registered at the start, with the value zero.
    pub(crate) templates: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            redact_keys: false,
            held_long: Duration::from_secs(60 * 60),
            waited_long: Duration::from_secs(1),
            templates: Vec::new(),
        }
    }
}

/// The minimum length of a stall that the log reports.
const STALL_WARNED: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Observer {
    pub(crate) settings: Settings,
    pub(crate) meters: Meters,
    pub(crate) events: Events,
    throttle: Throttle,
    clock: Clock,
}

/// The name of the group of locks that have neither a template nor a label.
const NONE: &str = "none";

impl Observer {
    pub(crate) fn new(settings: Settings, store: &'static str, clock: Clock) -> Self {
        let meters = Meters::new(store, clock);
        for template in &settings.templates {
            meters.register(template);
        }
        Self { settings, meters, events: Events::default(), throttle: Throttle::default(), clock }
    }

    /// Returns the name of the group under which a lock is counted. The name is never a key, so there are only few
    /// groups.
    pub(crate) fn group<'a>(template: Option<&'a str>, label: Option<&'a str>) -> &'a str {
        template.or(label).unwrap_or(NONE)
    }

    /// Returns a key in the form that the log may show.
    pub(crate) fn redact_key<'a>(&self, key: &'a Key, template: Option<&'a str>) -> RedactedKey<'a> {
        if self.settings.redact_keys { RedactedKey::Hidden(template) } else { RedactedKey::Key(key) }
    }

    /// Returns an error in the form that the log may show. The text of an error may contain keys.
    pub(crate) fn redact_error<'a>(&self, error: &'a LockError) -> RedactedError<'a> {
        RedactedError::new(error, self.settings.redact_keys)
    }

    /// Returns `Some` if a warning about locks of `group` should be logged now. The inner value is the number of
    /// similar warnings that were suppressed before.
    pub(crate) fn admit(&self, group: &str, warning: Warning) -> Option<LeftOut> {
        let left_out = self.throttle.admit(group, warning, self.clock.now())?;
        Some((left_out > 0).then_some(left_out))
    }

    /// Records that a body ran without its lock.
    pub(crate) fn record_bypass(&self, template: &str) {
        self.meter(template).record_bypass();
        self.events.emit(|| super::LockEvent::Bypassed { template: template.into() });
        tracing::debug!(lock.template = template, "ran without its lock: the store does not answer");
    }

    /// Records that the store has evicted keys. The store has already logged this.
    pub(crate) fn record_evicted(&self, keys: u64) {
        self.meters.evicted(keys);
        self.events.emit(|| super::LockEvent::StoreEvicted { keys });
    }

    /// Records how late a timer of the library fired. All work that waits for these timers, such as a renewal, was
    /// equally late.
    pub(crate) fn record_stall(&self, late: Duration) {
        self.meters.stalled(late);
        // tokio's clock is excluded, because it jumps when a test advances it.
        if late < STALL_WARNED || self.clock == Clock::Tokio {
            return;
        }
        if let Some(left_out) = self.admit("", Warning::Stall) {
            tracing::warn!(
                late_ms = millis(late),
                left_out,
                "the thread that renews the locks woke up late: the process was stopped, the machine slept, or it gets \
                 too little CPU time; locks with a shorter ttl may be lost"
            );
        }
    }

    fn meter(&self, template: &str) -> Meter {
        self.meters.meter(template, self.clock.now())
    }
}

/// The number of similar warnings that were suppressed before this warning, or `None` instead of zero.
pub(crate) type LeftOut = Option<u64>;
