//! The loss of a session, of its connection, and of the servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::backend::zookeeper::ZooKeeper;
use lock_core::{LockErrorKind, LockManager, LossReason, Released};
use lock_tests::{Bound, PATIENCE, ZooKeeperServers, wait_until};

use crate::support::{
    LONG, SESSION, connect, connect_for_long, leader, lost_within, ms, patient_servers, patient_url,
    try_once, url, works_again,
};

/// All locks of a manager are lost with its session. Its waiters are served nevertheless, and the next session works.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_session_loses_all_its_locks_at_once() {
    let servers = patient_servers();
    let store = ZooKeeper::connect(&patient_url(&servers)).await.expect("a store");
    let operator = store.operator();
    let locks = LockManager::builder(store).build().expect("a manager");
    let other = connect(&patient_url(&servers)).await;
    let guards = [try_once(&locks, "a").await.expect("free"), try_once(&locks, "b").await.expect("free")];
    let blocked = try_once(&other, "c").await.expect("free");
    let waiting = tokio::spawn(locks.lock("c").ttl(LONG).wait(PATIENCE).acquire());
    let [process] = operator.processes()[..] else { panic!("one manager") };
    operator.end_session(process).await.expect("it has a session");
    for guard in &guards {
        // If the loss were reported at the deadline of the lock, which is half of the session timeout, the reason would
        // be expiry.
        let told = tokio::time::timeout(PATIENCE, guard.lost()).await;
        assert_eq!(told.expect("told"), LossReason::SessionEnded);
        assert!(!guard.is_held());
    }
    blocked.release().await.expect("an answer");
    let served = waiting.await.expect("no panic").expect("served in the next session");
    served.release().await.expect("an answer");
    for key in ["a", "b"] {
        let next = try_once(&other, key).await.expect("the session freed it");
        next.release().await.expect("an answer");
    }
    for guard in guards {
        let released = guard.release().await;
        assert!(released.is_err() || released.is_ok_and(|released| released != Released::Released));
    }
    works_again(&locks, "a").await;
}

/// A restart that is shorter than the local deadline loses neither the lock nor the place of a waiter.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_within_the_session_loses_nothing() {
    // A busy machine may take several seconds to start a JVM.
    let mut servers = ZooKeeperServers::builder().tick(ms(2_000)).start();
    let url = format!("{}?session_timeout=40s&timeout=8s", servers.url("locks"));
    let (locks, other) = (connect_for_long(&url).await, connect_for_long(&url).await);
    let guard = try_once(&locks, "k").await.expect("free");
    let waiting = tokio::spawn(other.lock("k").ttl(LONG).wait(LONG).acquire());
    wait_until("the other waits", PATIENCE, async || servers.nodes("locks/k") == 2).await;
    servers.kill9(0);
    servers.restart(0);
    servers.wait_ready(0);
    works_again(&locks, "another").await;
    assert!(guard.is_held(), "the session lives");
    assert!(!waiting.is_finished(), "granted beside a holder");
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
    let served = waiting.await.expect("no panic").expect("it kept its place");
    served.release().await.expect("an answer");
}

/// While the server is stopped, the lock is lost at its local deadline, which is half of the session timeout.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_silent_costs_the_lock_in_time() {
    let servers = ZooKeeperServers::start();
    let locks = connect(&url(&servers)).await;
    let guard = try_once(&locks, "k").await.expect("free");
    let since = Bound::new(PATIENCE);
    servers.stop(0);
    assert_eq!(lost_within(&guard, &since, SESSION * 3 / 4).await, LossReason::Expired);
    let error = locks.lock("l").ttl(SESSION).acquire().await.expect_err("nobody answers");
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
    servers.cont(0);
    drop(guard);
    works_again(&locks, "k").await;
}

