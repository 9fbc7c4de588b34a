//! Registers the time series of metrics with the recorder, and keeps their handles.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, SharedString, Unit};

use super::recorder_id::RecorderId;
use crate::backend::NodeAnswer;
use crate::error::LossReason;
use crate::observe::labels::{End, LOSSES, Op, Outcome, ReleaseError, Renewed};

const ATTEMPTS: &str = "lock.client.acquire.attempts";
const WAIT_TIME: &str = "lock.client.wait_time";
const USE_TIME: &str = "lock.client.use_time";
const HELD: &str = "lock.client.held";
const PENDING: &str = "lock.client.pending_requests";
const RENEWALS: &str = "lock.client.renewals";
const LOST: &str = "lock.client.lost";
const BYPASSED: &str = "lock.client.bypassed";
const RELEASE_ERRORS: &str = "lock.client.release_errors";
const LONG_HELD: &str = "lock.client.long_held";
const OPERATION: &str = "lock.store.operation.duration";
const QUARANTINED: &str = "lock.store.quarantined";
const EVICTED: &str = "lock.store.evicted_keys";
const ROUND_TRIP: &str = "lock.store.node.round_trip";
const CLOCK_OFFSET: &str = "lock.store.node.clock_offset";
const STALL_TIME: &str = "lock.client.stall_time";

static METADATA: Metadata<'static> = Metadata::new("lock_core", Level::INFO, Some("lock_core"));

/// Describes the metrics and their units to the recorder.
pub(super) fn describe() {
    type Describe = fn(&dyn metrics::Recorder, KeyName, Option<Unit>, SharedString);
    let counter: Describe = |recorder, name, unit, text| recorder.describe_counter(name, unit, text);
    let gauge: Describe = |recorder, name, unit, text| recorder.describe_gauge(name, unit, text);
    let histogram: Describe = |recorder, name, unit, text| recorder.describe_histogram(name, unit, text);
    let all = [
        (ATTEMPTS, counter, Unit::Count, "Requests for a lock that have ended, by how"),
        (WAIT_TIME, histogram, Unit::Seconds, "From the request for a lock to its grant or refusal"),
        (USE_TIME, histogram, Unit::Seconds, "From the grant of a lock to its release or loss"),
        (HELD, gauge, Unit::Count, "Locks held"),
        (PENDING, gauge, Unit::Count, "Requests for a lock under way"),
        (RENEWALS, counter, Unit::Count, "Renewals of held locks, by their answer"),
        (LOST, counter, Unit::Count, "Locks lost while they were held, by why"),
        (
            BYPASSED,
            counter,
            Unit::Count,
            "Pieces of work that ran without their lock because the store failed",
        ),
        (RELEASE_ERRORS, counter, Unit::Count, "Releases that did not go well, by why"),
        (LONG_HELD, counter, Unit::Count, "Locks held for longer than the manager was told to expect"),
        (OPERATION, histogram, Unit::Seconds, "Calls of the store, by which"),
        (EVICTED, counter, Unit::Count, "Keys that the store has thrown away for lack of memory"),
        (ROUND_TRIP, histogram, Unit::Seconds, "Answers of a server to the question whether it is there"),
        (
            CLOCK_OFFSET,
            gauge,
            Unit::Seconds,
            "By how much the clock of a server is ahead of that of this machine",
        ),
        (STALL_TIME, histogram, Unit::Seconds, "How late the library woke up, where that was late"),
    ];
    metrics::with_recorder(|recorder| {
        for (name, describe, unit, text) in all {
            describe(recorder, KeyName::from_const_str(name), Some(unit), SharedString::const_str(text));
        }
    });
}

/// Records whether `node` of a quorum is in quarantine. The gauge is not part of a manager's meter, because every
/// manager that uses the node records the same value.
pub(crate) fn quarantined(node: &str, is: bool) {
    if RecorderId::current().is_none() {
        return;
    }
    metrics::with_recorder(|recorder| {
        let (name, text) =
            (KeyName::from_const_str(QUARANTINED), "Whether the node is in quarantine: 1, or 0");
        recorder.describe_gauge(name.clone(), Some(Unit::Count), SharedString::const_str(text));
        let labels = vec![Label::from_static_parts("backend", "quorum"), Label::new("node", node.to_owned())];
        recorder.register_gauge(&Key::from_parts(name, labels), &METADATA).set(f64::from(u8::from(is)));
    });
}

