//! The meters of one manager.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::handles::{Meter, Series, StoreSeries, describe, evicted};
use super::recorder_id::RecorderId;
use crate::clock::{Clock, Moment};
use crate::observe::labels::Op;
use crate::sync::RwLock;

/// The most templates that are told apart. A label that somebody makes from ids must not fill the memory of those who
/// keep the metrics.
const MAX_TEMPLATES: usize = 512;

/// What the templates beyond that are counted as.
const OTHERS: &str = "other";

/// Handles are asked for anew so often: an exporter may forget a series that was idle, and with it what its handle counts.
const REFRESH: Duration = Duration::from_secs(60);

/// The meters of one manager: handles are looked up by template once for each request, not for each count.
#[derive(Debug)]
pub(crate) struct Meters {
    backend: &'static str,
    clock: Clock,
    cache: RwLock<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    /// Whose handles these are, and since when.
    of: Option<(RecorderId, Moment)>,
    /// `None`: known, and not registered with this recorder since the last refresh.
    templates: HashMap<Arc<str>, Option<Arc<Series>>>,
    store: Arc<StoreSeries>,
}

impl Cache {
    /// Whether its handles are good for `recorder`.
    fn is_of(&self, recorder: RecorderId, now: Moment) -> bool {
        self.of.is_some_and(|(whose, since)| whose == recorder && now.since(since) < REFRESH)
    }

    fn get(&self, template: &str) -> Option<&Arc<Series>> {
        let series = match self.templates.get(template) {
            None if self.is_full() => self.templates.get(OTHERS),
            series => series,
        };
        series?.as_ref()
    }

    fn is_full(&self) -> bool {
        self.templates.len() >= MAX_TEMPLATES
    }

    /// Begins anew for `recorder`. One that is new gets all that is known, at zero.
    fn renew(&mut self, recorder: RecorderId, now: Moment, backend: &'static str) {
        let is_new = self.of.is_none_or(|(whose, _)| whose != recorder);
        self.of = Some((recorder, now));
        self.store = Arc::default();
        if is_new {
            describe();
        }
        for (template, series) in &mut self.templates {
            *series = is_new.then(|| Series::register(template, backend));
        }
    }

    /// The name under which `template` is counted.
    fn name(&mut self, template: &str) -> Arc<str> {
        let template =
            if self.is_full() && !self.templates.contains_key(template) { OTHERS } else { template };
        let known = self.templates.get_key_value(template).map(|(known, _)| Arc::clone(known));
        known.unwrap_or_else(|| {
            let new: Arc<str> = template.into();
            self.templates.insert(Arc::clone(&new), None);
            new
        })
    }
}

impl Meters {
    pub(crate) fn new(backend: &'static str, clock: Clock) -> Self {
        Self { backend, clock, cache: RwLock::default() }
    }

    /// The meter of `template`. Remembered where nobody records yet, only if it is [known](Self::know).
    pub(crate) fn of(&self, template: &str, now: Moment) -> Meter {
        let Some(recorder) = RecorderId::current() else { return Meter::default() };
        {
            let cache = self.cache.read();
            if let Some(series) = cache.get(template).filter(|_| cache.is_of(recorder, now)) {
                return Meter::new(Arc::clone(series));
            }
        }
        let mut cache = self.cache.write();
        if !cache.is_of(recorder, now) {
            cache.renew(recorder, now, self.backend);
        }
        let name = cache.name(template);
        let series = cache.templates.entry(Arc::clone(&name)).or_default();
        Meter::new(Arc::clone(series.get_or_insert_with(|| Series::register(&name, self.backend))))
    }

    /// Counts `template` from zero on, as soon as somebody records.
    pub(crate) fn know(&self, template: &str) {
        self.cache.write().name(template);
        self.of(template, self.clock.now());
    }

    fn store(&self, recorder: RecorderId, now: Moment) -> Arc<StoreSeries> {
        {
            let cache = self.cache.read();
            if cache.is_of(recorder, now) {
                return Arc::clone(&cache.store);
            }
        }
        let mut cache = self.cache.write();
        if !cache.is_of(recorder, now) {
            cache.renew(recorder, now, self.backend);
        }
        Arc::clone(&cache.store)
    }

    /// A call of the store, with its time. One that is dropped before its answer is not counted.
    pub(crate) async fn timed<F: Future>(&self, op: Op, call: F) -> F::Output {
        let Some(recorder) = RecorderId::current() else { return call.await };
        let sent = self.clock.now();
        let answer = call.await;
        self.took(recorder, op, sent);
        answer
    }

    /// A call that is over when it returns, if it is one: `None` is none.
    pub(crate) fn timed_now<T>(&self, op: Op, call: impl FnOnce() -> Option<T>) -> Option<T> {
        let Some(recorder) = RecorderId::current() else { return call() };
        let sent = self.clock.now();
        let answer = call();
        if answer.is_some() {
            self.took(recorder, op, sent);
        }
        answer
    }

    /// The store has thrown keys away. Seldom, so that there is no handle to keep.
    pub(crate) fn evicted(&self, keys: u64) {
        if RecorderId::current().is_some() {
            evicted(self.backend, keys);
        }
    }

    fn took(&self, recorder: RecorderId, op: Op, sent: Moment) {
        let now = self.clock.now();
        self.store(recorder, now).took(op, self.backend, now.since(sent));
    }
}
