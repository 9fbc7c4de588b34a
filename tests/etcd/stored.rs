//! The stored data, the possible ttls, and other programs with the same recipe.

use std::time::Duration;

use lock_core::{LockErrorKind, LossReason, Released, strategy};
use lock_tests::{Etcd, PATIENCE, is_held_since_its_grant, wait_until};

use crate::support::{LONG, SHORTEST, cycle, empty, manager, ms, try_once, within};

#[tokio::test]
async fn nothing_is_left_of_a_lock() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let guard = try_once(&locks, "order:42").await.expect("free");
    let keys = etcd.keys();
    assert!(matches!(&keys[..], [key] if key.starts_with("order:42/")), "{keys:?}");
    let value = etcd.ctl(&["get", "order:42/", "--prefix", "--print-value-only"]);
    assert!(value.contains(" host=") && value.contains(&format!(" pid={} ", std::process::id())), "{value}");
    let other = try_once(&manager(&etcd).await, "order:42").await.expect_err("it is held");
    assert!(other.is_contended() && other.holder().is_some(), "{other}");
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
    // The two leases are those of the two sessions.
    assert_eq!((etcd.keys().len(), etcd.leases()), (0, 2));
    // The same holds for a request that was dropped, refused, or given up.
    let held = try_once(&locks, "k").await.expect("free");
    for _ in 0..3 {
        try_once(&locks, "k").await.expect_err("held");
        locks.fair("k").ttl(LONG).wait(ms(50)).acquire().await.expect_err("held");
        let waiting = locks.fair("k").ttl(LONG).wait(LONG).acquire();
        tokio::time::timeout(ms(50), waiting).await.expect_err("held");
    }
    drop(held);
    empty(&etcd, PATIENCE).await;
    // A session without keys ends with the manager or on its own. A shutdown does not wait long for it.
    locks.shutdown(ms(100)).await;
    wait_until("no lease is left", LONG * 2, async || etcd.leases() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_had_to_wait_holds_since_the_grant() {
    let etcd = Etcd::start();
    let (locks, other) = (manager(&etcd).await, manager(&etcd).await);
    is_held_since_its_grant(&locks, &other, Duration::from_secs(15)).await;
    // This lock stays on the lease of its wait.
    is_held_since_its_grant(&locks, &other, Duration::from_secs(4)).await;
    // A holder that is granted the key at once needs no renewal.
    let held = try_once(&locks, "k").await.expect("free");
    let holder = other.inspect("k").await.expect("an answer").expect("it is held").holders.remove(0);
    assert!(holder.held_since >= holder.record.map(|record| record.since_epoch()), "{:?}", holder.held_since);
    drop(held);
}

#[tokio::test]
async fn a_ttl_that_etcd_cannot_count_is_refused() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    for (ttl, text) in [
        (ms(500), "holds 2s to"),
        (ms(1_000), "holds 2s to"),
        (ms(2_500), "holds 2s or 3s, and nothing in between"),
        (Duration::from_secs(400 * 24 * 3_600), "holds 2s to"),
    ] {
        let error = locks.lock("k").ttl(ttl).acquire().await.expect_err("refused");
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
        assert!(error.to_string().contains(text), "{error}");
    }
    let guard = locks.lock("k").ttl(SHORTEST).acquire().await.expect("the shortest");
    let error = guard.extend(ms(2_500)).await.expect_err("refused");
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
    guard.extend(LONG).await.expect("another lease");
    assert!(guard.remaining() > LONG / 2, "{:?}", guard.remaining());
    guard.release().await.expect("an answer");
    assert_eq!(etcd.keys().len(), 0);
}

/// A longer election timeout makes the shortest lease longer.
#[tokio::test]
async fn the_shortest_ttl_is_that_of_the_cluster() {
    let slow = Etcd::builder().argument("--election-timeout=3000").start();
    let locks = manager(&slow).await;
    let error = locks.lock("k").ttl(Duration::from_secs(3)).acquire().await.expect_err("refused");
    assert!(error.to_string().contains("holds 5s to"), "{error}");
    cycle(&locks, "k").await;
}

/// `etcdctl lock` and our lock of the same name exclude each other.
#[tokio::test]
async fn the_recipe_of_etcd_stands_in_the_same_line() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let theirs = etcd.ctl_running(&["lock", "order:42"]);
    wait_until("they hold it", PATIENCE, async || etcd.keys().len() == 1).await;
    let error = try_once(&locks, "order:42").await.expect_err("they hold it");
    assert!(error.is_contended() && error.holder().is_none(), "{error}");
    drop(theirs);
    // The process of `etcdctl` is killed, so its lease must expire, by default after a minute. The lock is listed, and
    // an operator can end it.
    let info = locks.inspect("order:42").await.expect("an answer").expect("it is held");
    assert!(
        locks.force_release("order:42", &info.holders[0].id, "the holder is dead").await.expect("an answer")
    );

    let guard = try_once(&locks, "order:42").await.expect("free");
    let _theirs = etcd.ctl_running(&["lock", "order:42"]);
    wait_until("they wait", PATIENCE, async || etcd.keys().len() == 2).await;
    let info = locks.inspect("order:42").await.expect("an answer").expect("it is held");
    assert_eq!((info.holding, info.waiting), (1, 1));
    guard.release().await.expect("an answer");
    let error = try_once(&locks, "order:42").await.expect_err("they have it now");
    assert!(error.is_contended(), "{error}");
}

