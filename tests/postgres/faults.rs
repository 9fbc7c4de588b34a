//! A server that crashes, stops or loses connections, and lost answers.

use std::time::Duration;

use lock_core::{LockErrorKind, Released, strategy};
use lock_tests::{Bound, Flow, PATIENCE, PostgresServer, Proxy, wait_until};

use crate::support::{LONG, connect, cycle, empty, manager, ms, try_once, within, works_again};

/// The longest time until a call with a limit of one second is answered.
const SOON: Duration = PATIENCE;

#[tokio::test]
async fn a_lock_outlives_a_crash_of_the_server() {
    let mut server = PostgresServer::start();
    let (one, other) = (manager(&server).await, manager(&server).await);
    let guard = one.lock("k").ttl(Duration::from_secs(15)).acquire().await.expect("it is free");
    let token = guard.fencing_token().await.expect("a token");
    server.restart();
    works_again(&other, "other").await;
    let refused = try_once(&other, "k").await.expect_err("it is held");
    assert_eq!(refused.kind(), LockErrorKind::Contended, "{refused}");
    assert!(guard.is_held());
    works_again(&one, "another").await;
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
    let guard = try_once(&other, "k").await.expect("it is free");
    assert!(guard.fencing_token().await.expect("a token") > token);
}

/// A crash loses the data that the server has not written to its disk. An answered grant is never lost.
#[tokio::test]
async fn a_grant_that_was_told_is_on_disk() {
    // The server delays the writes that may wait by ten seconds. It writes all others at once.
    let mut server = PostgresServer::with(&["wal_writer_delay=10s"]);
    let rows = "SELECT count(*) FROM lock_core.holders WHERE owner <> ''";
    for round in 0..3 {
        let (one, other) = (manager(&server).await, manager(&server).await);
        let key = format!("k{round}");
        // From the third cycle on, the lock is acquired in the row of the earlier grant.
        for _ in 0..2 * round {
            cycle(&one, &key).await;
        }
        let guard = one.fair(&key).ttl(LONG).acquire().await.expect("it is free");
        server.crash();
        server.restart();
        assert_eq!(server.sql(rows), "1", "the grant");
        works_again(&other, "other").await;
        let waiting = tokio::spawn(async move { other.fair(key).ttl(LONG).wait(LONG).acquire().await });
        wait_until("it waits", PATIENCE, async || {
            server.sql("SELECT count(*) FROM lock_core.waiters") == "1"
        })
        .await;
        works_again(&one, "other").await;
        guard.release().await.expect("an answer");
        let next = within(SOON, "the hand-off", waiting).await.expect("no panic").expect("handed over");
        server.crash();
        server.restart();
        assert_eq!(server.sql(rows), "1", "the grant by hand-off");
        drop(next);
        server.sql("DELETE FROM lock_core.holders; DELETE FROM lock_core.waiters");
    }
}

#[tokio::test]
async fn a_server_that_stands_still_makes_nobody_hang() {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    cycle(&locks, "k").await;
    server.stop();
    for _ in 0..3 {
        let error = within(SOON, "a try", try_once(&locks, "k")).await.expect_err("no answer");
        assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
    }
    // A new connection fails as well.
    let error = within(SOON, "a dial", lock_core::LockManager::connect(&server.url())).await;
    assert_eq!(error.expect_err("no answer").kind(), LockErrorKind::Unavailable);
    server.cont();
    works_again(&locks, "k").await;
    empty(&server, PATIENCE).await;
}

#[tokio::test]
async fn connections_that_the_server_ends_are_made_again() {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    let guard = try_once(&locks, "held").await.expect("it is free");
    for _ in 0..5 {
        server.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lock-core'",
        );
        works_again(&locks, "k").await;
    }
    assert!(guard.is_held());
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
}

#[tokio::test]
async fn an_acquire_whose_answer_is_lost_leaves_nothing_behind() {
    let server = PostgresServer::start();
    let way = Proxy::to(server.address());
    let locks = connect(&server.url_at(way.port())).await;
    cycle(&locks, "k").await;
    way.replies(Flow::Swallow);
    let error = within(SOON, "a try", try_once(&locks, "k")).await.expect_err("no answer");
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
    way.heal();
    empty(&server, PATIENCE).await;
    works_again(&locks, "k").await;
}

