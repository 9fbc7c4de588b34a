//! Tests of the events in the log.

use lock_core::backend::memory::Memory;
use lock_core::testkit::{Fault, Operation};
use lock_core::{LockManager, strategy};
use tracing::Level;

use crate::disowning::Disowning;
use crate::subscriber::{Log, Told};
use crate::{KEY, TEMPLATE, flaky, order, patient, secs};

fn messages(told: &[Told]) -> Vec<&str> {
    told.iter().map(Told::message).collect()
}

#[tokio::test(start_paused = true)]
async fn a_grant_and_a_release_are_details_and_a_long_wait_is_news() {
    let (log, _here) = Log::here();
    let locks = LockManager::in_memory();
    let guard = order(&locks).acquire().await.unwrap();
    let task = tokio::spawn(patient(&locks, secs(9)).acquire());
    tokio::time::sleep(secs(2)).await;
    drop(guard);
    drop(task.await.unwrap().unwrap());
    assert_eq!(
        messages(&log.events(Level::DEBUG)),
        ["lock granted", "lock released", "lock released"],
        "and the long wait at INFO"
    );
    let news = log.events(Level::INFO);
    assert_eq!(messages(&news), ["lock granted after a long wait"]);
    assert_eq!((news[0].field("lock.waited_ms"), news[0].field("lock.key")), ("2000", KEY));
    assert!(log.events(Level::WARN).is_empty() && log.events(Level::ERROR).is_empty());
}

#[tokio::test(start_paused = true)]
async fn how_long_is_long_can_be_said() {
    let (log, _here) = Log::here();
    let (locks, _) = flaky(|builder| builder.log_waited_after(secs(5)));
    let guard = order(&locks).acquire().await.unwrap();
    let task = tokio::spawn(patient(&locks, secs(9)).acquire());
    tokio::time::sleep(secs(2)).await;
    drop(guard);
    drop(task.await.unwrap().unwrap());
    assert!(log.events(Level::INFO).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_vain_names_the_holder() {
    let (log, _here) = Log::here();
    let locks = LockManager::builder(Memory::new()).service("shop").build().unwrap();
    let _guard = order(&locks).label("pay").acquire().await.unwrap();
    assert!(patient(&locks, secs(1)).acquire().await.is_err());
    assert!(order(&locks).strategy(strategy::shed(strategy::retry(), 0)).acquire().await.is_err());
    let warnings = log.events(Level::WARN);
    assert_eq!(messages(&warnings), ["gave up waiting for the lock", "too many requests wait for the lock"]);
    assert_eq!((warnings[0].field("lock.template"), warnings[0].field("lock.key")), (TEMPLATE, KEY));
    let holder = warnings[0].field("holder");
    assert!(holder.contains("shop") && holder.contains("pay"), "{holder}");
}

#[tokio::test(start_paused = true)]
async fn renewals_losses_and_releases() {
    let (log, _here) = Log::here();
    let (locks, control) = flaky(|builder| builder.warn_held_after(crate::millis(1_500)));
    let guard = order(&locks).ttl(secs(3)).acquire().await.unwrap();
    control.fail_always(Operation::Renew, Fault::LoseRequest);
    guard.lost().await;
    let warnings = log.events(Level::WARN);
    assert_eq!(
        messages(&warnings),
        [
            "renewal not answered, trying again within the lease",
            "the lock is held for long: is its holder stuck?"
        ]
    );
    let errors = log.events(Level::ERROR);
    assert_eq!(messages(&errors), ["lock lost"]);
    assert_eq!((errors[0].field("lock.template"), errors[0].field("lock.key")), (TEMPLATE, KEY));
    assert!(errors[0].field("reason").contains("lease ran out"), "{errors:?}");
    drop(guard);
    control.heal();

    let guard = order(&locks).ttl(secs(3)).acquire().await.unwrap();
    control.fail_always(Operation::Release, Fault::LoseRequest);
    assert!(guard.release().await.is_err());
    tokio::time::sleep(secs(10)).await;
    assert_eq!(
        messages(&log.events(Level::WARN))[2..],
        ["release not answered; it goes on in the background"]
    );
    assert_eq!(messages(&log.events(Level::ERROR))[1..], ["release not answered; the lease is over"]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_anothers_when_it_was_released() {
    let (log, _here) = Log::here();
    let locks = LockManager::builder(Disowning(Memory::new())).build().unwrap();
    order(&locks).acquire().await.unwrap().release().await.unwrap();
    assert_eq!(messages(&log.events(Level::WARN)), ["the lock was not ours any more when it was released"]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_through_an_outage_says_so() {
    let (log, _here) = Log::here();
    let (locks, control) = flaky(|builder| builder);
    control.fail_next(Operation::Acquire, Fault::Refuse, 5);
    drop(patient(&locks, secs(9)).acquire().await.unwrap());
    let warnings = log.events(Level::WARN);
    assert_eq!(messages(&warnings), ["the store fails, the wait for the lock goes on"]);
    assert!(warnings[0].field("error").contains("unavailable"));
}

#[tokio::test(start_paused = true)]
async fn a_key_or_a_label_from_outside_forges_no_line_of_the_log() {
    let (log, _here) = Log::here();
    let locks = LockManager::in_memory();
    let forged = "order:7\n2026-11-22T00:00:00Z ERROR lock lost";
    let _guard = locks.lock(forged).label("pay\nERROR").acquire().await.unwrap();
    let waits = locks.lock(forged).wait(secs(1)).acquire();
    assert!(waits.await.is_err());
    let warnings = log.events(Level::WARN);
    assert_eq!(messages(&warnings), ["gave up waiting for the lock"]);
    for field in ["lock.key", "holder"] {
        let shown = warnings[0].field(field);
        assert!(!shown.contains('\n') && shown.contains("\\n"), "{field}: {shown}");
    }
}