/// `etcdctl lock` does not support permits. It waits for all earlier entries, and no permit is granted past it.
#[tokio::test]
async fn the_recipe_of_etcd_excludes_a_semaphore() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let permit = || locks.semaphore("pool", 3).ttl(LONG).strategy(strategy::fail_fast()).acquire();
    let first = permit().await.expect("free");
    let theirs = etcd.ctl_running(&["lock", "pool"]);
    wait_until("they wait", PATIENCE, async || etcd.keys().len() == 2).await;
    let error = permit().await.expect_err("they would hold the key beside this permit");
    assert!(error.is_contended(), "{error}");
    first.release().await.expect("an answer");
    let error = permit().await.expect_err("they hold it");
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
    drop(theirs);
}

/// A waiting permit is served although the lock of another program is queued behind it.
#[tokio::test]
async fn a_waiting_permit_is_served_before_a_lock_of_another_program() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let first = locks.semaphore("pool", 1).ttl(LONG).acquire().await.expect("free");
    let waiting = tokio::spawn(locks.semaphore("pool", 1).ttl(LONG).wait(LONG).acquire());
    wait_until("it waits", PATIENCE, async || etcd.keys().len() == 2).await;
    let theirs = etcd.ctl_running(&["lock", "pool"]);
    wait_until("they wait", PATIENCE, async || etcd.keys().len() == 3).await;
    first.release().await.expect("an answer");
    let next = tokio::time::timeout(PATIENCE, waiting).await.expect("in time").expect("no panic");
    next.expect("its turn").release().await.expect("an answer");
    drop(theirs);
}

/// An operator has overwritten entries with `etcdctl put`, which detaches their lease. The release removes them
/// nevertheless.
#[tokio::test]
async fn an_entry_that_was_overwritten_goes_with_its_release() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    for several in [false, true] {
        let request = if several { locks.all(["k", "l"]) } else { locks.lock("k") };
        let guard = request.ttl(LONG).acquire().await.expect("free");
        for key in etcd.keys() {
            etcd.ctl(&["put", &key, "x"]);
        }
        assert_eq!(guard.release().await.expect("an answer"), Released::Released);
        assert_eq!(etcd.keys(), Vec::<String>::new());
    }
    let guard = try_once(&locks, "k").await.expect("free");
    let held = etcd.keys();
    let waiting = tokio::spawn(locks.fair("k").ttl(LONG).wait(LONG).acquire());
    wait_until("it waits", PATIENCE, async || etcd.keys().len() == 2).await;
    let waiter = etcd.keys().into_iter().find(|key| !held.contains(key)).expect("a waiter");
    etcd.ctl(&["put", &waiter, "x"]);
    guard.release().await.expect("an answer");
    let next = tokio::time::timeout(PATIENCE, waiting).await.expect("in time").expect("no panic");
    next.expect("its turn").release().await.expect("an answer");
    empty(&etcd, PATIENCE).await;
}

/// A holder whose entry was overwritten is notified by its next renewal, because that entry no longer expires.
#[tokio::test]
async fn a_holder_whose_entry_was_overwritten_is_told() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let guard = locks.lock("k").ttl(LONG).renew_every(ms(200)).acquire().await.expect("free");
    etcd.ctl(&["put", &etcd.keys()[0], "x"]);
    let reason = tokio::time::timeout(PATIENCE, guard.lost()).await.expect("told");
    assert_eq!(reason, LossReason::Taken);
    drop(guard);
    empty(&etcd, PATIENCE).await;
}

/// An operator blocks the key under a name copied from a listing. This process would use that name again.
#[tokio::test]
async fn what_another_program_writes_to_a_name_that_is_free_is_not_its_own() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let guard = try_once(&locks, "k").await.expect("free");
    let name = etcd.keys().remove(0);
    guard.release().await.expect("an answer");
    etcd.ctl(&["put", &name, "x"]);
    for _ in 0..3 {
        let error = try_once(&locks, "k").await.expect_err("somebody has the key");
        assert!(error.is_contended(), "{error}");
    }
    assert_eq!(etcd.keys(), std::slice::from_ref(&name));
    let waiting = tokio::spawn(locks.fair("k").ttl(LONG / 2).wait(LONG).acquire());
    wait_until("it waits", PATIENCE, async || etcd.keys().len() == 2).await;
    etcd.ctl(&["del", &name]);
    let guard = within(PATIENCE, "a turn", waiting).await.expect("no panic").expect("its turn");
    guard.release().await.expect("an answer");
}

/// Another program has overwritten the entry of a waiter with its own value and lease. The waiter queues again, and the
/// overwritten entry does not count as its grant.
#[tokio::test]
async fn a_waiter_whose_entry_was_overwritten_with_a_lease_is_granted_an_entry_of_its_own() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let held = try_once(&locks, "k").await.expect("free");
    let held_at = etcd.keys().remove(0);
    let waiting = tokio::spawn(locks.fair("k").ttl(LONG).renew_every(ms(200)).wait(LONG).acquire());
    wait_until("it waits", PATIENCE, async || etcd.keys().len() == 2).await;
    let waiter = etcd.keys().into_iter().find(|key| *key != held_at).expect("a waiter");
    let lease = etcd.ctl(&["lease", "grant", "600"]);
    let lease = lease.split_whitespace().nth(1).expect("an id");
    etcd.ctl(&["put", &format!("--lease={lease}"), &waiter, "x"]);
    held.release().await.expect("an answer");
    let guard = within(PATIENCE, "a turn", waiting).await.expect("no panic").expect("its turn");
    let key = etcd.keys().remove(0);
    assert!(etcd.ctl(&["get", &key, "--print-value-only"]).contains(" host="), "its own value");
    guard.release().await.expect("an answer");
    empty(&etcd, PATIENCE).await;
}
