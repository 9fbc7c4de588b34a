//! Tests of the recorded events.

use std::time::Duration;

use lock_core::testing::{Happened, TestEvent, TestLocks};
use lock_core::{LockError, LockErrorKind, LossReason, distributed_lock, strategy};

const SECOND: Duration = Duration::from_secs(1);

/// Returns the events as a test compares them: the key, the kind of event, and whether the lock belonged to the
/// other process.
fn told(events: &[TestEvent]) -> Vec<(&str, Happened, bool)> {
    events.iter().map(|event| (&*event.key, event.what, event.elsewhere)).collect()
}

#[distributed_lock(key = "job", strategy = "skip")]
async fn job() -> Result<Option<()>, LockError> {
    Ok(Some(()))
}

#[tokio::test(start_paused = true)]
async fn everything_is_recorded_in_order() {
    use Happened::{Cancelled, Granted, Lost, Refused, Released, Skipped};
    let locks = TestLocks::builder().namespace("shop").build();
    locks.scope(job()).await.unwrap().unwrap();
    let elsewhere = locks.contend("job").await;
    assert!(locks.scope(job()).await.unwrap().is_none());
    locks.lock("job").wait(SECOND).acquire().await.unwrap_err();
    tokio::time::timeout(SECOND, locks.lock("job").strategy(strategy::wait()).acquire()).await.unwrap_err();
    elsewhere.release().await;
    let guard = locks.lock("job").acquire().await.unwrap();
    drop(locks.steal("job").await);
    drop(guard);
    locks.store_down();
    locks.lock("job").try_acquire().await.unwrap_err();

    let events = locks.history();
    let expected = [
        ("shop:job", Granted, false),
        ("shop:job", Released, false),
        ("shop:job", Granted, true),
        ("shop:job", Skipped, false),
        ("shop:job", Refused(LockErrorKind::TimedOut), false),
        ("shop:job", Cancelled, false),
        ("shop:job", Released, true),
        ("shop:job", Granted, false),
        ("shop:job", Lost(LossReason::Taken), false),
        ("shop:job", Granted, true),
        ("shop:job", Released, true),
        ("shop:job", Refused(LockErrorKind::Unavailable), false),
    ];
    assert_eq!(told(&events), expected);
    let tokens: Vec<_> = events.iter().filter(|event| event.what == Granted).collect();
    assert!(tokens.iter().all(|event| event.fencing_token.is_some()));
    assert!(tokens.is_sorted_by(|a, b| a.fencing_token < b.fencing_token), "they grow: {tokens:?}");
    assert_eq!(events[8].fencing_token, events[7].fencing_token, "the one that was lost");
    assert_eq!(locks.times_granted("job"), 2, "those elsewhere do not count");
}

#[tokio::test(start_paused = true)]
async fn a_turn_inside_the_process_is_a_grant_and_a_nested_call_is_none() {
    let locks = TestLocks::new();
    let first = locks.lock("k").acquire().await.unwrap();
    let manager = locks.manager().clone();
    let nested = async move { manager.lock("k").run(async {}).await };
    let second = tokio::spawn(locks.lock("k").run(nested));
    locks.until_waiting("k", 1).await;
    first.release().await.unwrap();
    second.await.unwrap().unwrap().unwrap();
    use Happened::{Granted, Released};
    let expected = [Granted, Released, Granted, Released].map(|what| ("k", what, false));
    assert_eq!(told(&locks.history()), expected);
    assert_eq!(locks.times_granted("k"), 2);
}

#[tokio::test]
async fn several_keys_are_recorded_one_by_one() {
    let locks = TestLocks::new();
    locks.all(["b", "a"]).run(async {}).await.unwrap();
    use Happened::{Granted, Released};
    let expected =
        [("a", Granted, false), ("b", Granted, false), ("a", Released, false), ("b", Released, false)];
    assert_eq!(told(&locks.history()), expected);
    assert_eq!((locks.times_granted("b"), locks.times_granted("c")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn no_number_of_events_is_too_many() {
    let locks = TestLocks::new();
    for _ in 0..3_000 {
        locks.lock("k").run(async {}).await.unwrap();
    }
    assert_eq!(locks.times_granted("k"), 3_000);
    assert_eq!(locks.history().len(), 6_000);
}