#[tokio::test]
async fn a_release_whose_answer_is_lost_frees_the_key() {
    let server = PostgresServer::start();
    let way = Proxy::to(server.address());
    let (locks, other) = (connect(&server.url_at(way.port())).await, manager(&server).await);
    let guard = try_once(&locks, "k").await.expect("it is free");
    way.replies(Flow::Swallow);
    let error = within(SOON, "the release", guard.release()).await.expect_err("no answer");
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
    let next = other.lock("k").ttl(LONG).strategy(strategy::retry().within(SOON)).acquire().await;
    assert!(next.expect("the server has released it").is_held());
    way.heal();
}

/// A request is delayed in the network while its caller gives up. It arrives later, and the release after it undoes it.
#[tokio::test]
async fn a_request_that_arrives_late_leaves_nothing_behind() {
    let server = PostgresServer::start();
    let way = Proxy::to(server.address());
    let locks = connect(&server.url_at(way.port())).await;
    cycle(&locks, "k").await;
    way.requests(Flow::Hold);
    try_once(&locks, "k").await.expect_err("no answer");
    tokio::time::sleep(ms(300)).await;
    way.heal();
    works_again(&locks, "k").await;
    empty(&server, PATIENCE).await;
}

#[tokio::test]
async fn a_lost_lock_is_told_before_another_holds_it() {
    let server = PostgresServer::start();
    let way = Proxy::to(server.address());
    let (locks, other) = (connect(&server.url_at(way.port())).await, manager(&server).await);
    let ttl = ms(1_000);
    let guard = locks.lock("k").ttl(ttl).acquire().await.expect("it is free");
    way.requests(Flow::Swallow);
    let next = async {
        let next = other.lock("k").ttl(ttl).strategy(strategy::retry().within(SOON)).acquire().await;
        let next = next.expect("the lease ends");
        assert!(!guard.is_held(), "two holders");
        next
    };
    let (_, next) = tokio::join!(guard.lost(), next);
    assert!(next.is_held());
}

#[tokio::test]
async fn a_waiter_is_served_without_any_notification() {
    let server = PostgresServer::start();
    let off = format!("{}&listen=off", server.url());
    let (one, other) = (connect(&off).await, connect(&off).await);
    let guard = one.fair("k").ttl(LONG).acquire().await.expect("it is free");
    let waiting = tokio::spawn(async move { other.fair("k").ttl(LONG).wait(LONG).acquire().await });
    wait_until("it waits", PATIENCE, async || server.sql("SELECT count(*) FROM lock_core.waiters") == "1")
        .await;
    guard.release().await.expect("an answer");
    let next = within(SOON, "the hand-off", waiting).await.expect("no panic");
    next.expect("handed over").release().await.expect("an answer");
}

#[tokio::test]
async fn a_waiter_is_told_at_once() {
    let server = PostgresServer::start();
    let (one, other) = (manager(&server).await, manager(&server).await);
    let (mut quick, mut all) = (0, 0);
    // A busy machine may be late many times. Without the notification, all rounds are late.
    while quick < 4 {
        all += 1;
        let guard = one.fair("k").ttl(LONG).acquire().await.expect("it is free");
        let locks = other.clone();
        let waiting = tokio::spawn(async move { locks.fair("k").ttl(LONG).wait(LONG).acquire().await });
        wait_until("it waits", PATIENCE, async || {
            server.sql("SELECT count(*) FROM lock_core.waiters") == "1"
        })
        .await;
        let released = Bound::new(SOON);
        guard.release().await.expect("an answer");
        let next = within(SOON, "the hand-off", waiting).await.expect("no panic").expect("handed over");
        // The first heartbeat is due two thirds of a second after the claim is queued. The release happens just after
        // that.
        quick += u32::from(released.elapsed() < ms(300));
        next.release().await.expect("an answer");
        assert!(all < 50, "{quick} of {all} hand-offs were quick");
    }
}