/// Records the metrics of the locks of one template. Without a recorder, all methods do nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Option<Arc<Series>>);

/// The handles of the time series of one template.
///
/// Counters are registered at once, so that a rate starts from zero. The histograms of refusals and losses are
/// registered only when they are first needed. Most of them are never needed, and each one consists of many time
/// series.
#[derive(Debug)]
pub(super) struct Series {
    labels: [Label; 2],
    attempts: [Counter; Outcome::NAMES.len()],
    waited: [OnceLock<Histogram>; Outcome::NAMES.len()],
    used: [OnceLock<Histogram>; End::NAMES.len()],
    held: Gauge,
    pending: Gauge,
    renewals: [Counter; Renewed::NAMES.len()],
    lost: [Counter; LOSSES.len()],
    release_errors: [Counter; ReleaseError::NAMES.len()],
    bypassed: Counter,
    long_held: Counter,
}

impl Series {
    /// Registers the series of `template` with the value zero.
    pub(super) fn register(template: &Arc<str>, backend: &'static str) -> Arc<Self> {
        let labels =
            [Label::new("template", Arc::clone(template)), Label::from_static_parts("backend", backend)];
        let more = |name, value| Label::from_static_parts(name, value);
        let one = |name| counter(key(name, &labels, None));
        let by = |name, label, value| counter(key(name, &labels, Some(more(label, value))));
        let gauge = |name| {
            let key = key(name, &labels, None);
            metrics::with_recorder(|recorder| recorder.register_gauge(&key, &METADATA))
        };
        let series = Self {
            attempts: Outcome::NAMES.map(|name| by(ATTEMPTS, "result", name)),
            waited: Default::default(),
            used: Default::default(),
            held: gauge(HELD),
            pending: gauge(PENDING),
            renewals: Renewed::NAMES.map(|name| by(RENEWALS, "result", name)),
            lost: LOSSES.map(|name| by(LOST, "reason", name)),
            release_errors: ReleaseError::NAMES.map(|name| by(RELEASE_ERRORS, "reason", name)),
            bypassed: one(BYPASSED),
            long_held: one(LONG_HELD),
            labels,
        };
        series.waited(Outcome::Acquired);
        series.used(End::Released);
        Arc::new(series)
    }

    fn waited(&self, outcome: Outcome) -> &Histogram {
        let label = || Label::from_static_parts("result", Outcome::NAMES[outcome as usize]);
        kept(&self.waited[outcome as usize], || histogram(key(WAIT_TIME, &self.labels, Some(label()))))
    }

    fn used(&self, end: End) -> &Histogram {
        let label = || Label::from_static_parts("end", End::NAMES[end as usize]);
        kept(&self.used[end as usize], || histogram(key(USE_TIME, &self.labels, Some(label()))))
    }
}

/// Returns the value of `cell`. If the cell is empty, first stores the result of `registers`. The cell is not locked
/// while `registers` runs, because the recorder may call the library, which may call this function again.
fn kept(cell: &OnceLock<Histogram>, registers: impl FnOnce() -> Histogram) -> &Histogram {
    match cell.get() {
        Some(histogram) => histogram,
        None => {
            let histogram = registers();
            cell.get_or_init(|| histogram)
        }
    }
}

/// Counts keys that the store has evicted.
pub(super) fn evicted(backend: &'static str, keys: u64) {
    let labels = vec![Label::from_static_parts("backend", backend)];
    counter(Key::from_parts(KeyName::from_const_str(EVICTED), labels)).increment(keys);
}

