//! The regular shutdown of a manager.

use lock_core::{LockErrorKind, LossReason, ShutdownReport, strategy};
use lock_tests::{Bound, Flow, PATIENCE, Proxy, RedisServer, wait_until};

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
    let report = within(PATIENCE, "ending", ending).await.expect("no panic");
    assert_eq!(report, ShutdownReport::default());
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn what_is_held_after_the_grace_is_told_and_freed() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let guard = try_once(&locks, "k").await.expect("the key is free");
    let report = within(PATIENCE, "ending", locks.shutdown(ms(50))).await;
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
    let report = within(PATIENCE, "ending", locks.shutdown(ms(300))).await;
    assert!(time.elapsed() >= ms(300), "the grace was not used: {:?}", time.elapsed());
    assert_eq!((report.revoked.len(), report.unanswered), (0, 1));
    server.cont();
}

/// The answer to a request is in flight when the shutdown begins.
#[tokio::test]
async fn a_shutdown_beside_an_acquire_leaves_no_key() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let url = format!("{}?timeout=10s", proxy.url());
    let locks = lock_core::LockManager::connect(&url).await.expect("connects");
    proxy.replies(Flow::Hold);
    let acquiring = tokio::spawn(locks.lock("k").ttl(LONG).acquire());
    wait_until("the request has arrived", PATIENCE, async || calls(&server, "set") > 0).await;
    let answers = async {
        tokio::time::sleep(ms(60)).await;
        proxy.heal();
    };
    let (report, ()) = tokio::join!(within(PATIENCE, "ending", locks.shutdown(PATIENCE)), answers);
    assert_eq!(report, ShutdownReport::default());
    let error = acquiring.await.expect("no panic").expect_err("the manager is closed");
    assert_eq!(error.kind(), LockErrorKind::ShuttingDown);
    assert!(server.keys().is_empty(), "{:?}", server.keys());
}

/// Acquires that were dropped without a connection have sent nothing, so nothing must be released.
#[tokio::test]
async fn an_outage_leaves_no_releases_behind() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let locks = lock_core::LockManager::connect(&proxy.url()).await.expect("connects");
    proxy.refuse(true);
    proxy.cut();
    wait_until("the connection is gone", PATIENCE, async || try_once(&locks, "probe").await.is_err()).await;
    let cancelled = (0..200).map(|i| {
        let request = locks.lock(format!("k{i}")).ttl(LONG);
        tokio::spawn(tokio::time::timeout(ms(50), request.acquire()))
    });
    for task in cancelled.collect::<Vec<_>>() {
        assert!(task.await.expect("no panic").is_err(), "there is no connection");
    }
    server.command(&["CONFIG", "RESETSTAT"]);
    proxy.heal();
    wait_until("the server is back", PATIENCE, async || {
        try_once(&locks, "after").await.is_ok_and(|guard| guard.is_held())
    })
    .await;
    let report = within(PATIENCE, "ending", locks.shutdown(PATIENCE)).await;
    assert_eq!(report, ShutdownReport::default());
    assert!(calls(&server, "evalsha") < 20, "{}", calls(&server, "evalsha"));
}
