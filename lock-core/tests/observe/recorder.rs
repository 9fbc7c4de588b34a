//! A recorder that keeps all metrics in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, LocalRecorderGuard, Metadata,
    Recorder, SharedString, Unit,
};

/// The recorded values of one series.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) total: f64,
    pub(crate) samples: Vec<f64>,
}

#[derive(Debug, Default)]
struct Kept {
    series: BTreeMap<String, Seen>,
    described: BTreeMap<String, Option<Unit>>,
    registrations: usize,
}

/// Records all metrics of one thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(Arc<Mutex<Kept>>);

impl Memory {
    /// Installs a recorder for the calling thread. The recorder is never freed, so that no other recorder gets its
    /// address.
    pub(crate) fn here() -> (Self, LocalRecorderGuard<'static>) {
        let memory = Self::default();
        let forever: &'static Self = Box::leak(Box::new(memory.clone()));
        (memory, metrics::set_default_local_recorder(forever))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().expect("no test panics inside")
    }

    /// Returns the names of all series in the form `name{label=value,..}`, with sorted labels.
    pub(crate) fn names(&self) -> Vec<String> {
        self.kept().series.keys().cloned().collect()
    }

    pub(crate) fn described(&self) -> BTreeMap<String, Option<Unit>> {
        self.kept().described.clone()
    }

    /// Returns how many handles the library has requested.
    pub(crate) fn registrations(&self) -> usize {
        self.kept().registrations
    }

    pub(crate) fn seen(&self, name: &str) -> Option<Seen> {
        self.kept().series.get(name).cloned()
    }

    /// Returns the value of a counter or gauge. Panics if the series does not exist.
    pub(crate) fn total(&self, name: &str) -> f64 {
        self.seen(name).unwrap_or_else(|| panic!("no {name} in {:#?}", self.names())).total
    }

    pub(crate) fn samples(&self, name: &str) -> Vec<f64> {
        self.seen(name).unwrap_or_default().samples
    }

    fn series(&self, key: &Key) -> Arc<Series> {
        let mut labels: Vec<_> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        labels.sort();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        let mut kept = self.kept();
        kept.registrations += 1;
        kept.series.entry(name.clone()).or_default();
        drop(kept);
        Arc::new(Series { name, memory: self.clone() })
    }
}

struct Series {
    name: String,
    memory: Memory,
}

impl Series {
    fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(self.memory.kept().series.entry(self.name.clone()).or_default());
    }
}

impl CounterFn for Series {
    fn increment(&self, value: u64) {
        self.change(|seen| seen.total += value as f64);
    }
    fn absolute(&self, value: u64) {
        self.change(|seen| seen.total = value as f64);
    }
}

impl GaugeFn for Series {
    fn increment(&self, value: f64) {
        self.change(|seen| seen.total += value);
    }
    fn decrement(&self, value: f64) {
        self.change(|seen| seen.total -= value);
    }
    fn set(&self, value: f64) {
        self.change(|seen| seen.total = value);
    }
}

impl HistogramFn for Series {
    fn record(&self, value: f64) {
        self.change(|seen| seen.samples.push(value));
    }
}

impl Recorder for Memory {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.kept().described.insert(name.as_str().to_owned(), unit);
    }
    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.kept().described.insert(name.as_str().to_owned(), unit);
    }
    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.kept().described.insert(name.as_str().to_owned(), unit);
    }
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.series(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.series(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.series(key))
    }
}
