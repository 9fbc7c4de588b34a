//! The templates in spans. A span always contains all templates of its function.

use std::fmt;
use std::sync::{Arc, Mutex};

use lock_core::{LockError, LockManager, distributed_lock};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Collects the field `lock.template` of every span.
#[derive(Clone, Default)]
struct Templates(Arc<Mutex<Vec<String>>>);

impl Templates {
    /// Returns the templates since the last call, without repetitions.
    fn take(&self) -> Vec<String> {
        let mut all = std::mem::take(&mut *self.0.lock().unwrap());
        all.dedup();
        all
    }
}

impl Visit for Templates {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "lock.template" {
            self.0.lock().unwrap().push(value.to_owned());
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

impl Subscriber for Templates {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[distributed_lock(key = "order:<id>:a<<b", manager = locks)]
async fn one(locks: &LockManager, id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["account:<to>", "account:<from>"], manager = locks)]
async fn several(locks: &LockManager, from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn the_template_of_every_lock_is_told_as_it_was_written() {
    let (locks, templates) = (LockManager::in_memory(), Templates::default());
    // If there is only one subscriber and a test without a subscriber reaches a call site first, tracing disables that
    // call site for all tests.
    let _second = tracing::Dispatch::new(Templates::default());
    let _told = tracing::subscriber::set_default(templates.clone());
    one(&locks, 7).await.unwrap();
    assert_eq!(templates.take(), ["order:<id>:a<<b"]);
    several(&locks, 1, 2).await.unwrap();
    assert_eq!(templates.take(), ["account:<to>, account:<from>"]);
}
