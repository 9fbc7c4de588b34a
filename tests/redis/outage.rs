//! A server that is down while requests wait. The requests of every kind report it.

use std::time::Duration;

use lock_core::{LockError, LockErrorKind, LockManager, LockRequest, strategy};
use lock_tests::{PATIENCE, RedisServer, wait_until};
use tokio::task::JoinSet;

use crate::support::{LONG, calls, manager, ms};

type Ask = fn(&LockManager, &str) -> LockRequest;

const KINDS: [(&str, Ask); 6] = [
    ("lock", |locks, key| locks.lock(key)),
    ("fair", |locks, key| locks.fair(key)),
    ("read", |locks, key| locks.read(key)),
    ("write", |locks, key| locks.write(key)),
    ("semaphore", |locks, key| locks.semaphore(key, 1)),
    ("several", |locks, key| locks.all([key.to_owned(), format!("{key}2")])),
];

fn check(kind: &str, error: &LockError) {
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{kind}: {error}");
    assert!(error.is_temporary() && !error.is_skipped(), "{kind}: {error}");
    assert!(error.waited().is_some(), "{kind}: {error}");
}

/// Sends two requests of each kind, each kind for its own key. One of the two would continue without the lock.
fn ask(locks: &LockManager, wait: Duration, waiters: &mut JoinSet<(&'static str, LockError)>) {
    for (kind, ask) in KINDS {
        for skips in [false, true] {
            let request = ask(locks, kind).ttl(LONG).wait(wait);
            let request = if skips { request.strategy(strategy::retry_or_skip()) } else { request };
            waiters.spawn(async move { (kind, request.acquire().await.expect_err("it is gone")) });
        }
    }
}

#[tokio::test]
async fn a_server_that_is_gone_is_told_by_every_kind() {
    let mut server = RedisServer::start();
    let locks = manager(&server).await;
    server.kill9();
    let mut waiters = JoinSet::new();
    for wait in [1_000, 1_150, 1_300, 1_450, 1_600, 1_750] {
        ask(&locks, ms(wait), &mut waiters);
    }
    while let Some(told) = waiters.join_next().await {
        let (kind, error) = told.expect("no panic");
        check(kind, &error);
    }
}

#[tokio::test]
async fn a_server_that_goes_away_during_the_wait_is_told_by_every_kind() {
    let mut server = RedisServer::start();
    let (locks, holder) = (manager(&server).await, manager(&server).await);
    let mut held = Vec::new();
    for (kind, ask) in KINDS {
        // A reader has to wait for a writer.
        let request = if kind == "read" { holder.write(kind) } else { ask(&holder, kind) };
        held.push(request.ttl(LONG).acquire().await.expect("it is free"));
    }
    let mut waiters = JoinSet::new();
    let before = calls(&server, "zadd");
    ask(&locks, Duration::from_secs(15), &mut waiters);
    wait_until("they wait", PATIENCE, async || calls(&server, "zadd") >= before + KINDS.len() as u64).await;
    server.kill9();
    while let Some(told) = waiters.join_next().await {
        let (kind, error) = told.expect("no panic");
        check(kind, &error);
    }
}
