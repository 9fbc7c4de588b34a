//! The effects on locks when the server loses all data, its scripts, or its clients.

use std::time::Duration;

use lock_core::{LockErrorKind, LockGuard, LockManager, LossReason, Released};
use lock_tests::{PATIENCE, RedisServer, wait_until};

use crate::support::{calls, empty, manager, ms, try_once, within, works_again};
use crate::turns::{Beside, beside};

const TTL: Duration = ms(1_200);

async fn hold(locks: &LockManager, key: &str) -> LockGuard {
    locks.lock(key).ttl(TTL).acquire().await.expect("the key is free")
}

/// Checks that a notification of the server, and not the end of the lease, reports the loss to the holder.
async fn told_that_it_is_taken(guard: LockGuard) {
    let reason = within(PATIENCE, "telling the loss", guard.lost()).await;
    assert_eq!(reason, LossReason::Taken);
    assert!(!guard.is_held());
    assert_eq!(guard.release().await.expect_err("it is lost").kind(), LockErrorKind::Lost);
}

#[tokio::test]
async fn a_restart_without_data_is_told_at_the_next_renewal() {
    let mut server = RedisServer::start();
    let locks = manager(&server).await;
    let guard = locks.lock("k").ttl(TTL).fencing(true).acquire().await.expect("the key is free");
    let token = guard.fencing_token().await.expect("it came with the grant");
    // The first renewal opens the connection of the renewer's thread.
    let renewed = calls(&server, "pexpire");
    wait_until("a renewal", PATIENCE, async || calls(&server, "pexpire") > renewed).await;
    server.restart();
    told_that_it_is_taken(guard).await;
    works_again(&locks, "k").await;
    let next = locks.lock("k").fencing(true).acquire().await.expect("the key is free");
    assert!(
        next.fencing_token().await.expect("it came with the grant") > token,
        "the data is lost, the order not"
    );
    next.release().await.expect("an answer");
}

#[tokio::test]
async fn a_flush_is_told_at_the_next_renewal_and_tokens_grow_on() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let mut last = 0;
    for fencing in [true, false, true, false] {
        let guard = locks.lock("k").ttl(TTL).fencing(fencing).acquire().await.expect("the key is free");
        let token = guard.fencing_token().await.expect("the lock is held").get();
        assert!(token > last, "{token} after {last}");
        last = token;
        server.command(&["FLUSHALL"]);
        told_that_it_is_taken(guard).await;
    }
}

/// Lets a process hand its lock on, makes the server forget the lock, and lets another process acquire it.
#[allow(clippy::print_stdout, reason = "the figures are wanted as well as the verdict")]
async fn the_next_holder_has_the_largest_token(lose: fn(&mut RedisServer)) {
    let mut server = RedisServer::start();
    let (old, next) = (manager(&server).await, manager(&server).await);
    for _ in 0..20 {
        // While the old process hands its lock on, it checks the grant on the server once a second.
        let seen = beside((&old, &next), "k", (100, ms(1_200)), || lose(&mut server)).await;
        if let Some(Beside { turns, larger }) = seen {
            println!("{turns} turns beside the next holder, {larger} tokens that are not smaller");
            assert_eq!(larger, 0, "and {turns} turns beside the next holder");
            return;
        }
    }
    panic!("another process never got the key after the loss: this shows nothing");
}

#[tokio::test]
async fn the_next_holder_after_a_flush_has_the_largest_token() {
    the_next_holder_has_the_largest_token(|server| drop(server.command(&["FLUSHALL"]))).await;
}

#[tokio::test]
async fn the_next_holder_after_the_lock_was_deleted_has_the_largest_token() {
    the_next_holder_has_the_largest_token(|server| drop(server.command(&["DEL", "k"]))).await;
}

#[tokio::test]
async fn the_next_holder_after_a_restart_without_data_has_the_largest_token() {
    the_next_holder_has_the_largest_token(RedisServer::restart).await;
}

/// The holder is notified long before a third of its lease, which would be twenty minutes.
#[tokio::test]
async fn a_long_lease_hears_of_a_deletion_as_often_as_it_is_renewed() {
    let server = RedisServer::start();
    let request = manager(&server).await.lock("k").ttl(Duration::from_secs(3_600)).renew_every(ms(200));
    let guard = request.acquire().await.expect("the key is free");
    server.command(&["DEL", "k"]);
    told_that_it_is_taken(guard).await;
}

#[tokio::test]
async fn a_token_asked_for_after_the_loss_is_refused() {
    let server = RedisServer::start();
    let guard = try_once(&manager(&server).await, "k").await.expect("the key is free");
    server.command(&["FLUSHALL"]);
    assert_eq!(guard.fencing_token().await.expect_err("it is lost").kind(), LockErrorKind::Lost);
    assert!(!guard.is_held());
}

#[tokio::test]
async fn forgotten_scripts_are_not_noticed() {
    let server = RedisServer::start();
    let (locks, others) = (manager(&server).await, manager(&server).await);
    let kept = hold(&locks, "kept").await;
    let before = calls(&server, "pexpire");
    for fencing in [true, false].repeat(3) {
        // The server forgets its scripts before each script that a cycle may need: acquire, contended acquire, fencing
        // token, release.
        let forget = || server.command(&["SCRIPT", "FLUSH"]);
        forget();
        let guard = locks.lock("k").fencing(fencing).acquire().await.expect("the key is free");
        forget();
        assert!(others.lock("k").try_acquire().await.expect("an answer").is_none());
        forget();
        guard.fencing_token().await.expect("the lock is held");
        forget();
        assert_eq!(guard.release().await.expect("an answer"), Released::Released);
    }
    wait_until("two renewals", PATIENCE, async || {
        server.command(&["SCRIPT", "FLUSH"]);
        calls(&server, "pexpire") >= before + 2
    })
    .await;
    assert_eq!(kept.release().await.expect("an answer"), Released::Released);
}

#[tokio::test]
async fn killed_connections_cost_no_lock() {
    let server = RedisServer::start();
    let (locks, others) = (manager(&server).await, manager(&server).await);
    let kept = hold(&locks, "kept").await;
    for _ in 0..6 {
        assert!(server.cut_clients() >= 2, "one of each process");
        // The next acquire gets a new connection within its time limit.
        locks.lock("k").acquire().await.expect("the key is free").release().await.expect("an answer");
        tokio::time::sleep(TTL / 4).await;
        kept.check().expect("it is renewed");
        assert!(!matches!(others.lock("kept").try_acquire().await, Ok(Some(_))), "granted twice");
    }
    assert_eq!(kept.release().await.expect("an answer"), Released::Released);
    empty(&server, PATIENCE).await;
}
