//! Locks are renewed for as long as they are held.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::{LockGuard, LockManager, LossReason, Released};
use lock_tests::{Bound, PATIENCE, RedisServer, wait_until};
use tokio::runtime::{Builder, Runtime};

use crate::support::{calls, connect, empty, manager, ms, within};

const TTL: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_lock_is_kept_for_four_leases_against_others() {
    let server = RedisServer::start();
    let (locks, others) = (manager(&server).await, manager(&server).await);
    let guard = locks.lock("k").ttl(TTL).acquire().await.expect("the key is free");
    let over = tokio::time::sleep(4 * TTL);
    tokio::pin!(over);
    let mut tries = 0;
    while !over.is_elapsed() {
        assert!(others.lock("k").try_acquire().await.expect("an answer").is_none(), "granted twice");
        guard.check().expect("it is renewed");
        tries += 1;
        tokio::select! {
            () = &mut over => {}
            () = tokio::time::sleep(ms(5)) => {}
        }
    }
    assert!(tries > 20, "{tries}");
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
}

/// If a renewal did not prolong the memory of the token, a longer hold would outlive it. After the clock is set back,
/// the next token would then be smaller.
#[tokio::test]
async fn the_last_fencing_token_is_remembered_as_long_as_its_holder_is_renewed() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let with_the_grant = locks.lock("granted").ttl(TTL).fencing(true).acquire().await.expect("it is free");
    let on_demand = locks.read("asked").ttl(TTL).acquire().await.expect("it is free");
    on_demand.fencing_token().await.expect("the lock is held");
    let unfenced = locks.lock("unfenced").ttl(TTL).acquire().await.expect("it is free");
    let left = |key: &str| server.get::<i64>(&["PTTL", &format!("{{{key}}}:f")]);
    // The range is a minute and ten leases, minus the time that a busy machine takes to read it.
    let remembered = 67_000..=70_000_i64;
    for key in ["granted", "asked"] {
        assert!(remembered.contains(&left(key)), "{key}: {}", left(key));
        server.command(&["PEXPIRE", &format!("{{{key}}}:f"), "30000"]);
    }
    wait_until("renewals remember it anew", PATIENCE, async || {
        ["granted", "asked"].into_iter().all(|key| remembered.contains(&left(key)))
    })
    .await;
    assert_eq!(left("unfenced"), -2, "nothing is stored where nobody asked for a token");
    for guard in [with_the_grant, on_demand, unfenced] {
        assert_eq!(guard.release().await.expect("an answer"), Released::Released);
    }
}

#[tokio::test]
async fn without_renewal_a_lock_is_lost_after_its_lease() {
    let server = RedisServer::start();
    let guard = manager(&server).await.lock("k").ttl(TTL).renew(false).acquire().await.expect("it is free");
    let reason = within(PATIENCE, "telling the loss", guard.lost()).await;
    assert_eq!(reason, LossReason::Expired);
    wait_until("the key is gone", PATIENCE, async || server.keys().is_empty()).await;
}

const MANY: u64 = 10_000;
const MANY_TTL: Duration = Duration::from_secs(15);

async fn take_many(locks: &LockManager) -> Vec<LockGuard> {
    let mut taking = tokio::task::JoinSet::new();
    for part in 0..50 {
        let locks = locks.clone();
        taking.spawn(async move {
            let mut guards = Vec::new();
            for number in 0..MANY / 50 {
                let request = locks.lock(format!("k{}", part * (MANY / 50) + number)).ttl(MANY_TTL);
                guards.push(request.acquire().await.expect("the key is free"));
            }
            guards
        });
    }
    taking.join_all().await.into_iter().flatten().collect()
}

