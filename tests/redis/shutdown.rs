//! Ending a manager in good order.

use std::time::Duration;

use lock_core::{LockErrorKind, LossReason, ShutdownReport, strategy};
use lock_tests::{Bound, PATIENCE, RedisServer, wait_until};

use crate::support::{LONG, calls, manager, ms, try_once, within};

#[tokio::test]
async fn a_shutdown_waits_for_what_is_held_and_refuses_what_is_new() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let guard = try_once(&locks, "k").await.expect("the key is free");
    let waiting = tokio::spawn(locks.lock("k").strategy(strategy::wait()).acquire());
    wait_until("one waits", PATIENCE, async || calls(&server, "set") > 1).await;
    let ending = tokio::spawn({
        let locks = locks.clone();
        async move { locks.shutdown(PATIENCE).await }
    });
    let error = within(PATIENCE, "waking a waiter", waiting).await.expect("no panic").expect_err("no lock");
    assert_eq!(error.kind(), LockErrorKind::ShuttingDown);
    let error = try_once(&locks, "other").await.expect_err("no lock");
    assert_eq!(error.kind(), LockErrorKind::ShuttingDown);
    tokio::time::sleep(ms(100)).await;
    assert!(!ending.is_finished(), "a lock is held");
    guard.check().expect("the work may come to its end");
    guard.release().await.expect("an answer");
    let report = within(Duration::from_secs(5), "ending", ending).await.expect("no panic");
    assert_eq!(report, ShutdownReport::default());
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn what_is_held_after_the_grace_is_told_and_freed() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let guard = try_once(&locks, "k").await.expect("the key is free");
    let report = within(Duration::from_secs(5), "ending", locks.shutdown(ms(50))).await;
    assert_eq!((report.revoked.as_slice(), report.unanswered), (&["k".to_owned()][..], 0));
    assert!(server.keys().is_empty(), "{:?}", server.keys());
    assert_eq!(guard.check().expect_err("it is lost").loss_reason(), Some(LossReason::ShutDown));
    assert_eq!(guard.release().await.expect_err("it is lost").kind(), LockErrorKind::Lost);
}

#[tokio::test]
async fn a_shutdown_without_a_server_ends_and_says_what_it_left() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let dropped = locks.lock("k").ttl(LONG).acquire().await.expect("the key is free");
    server.stop();
    drop(dropped);
    let time = Bound::new(PATIENCE);
    let report = within(Duration::from_secs(5), "ending", locks.shutdown(ms(300))).await;
    assert!(time.elapsed() >= ms(300), "the grace was not used: {:?}", time.elapsed());
    assert_eq!((report.revoked.len(), report.unanswered), (0, 1));
    server.cont();
}
