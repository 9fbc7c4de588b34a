//! Tests application code that runs inside the library: a log that calls the library or panics, and a waker that
//! panics.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use lock_core::{LeaderElection, LockErrorKind, LockEvent, LockManager, LossReason};
use tokio::time::timeout;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::millis;
use crate::scripted::{Scripted, no_answer};

/// A log that calls `ends` at the end of each span, and `says` with each event.
struct Log<E, S> {
    ends: E,
    says: S,
}

impl<E: Fn() + Send + Sync + 'static, S: Fn(&Event<'_>) + Send + Sync + 'static> Subscriber for Log<E, S> {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        (self.says)(event);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
    fn try_close(&self, _: Id) -> bool {
        (self.ends)();
        true
    }
}

/// Returns a second log. If there is only one log and another test reaches a span or an event first, tracing disables
/// that span or event for all tests.
fn second_log() -> tracing::Dispatch {
    tracing::Dispatch::new(Log { ends: || {}, says: |_: &Event<'_>| {} })
}

/// When a term ends, the last reference to the previous term is dropped. That also ends the span of the previous term.
#[test]
fn a_log_may_ask_who_leads_when_a_term_ends() {
    let _second = second_log();
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let leads = std::thread::spawn(move || {
        let election = Arc::new(OnceLock::<LeaderElection>::new());
        let asks = Arc::clone(&election);
        let ends = move || {
            if let Some(election) = asks.get() {
                let _ = election.is_leader();
                count.fetch_add(1, Ordering::Relaxed);
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        tracing::subscriber::with_default(Log { ends, says: |_: &Event<'_>| {} }, || {
            runtime.block_on(async {
                let election = election.get_or_init(|| LockManager::in_memory().leader("k"));
                for _ in 0..3 {
                    election.campaign().await.expect("nobody leads").resign().await.expect("it led");
                }
            });
        });
    });
    // The election runs in another thread. The log calls `is_leader` when a span ends. If the election held its mutex at
    // that time, that thread would deadlock.
    let waits = std::iter::repeat_with(|| std::thread::sleep(millis(10)));
    assert!(waits.take(6_000).any(|()| leads.is_finished()), "a deadlock");
    leads.join().expect("no panic");
    assert!(asked.load(Ordering::Relaxed) > 0, "the log was asked");
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a broken executor");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_keeps_no_loss_from_the_others() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").acquire().await.expect("it is free");
    let mut lost = pin!(guard.lost());
    let waker = Waker::from(Arc::new(Panics));
    assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let mut events = locks.events();
    let next = tokio::spawn(locks.lock("k").acquire());
    tokio::time::sleep(millis(1)).await;
    let id = locks.inspect("k").await.expect("an answer").expect("it is held").holders[0].id.clone();
    assert!(locks.force_release("k", &id, "a test").await.expect("an answer"));
    drop(timeout(millis(100), next).await.expect("it is told").expect("no panic").expect("it is free"));
    let counted = async {
        while let Some(event) = events.next().await {
            if let LockEvent::Lost { reason, .. } = event {
                return Some(reason);
            }
        }
        None
    };
    let counted = timeout(millis(100), counted).await.expect("the loss is counted");
    assert_eq!(counted, Some(LossReason::Forced));
}

#[tokio::test(start_paused = true)]
async fn a_log_that_panics_ends_no_release() {
    let _second = second_log();
    let says = |event: &Event<'_>| {
        let metadata = event.metadata();
        let is_retry = *metadata.level() == Level::DEBUG && metadata.target().ends_with("cleanup");
        assert!(!is_retry, "a full disk");
    };
    let _here = tracing::subscriber::set_default(Log { ends: || {}, says });
    let (locks, store) = Scripted::manager(|_| {});
    let guard = locks.lock("k").ttl(millis(60_000)).acquire().await.expect("it is free");
    store.script().release.extend([Err(no_answer()), Err(no_answer())]);
    let mut waiting = pin!(locks.lock("k").ttl(millis(60_000)).acquire());
    drop(guard);
    let next =
        timeout(Duration::from_secs(5), waiting.as_mut()).await.expect("long before the lease is over");
    assert!(next.is_ok() && store.releases().len() >= 3);
}

/// On a store in this process, a term whose `max_hold` is over at once begins and ends without any wait.
#[tokio::test(start_paused = true)]
async fn a_leader_whose_terms_are_over_at_once_pauses() {
    let election = LockManager::in_memory().leader("k");
    let refused = election.clone().max_hold(Duration::from_nanos(1)).campaign().await.expect_err("too short");
    assert_eq!(refused.kind(), LockErrorKind::InvalidRequest);
    assert!(refused.to_string().contains("max_hold is 1ns: choose 1ms or longer"), "{refused}");

    let (election, terms) = (election.max_hold(millis(1)), AtomicU32::new(0));
    let leads = election.run(async |_| {
        terms.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<()>().await;
    });
    assert!(timeout(Duration::from_secs(10), leads).await.is_err(), "it leads again and again");
    let terms = terms.load(Ordering::Relaxed);
    assert!((5..=40).contains(&terms), "{terms} terms in 10 s");
}