/// A short pause of the server loses no lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_pause_of_the_server_loses_nothing() {
    let servers = ZooKeeperServers::start();
    let url = format!("{}?session_timeout=10s", servers.url("locks"));
    let locks = connect(&url).await;
    let guard = try_once(&locks, "k").await.expect("free");
    for _ in 0..3 {
        servers.stop(0);
        tokio::time::sleep(ms(300)).await;
        servers.cont(0);
        tokio::time::sleep(ms(700)).await;
        assert!(guard.is_held());
    }
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
}

/// The library drives the session on its own thread, so a body that blocks every worker keeps its lock.
#[tokio::test]
async fn a_body_that_blocks_its_runtime_keeps_its_lock() {
    let servers = patient_servers();
    let (locks, other) = (connect(&patient_url(&servers)).await, patient_url(&servers));
    let over = Arc::new(AtomicBool::new(false));
    let guard = try_once(&locks, "k").await.expect("free");
    let watcher = std::thread::spawn({
        let over = Arc::clone(&over);
        move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let other = connect(&other).await;
                while !over.load(Ordering::Acquire) {
                    assert!(try_once(&other, "k").await.is_err(), "granted beside a holder");
                    tokio::time::sleep(ms(20)).await;
                }
            });
        }
    });
    // This pause is longer than the session timeout.
    std::thread::sleep(Duration::from_secs(12));
    assert!(guard.is_held());
    over.store(true, Ordering::Release);
    // This check comes before the release, because a last request of the other client may be in flight.
    watcher.join().expect("nobody else had it");
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
}

/// In an ensemble of three, the leader dies under load. No lock is lost or held twice.
#[tokio::test(flavor = "multi_thread")]
async fn the_death_of_the_leader_loses_no_lock() {
    let mut servers = ZooKeeperServers::builder().members(3).tick(ms(1_000)).start();
    let url = format!("{}?session_timeout=20s&timeout=8s", servers.url("locks"));
    let mut kept = 0;
    for round in 0..3 {
        let (locks, other) = (connect_for_long(&url).await, connect_for_long(&url).await);
        let key = format!("k{round}");
        let guard = try_once(&locks, &key).await.expect("free");
        let token = guard.fencing_token().await.expect("a token");
        let leader = leader(&servers).await;
        servers.kill9(leader);
        // The next holder gets the lock after the last holder is notified of the loss, with a larger token.
        let next = tokio::spawn(async move {
            let guard = other.lock(&key).ttl(LONG).wait(LONG).acquire().await.expect("in the end");
            (guard.fencing_token().await.expect("a token"), guard)
        });
        // The pause is longer than a lock is certain without contact, which is half of its session timeout.
        tokio::time::sleep(Duration::from_secs(11)).await;
        if guard.is_held() {
            assert!(!next.is_finished(), "held twice");
            kept += 1;
        }
        drop(guard);
        let (larger, guard) = next.await.expect("no panic");
        assert!(larger > token, "{larger} after {token}");
        guard.release().await.expect("an answer");
        servers.restart(leader);
        servers.wait_ready(leader);
    }
    // An election takes about a second.
    assert!(kept > 0, "no lock outlived its leader");
}

/// Without a majority nothing is granted, and held locks are lost in time.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_majority_nothing_is_granted() {
    let mut servers = ZooKeeperServers::builder().members(3).start();
    let url = format!("{}?session_timeout=4s&timeout=2s", servers.url("locks"));
    let locks = connect(&url).await;
    let guard = try_once(&locks, "k").await.expect("free");
    let since = Bound::new(PATIENCE);
    servers.kill9(0);
    servers.kill9(1);
    lost_within(&guard, &since, ms(3_500)).await;
    let error = try_once(&locks, "l").await.expect_err("there is no majority");
    assert!(error.is_temporary(), "{error}");
    for member in [0, 1] {
        servers.restart(member);
    }
    for member in [0, 1] {
        servers.wait_ready(member);
    }
    drop(guard);
    works_again(&locks, "k").await;
}