/// Records an answer of a server. Answers are rare, so the handle is not cached.
pub(super) fn node_answered(backend: &'static str, answer: &NodeAnswer<'_>) {
    let key = |name| {
        let labels =
            vec![Label::from_static_parts("backend", backend), Label::new("node", answer.node.to_owned())];
        Key::from_parts(KeyName::from_const_str(name), labels)
    };
    histogram(key(ROUND_TRIP)).record(answer.round_trip);
    if let Some(ahead) = answer.clock_ahead {
        let key = key(CLOCK_OFFSET);
        metrics::with_recorder(|recorder| recorder.register_gauge(&key, &METADATA)).set(ahead);
    }
}

/// Records how late a timer of the library fired.
pub(super) fn stalled(backend: &'static str, late: Duration) {
    let labels = vec![Label::from_static_parts("backend", backend)];
    histogram(Key::from_parts(KeyName::from_const_str(STALL_TIME), labels)).record(late);
}

fn key(name: &'static str, labels: &[Label; 2], more: Option<Label>) -> Key {
    let labels: Vec<Label> = labels.iter().cloned().chain(more).collect();
    Key::from_parts(KeyName::from_const_str(name), labels)
}

#[allow(clippy::needless_pass_by_value, reason = "a key is made for its handle")]
fn counter(key: Key) -> Counter {
    let counter = metrics::with_recorder(|recorder| recorder.register_counter(&key, &METADATA));
    // Write a zero, because some recorders show a series only after its first write.
    counter.increment(0);
    counter
}

#[allow(clippy::needless_pass_by_value, reason = "a key is made for its handle")]
fn histogram(key: Key) -> Histogram {
    metrics::with_recorder(|recorder| recorder.register_histogram(&key, &METADATA))
}

impl Meter {
    pub(super) fn new(series: Arc<Series>) -> Self {
        Self(Some(series))
    }

    /// Returns whether a recorder is installed. Without a recorder, callers need not read the clock.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    fn with(&self, count: impl FnOnce(&Series)) {
        if let Some(series) = &self.0 {
            count(series);
        }
    }

    /// Counts a request as pending.
    pub(crate) fn request_began(&self) {
        self.with(|series| series.pending.increment(1));
    }

    /// Counts the end of a request that [began](Self::request_began).
    pub(crate) fn request_ended(&self, outcome: Outcome, waited: Duration) {
        self.with(|series| {
            series.pending.decrement(1);
            series.attempts[outcome as usize].increment(1);
            series.waited(outcome).record(waited);
        });
    }

    /// Counts a lock as held.
    pub(crate) fn hold_began(&self) {
        self.with(|series| series.held.increment(1));
    }

    /// Counts the end of a [hold](Self::hold_began).
    pub(crate) fn hold_ended(&self) {
        self.with(|series| series.held.decrement(1));
    }

    pub(crate) fn hold_time(&self, end: End, held: Duration) {
        self.with(|series| series.used(end).record(held));
    }

    /// Counts a renewal by its result, even if the store did not answer.
    pub(crate) fn renewed(&self, answer: Renewed) {
        self.with(|series| series.renewals[answer as usize].increment(1));
    }

    pub(crate) fn lost(&self, reason: LossReason) {
        self.with(|series| series.lost[reason as usize].increment(1));
    }

    pub(crate) fn release_failed(&self, why: ReleaseError) {
        self.with(|series| series.release_errors[why as usize].increment(1));
    }

    /// Counts one execution of a body without its lock.
    pub(crate) fn record_bypass(&self) {
        self.with(|series| series.bypassed.increment(1));
    }

    /// Counts a lock that is held for longer than the limit for a warning.
    pub(crate) fn held_long(&self) {
        self.with(|series| series.long_held.increment(1));
    }
}

#[derive(Debug, Default)]
pub(super) struct StoreSeries {
    operations: [OnceLock<Histogram>; Op::NAMES.len()],
}

impl StoreSeries {
    pub(super) fn took(&self, op: Op, backend: &'static str, time: Duration) {
        let register = || {
            let name = Op::NAMES[op as usize];
            let labels =
                vec![Label::from_static_parts("backend", backend), Label::from_static_parts("op", name)];
            histogram(Key::from_parts(KeyName::from_const_str(OPERATION), labels))
        };
        kept(&self.operations[op as usize], register).record(time);
    }
}
