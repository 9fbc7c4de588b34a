//! The order in which several attributes of a function take effect.

use std::future::Future as _;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use lock_core::{LockError, LockManager, distributed_lock};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::{hold, is_held};

/// Collects the names of the spans that were opened.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<&'static str>>>);

impl Subscriber for Spans {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.0.lock().unwrap().push(span.metadata().name());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[distributed_lock(key = "k", strategy = "wait", manager = locks)]
#[tracing::instrument(skip_all)]
async fn instrument_below(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[tracing::instrument(skip_all)]
#[distributed_lock(key = "k", strategy = "wait", manager = locks)]
async fn instrument_above(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn a_span_of_instrument_below_contains_the_wait_and_one_above_begins_after_it() {
    let locks = LockManager::in_memory();
    let spans = Spans::default();
    let opened = |name| spans.0.lock().unwrap().contains(&name);
    // If there is only one subscriber and a test without a subscriber reaches a call site first, tracing disables that
    // call site for all tests.
    let _second = tracing::Dispatch::new(Spans::default());
    let _told = tracing::subscriber::set_default(spans.clone());
    let held = hold(&locks, "k").await;
    let mut below = pin!(instrument_below(&locks));
    let mut above = pin!(instrument_above(&locks));
    let context = &mut Context::from_waker(Waker::noop());
    assert!(below.as_mut().poll(context).is_pending() && above.as_mut().poll(context).is_pending());
    assert!(opened("instrument_below"), "it waits inside of its span");
    assert!(!opened("instrument_above"), "its span is that of the body");
    held.release().await.unwrap();
    let (below, above) = tokio::join!(below, above);
    below.and(above).unwrap();
    assert!(opened("instrument_above"));
}

#[distributed_lock(key = "upper", strategy = "wait", manager = locks)]
#[distributed_lock(key = "lower", strategy = "wait", manager = locks)]
async fn locked_twice(locks: &LockManager) -> Result<[bool; 2], LockError> {
    Ok([is_held(locks, "upper").await, is_held(locks, "lower").await])
}

#[tokio::test]
async fn of_two_locks_the_lower_one_is_taken_first() {
    let locks = LockManager::in_memory();
    for (held, other, other_is_taken) in [("upper", "lower", true), ("lower", "upper", false)] {
        let guard = hold(&locks, held).await;
        let mut call = pin!(locked_twice(&locks));
        let turn = std::future::poll_fn(|context| std::task::Poll::Ready(call.as_mut().poll(context)));
        assert!(turn.await.is_pending());
        assert_eq!(is_held(&locks, other).await, other_is_taken, "{held} is held by another");
        guard.release().await.unwrap();
        assert_eq!(call.await.unwrap(), [true, true]);
    }
}
