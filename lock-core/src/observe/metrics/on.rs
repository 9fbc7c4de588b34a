//! Defines the meters of one manager.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::handles::{Meter, Series, StoreSeries, describe, evicted, node_answered, stalled};
use super::recorder_id::RecorderId;
use crate::backend::NodeAnswer;
use crate::clock::{Clock, Moment};
use crate::observe::labels::Op;
use crate::sync::RwLock;

/// The maximum number of templates that have their own label. Without a limit, a label that contains an id could fill
/// the memory of the metrics system.
const MAX_TEMPLATES: usize = 512;

/// The label that all further templates share.
const OTHERS: &str = "other";

/// The interval after which handles are registered again. An exporter may drop an idle series, and then the counts of
/// an old handle are lost.
const REFRESH: Duration = Duration::from_secs(60);

/// The meters of one manager. Each request looks up its meter by template once, and then uses it for all counts.
#[derive(Debug)]
pub(crate) struct Meters {
    backend: &'static str,
    clock: Clock,
    cache: RwLock<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    /// The recorder that registered these handles, and the time of the registration.
    of: Option<(RecorderId, Moment)>,
    /// The series, keyed by template. `None` means that the template is known, but has not been registered with this
    /// recorder since the last refresh.
    templates: HashMap<Arc<str>, Option<Arc<Series>>>,
    store: Arc<StoreSeries>,
}

impl Cache {
    /// Returns whether the handles are valid for `recorder`.
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

    /// Stores `recorder` and the handles that it has `registered`, if no other thread has done so. Returns the handles
    /// that are no longer used. The caller must drop them outside the lock of the cache, because their drop runs code
    /// of the application.
    fn renew(&mut self, recorder: RecorderId, now: Moment, mut registered: Registered) -> Registered {
        if self.is_of(recorder, now) {
            return registered;
        }
        self.of = Some((recorder, now));
        std::mem::swap(&mut self.store, &mut registered.store);
        for (template, series) in &mut self.templates {
            let new = registered.templates.remove(template);
            registered.replaced.extend(std::mem::replace(series, new));
        }
        registered
    }

    /// Returns the label for `template`, which is `OTHERS` if the cache is full.
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

/// The handles that a recorder has registered. The registration happens outside the lock of the cache, because a
/// recorder is code of the application.
#[derive(Debug, Default)]
struct Registered {
    templates: HashMap<Arc<str>, Arc<Series>>,
    store: Arc<StoreSeries>,
    /// The old handles, which the handles in `templates` have replaced.
    replaced: Vec<Arc<Series>>,
}

impl Meters {
    pub(crate) fn new(backend: &'static str, clock: Clock) -> Self {
        Self { backend, clock, cache: RwLock::default() }
    }

    /// Returns the meter of `template`. If no recorder is installed, returns an empty meter.
    pub(crate) fn meter(&self, template: &str, now: Moment) -> Meter {
        let Some(recorder) = RecorderId::current() else { return Meter::default() };
        {
            let cache = self.cache.read();
            if let Some(series) = cache.get(template).filter(|_| cache.is_of(recorder, now)) {
                return Meter::new(Arc::clone(series));
            }
        }
        self.refresh(recorder, now);
        let (name, known) = self.cache.with(|cache| {
            let name = cache.name(template);
            let known = cache.templates.get(&name).cloned().flatten();
            (name, known)
        });
        if let Some(series) = known {
            return Meter::new(series);
        }
        let series = Series::register(&name, self.backend);
        // If two callers register the same template, the recorder returns the same series to both.
        let unused = self.cache.with(|cache| match cache.templates.get_mut(&name) {
            Some(kept) if cache.of.is_some_and(|(whose, _)| whose == recorder) => {
                kept.replace(Arc::clone(&series))
            }
            _ => None,
        });
        drop(unused);
        Meter::new(series)
    }

    /// Discards the handles if they are not valid for `recorder`. If the recorder is new, registers all known templates
    /// with it, so that their series start at zero.
    fn refresh(&self, recorder: RecorderId, now: Moment) {
        let stale = self.cache.with(|cache| {
            let is_new = cache.of.is_none_or(|(whose, _)| whose != recorder);
            let names = || cache.templates.keys().map(Arc::clone).collect::<Vec<_>>();
            (!cache.is_of(recorder, now)).then(|| is_new.then(names))
        });
        let Some(new) = stale else { return };
        let mut registered = Registered::default();
        if let Some(names) = new {
            describe();
            let register = |name: Arc<str>| (Arc::clone(&name), Series::register(&name, self.backend));
            registered.templates = names.into_iter().map(register).collect();
        }
        drop(self.cache.with(|cache| cache.renew(recorder, now, registered)));
    }

    /// Registers `template` with the value zero. If no recorder is installed yet, the template is registered at the
    /// first use of the recorder that is installed later.
    pub(crate) fn register(&self, template: &str) {
        self.cache.with(|cache| cache.name(template));
        self.meter(template, self.clock.now());
    }

    fn store(&self, recorder: RecorderId, now: Moment) -> Arc<StoreSeries> {
        {
            let cache = self.cache.read();
            if cache.is_of(recorder, now) {
                return Arc::clone(&cache.store);
            }
        }
        self.refresh(recorder, now);
        Arc::clone(&self.cache.read().store)
    }

    /// Runs a call to the store, and records how long it takes. A call that is dropped before its answer is not
    /// recorded.
    pub(crate) async fn timed<F: Future>(&self, op: Op, call: F) -> F::Output {
        let Some(recorder) = RecorderId::current() else { return call.await };
        let sent = self.clock.now();
        let answer = call.await;
        self.record_time(recorder, op, sent);
        answer
    }

    /// Counts evicted keys. Evictions are rare, so the handle is not cached.
    pub(crate) fn evicted(&self, keys: u64) {
        if RecorderId::current().is_some() {
            evicted(self.backend, keys);
        }
    }

    pub(crate) fn node_answered(&self, answer: &NodeAnswer<'_>) {
        if let Some(recorder) = RecorderId::current() {
            // A server may answer before the first lock is acquired, so this call first registers the descriptions.
            self.store(recorder, self.clock.now());
            node_answered(self.backend, answer);
        }
    }

    pub(crate) fn stalled(&self, late: Duration) {
        if RecorderId::current().is_some() {
            stalled(self.backend, late);
        }
    }

    fn record_time(&self, recorder: RecorderId, op: Op, sent: Moment) {
        let now = self.clock.now();
        self.store(recorder, now).took(op, self.backend, now.since(sent));
    }
}
