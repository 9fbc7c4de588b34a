//! A subscriber that keeps all spans and events in memory.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// The contents of one span or event.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    pub(crate) fields: BTreeMap<&'static str, String>,
}

impl Told {
    fn new(metadata: &'static Metadata<'static>) -> Self {
        Self { name: metadata.name(), level: *metadata.level(), fields: BTreeMap::new() }
    }

    /// Returns the value of a field, or an empty text if the field was not recorded.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    pub(crate) fn message(&self) -> &str {
        self.field("message")
    }
}

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

#[derive(Debug, Default)]
struct Kept {
    spans: Vec<Told>,
    events: Vec<Told>,
}

/// The recorded spans and events. All clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Kept>>);

impl Log {
    /// Records the spans and events of the calling thread.
    pub(crate) fn here() -> (Self, DefaultGuard) {
        // If there is only one subscriber and a test without a subscriber reaches a call site first, tracing disables
        // that call site for all tests.
        static OTHERS: LazyLock<[Dispatch; 2]> =
            LazyLock::new(|| [(); 2].map(|()| Dispatch::new(Log::default())));
        LazyLock::force(&OTHERS);
        let log = Self::default();
        (log.clone(), tracing::subscriber::set_default(log))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().expect("no test panics inside")
    }

    pub(crate) fn spans(&self, name: &str) -> Vec<Told> {
        self.kept().spans.iter().filter(|span| span.name == name).cloned().collect()
    }

    pub(crate) fn events(&self, level: Level) -> Vec<Told> {
        self.kept().events.iter().filter(|event| event.level == level).cloned().collect()
    }

    pub(crate) fn text(&self) -> String {
        format!("{:?}", self.kept())
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("lock_core")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut told = Told::new(span.metadata());
        span.record(&mut told);
        let mut kept = self.kept();
        kept.spans.push(told);
        Id::from_u64(kept.spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let at = usize::try_from(span.into_u64()).expect("a small number") - 1;
        values.record(&mut self.kept().spans[at]);
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut told = Told::new(event.metadata());
        event.record(&mut told);
        self.kept().events.push(told);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}