#[tokio::test]
async fn ten_thousand_locks_are_kept_for_a_fiftieth_of_a_command_each() {
    let server = RedisServer::start();
    let guards = take_many(&manager(&server).await).await;
    let count = || (calls(&server, "evalsha"), calls(&server, "pexpire"));
    let (scripts, renewals) = count();
    // Each lock is renewed after every third of its lease.
    wait_until("all are renewed", PATIENCE, async || count().1 - renewals >= MANY).await;
    let (scripts, renewals) = (count().0 - scripts, count().1 - renewals);
    let held = guards.iter().filter(|guard| guard.is_held()).count() as u64;
    assert_eq!((held, server.get::<u64>(&["DBSIZE"])), (MANY, MANY));
    assert!(scripts * 50 <= renewals, "{scripts} scripts for {renewals} renewals");
    drop(guards);
    empty(&server, PATIENCE).await;
}

#[tokio::test]
async fn locks_that_are_taken_away_leave_the_others_of_their_batch_alone() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let mut guards = Vec::new();
    for number in 0..60 {
        let request = locks.lock(format!("k{number}")).ttl(Duration::from_secs(2));
        guards.push(request.acquire().await.expect("the key is free"));
    }
    // A third of the keys is deleted, a third becomes data of another type, a third stays.
    for number in (0..60).filter(|number| number % 3 > 0) {
        server.command(&["DEL", &format!("k{number}")]);
        if number % 3 == 2 {
            server.command(&["LPUSH", &format!("k{number}"), "a"]);
        }
    }
    for (number, guard) in guards.iter().enumerate().filter(|(number, _)| number % 3 > 0) {
        let reason = within(PATIENCE, "telling the loss", guard.lost()).await;
        assert_eq!(reason, LossReason::Taken, "k{number}");
    }
    for (number, guard) in guards.into_iter().enumerate().filter(|(number, _)| number % 3 == 0) {
        assert_eq!(guard.release().await.expect("an answer"), Released::Released, "k{number}");
    }
}

/// Holds a lock in a body that blocks its thread for three leases, while `others` more tasks of the runtime do the
/// same.
fn keeps_while_blocked(runtime: &Runtime, others: u32) {
    let server = RedisServer::start();
    let locks = runtime.block_on(manager(&server));
    let (begun, has_begun) = std::sync::mpsc::channel();
    let ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ended);
    let running = runtime.spawn(locks.lock("k").ttl(TTL).run(async move {
        begun.send(()).expect("the test waits");
        std::thread::sleep(3 * TTL);
        // This is the last act of the body. The lock is released after it.
        end.store(true, Ordering::SeqCst);
    }));
    for _ in 0..others {
        runtime.spawn(async { std::thread::sleep(4 * TTL) });
    }
    // Another service, on a runtime that is not blocked, tries until the body ends.
    let elsewhere = std::thread::spawn({
        let url = server.url();
        move || {
            has_begun.recv().expect("the body runs");
            tries_in_vain(&url, &ended)
        }
    });
    runtime.block_on(running).expect("no panic").expect("the lock was kept");
    let tries = elsewhere.join().expect("nobody else got the key");
    assert!(tries > 5, "{tries}");
}

/// Tries to get the key until the body has `ended`. Returns the number of refused tries.
fn tries_in_vain(url: &str, ended: &AtomicBool) -> u32 {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let over = Bound::new(PATIENCE);
        let locks = connect(url).await;
        let mut tries = 0;
        while !ended.load(Ordering::SeqCst) {
            over.check("the body ends");
            let guard = locks.lock("k").try_acquire().await.expect("an answer");
            // The body may have ended while the request was in flight.
            assert!(guard.is_none() || ended.load(Ordering::SeqCst), "granted twice");
            tries += 1;
            tokio::time::sleep(ms(10)).await;
        }
        tries
    })
}

#[test]
fn a_body_that_blocks_its_only_thread_keeps_its_lock() {
    keeps_while_blocked(&Builder::new_current_thread().enable_all().build().expect("a runtime"), 0);
}

#[test]
fn a_body_that_blocks_beside_every_other_worker_keeps_its_lock() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    keeps_while_blocked(&runtime, 1);
}
