//! Tests of the spans and their fields.

use lock_core::testkit::{Fault, Operation};
use lock_core::{LockManager, strategy};

use crate::subscriber::Log;
use crate::{KEY, TEMPLATE, flaky, millis, order, patient, secs};

#[tokio::test(start_paused = true)]
async fn a_grant_and_its_use() {
    let (log, _here) = Log::here();
    let locks = LockManager::in_memory();
    let guard = patient(&locks, secs(1)).label("pay").fencing(true).acquire().await.unwrap();
    let token = guard.fencing_token().await.unwrap().to_string();
    let span = &log.spans("lock.acquire")[0];
    for (field, value) in [
        ("lock.template", TEMPLATE),
        ("lock.key", KEY),
        ("lock.backend", "memory"),
        ("lock.kind", "reentrant"),
        ("lock.strategy", "retry"),
        ("lock.label", "pay"),
        ("lock.attempts", "1"),
        ("lock.waited_ms", "0"),
        ("lock.fencing_token", &token),
        ("otel.status_code", ""),
        ("error", ""),
    ] {
        assert_eq!(span.field(field), value, "{field}");
    }
    tokio::time::sleep(secs(2)).await;
    guard.release().await.unwrap();
    let span = &log.spans("lock.hold")[0];
    for (field, value) in [
        ("lock.template", TEMPLATE),
        ("lock.key", KEY),
        ("lock.backend", "memory"),
        ("lock.kind", "reentrant"),
        ("lock.label", "pay"),
        ("lock.fencing_token", &token),
        ("lock.held_ms", "2000"),
        ("otel.status_code", ""),
    ] {
        assert_eq!(span.field(field), value, "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_was_in_vain_is_an_error_and_a_lock_that_is_held_is_none() {
    let (log, _here) = Log::here();
    let locks = LockManager::in_memory();
    let _guard = order(&locks).acquire().await.unwrap();
    assert!(order(&locks).acquire().await.is_err());
    assert!(order(&locks).strategy(strategy::skip()).acquire().await.is_err());
    assert!(patient(&locks, secs(2)).acquire().await.is_err());
    let spans = log.spans("lock.acquire");
    for span in &spans[1..3] {
        assert_eq!((span.field("otel.status_code"), span.field("error")), ("", ""), "{span:?}");
    }
    let span = &spans[3];
    assert_eq!((span.field("otel.status_code"), span.field("lock.waited_ms")), ("ERROR", "2000"));
    assert!(span.field("error").contains("lock was not free in time"), "{span:?}");
    assert_eq!(span.field("lock.waiters"), "0");
    assert!(span.field("lock.attempts").parse::<u32>().unwrap() > 1, "{span:?}");

    let fair = |limit| locks.fair("fair").strategy(strategy::retry().within(limit)).acquire();
    let _first = fair(secs(1)).await.unwrap();
    let second = tokio::spawn(fair(secs(5)));
    tokio::time::sleep(millis(10)).await;
    assert!(fair(secs(1)).await.is_err());
    second.abort();
    let third = &log.spans("lock.acquire")[6];
    assert_eq!((third.field("lock.position"), third.field("lock.kind")), ("1", "fair"), "{third:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failing_store_and_a_loss_are_errors() {
    let (log, _here) = Log::here();
    let (locks, control) = flaky(|builder| builder);
    control.fail_next(Operation::Acquire, Fault::Refuse, 1);
    assert!(order(&locks).acquire().await.is_err());
    let span = &log.spans("lock.acquire")[0];
    assert_eq!(span.field("otel.status_code"), "ERROR");
    assert!(span.field("error").contains("unavailable"), "{span:?}");

    let guard = order(&locks).renew(false).ttl(secs(1)).acquire().await.unwrap();
    guard.lost().await;
    let span = &log.spans("lock.hold")[0];
    assert_eq!((span.field("otel.status_code"), span.field("lock.held_ms")), ("ERROR", "998"));
    assert!(span.field("error").contains("lease ran out"), "{span:?}");
}

/// The caller's span may have fields with the same names. The library must not write to them.
#[tokio::test(start_paused = true)]
async fn the_callers_span_is_left_alone_where_ours_are_off() {
    let (log, _here) = Log::here();
    let locks = LockManager::in_memory();
    let _guard = order(&locks).acquire().await.unwrap();
    let callers = tracing::info_span!(
        target: "lock_core_caller", "callers", error = tracing::field::Empty, lock.attempts = tracing::field::Empty
    );
    let refused = patient(&locks, secs(1)).acquire();
    assert!(tracing::Instrument::instrument(refused, callers).await.is_err());
    assert_eq!(log.spans("callers")[0].fields.len(), 0);
}
