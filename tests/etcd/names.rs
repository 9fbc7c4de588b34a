//! The names of entries. etcd walks over all that were used in a line until its history is compacted, so they are used again.

use std::collections::BTreeSet;

use lock_core::{LockGuard, LockManager, Released, strategy};
use lock_tests::{Etcd, PATIENCE, wait_until};

use crate::spare::requests;
use crate::support::{LONG, empty, manager, ms, try_once, within};

async fn released(guard: LockGuard) {
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
}

#[tokio::test]
async fn a_key_that_is_locked_again_has_the_same_name() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let kinds: [(&str, fn(&LockManager) -> lock_core::LockRequest); 5] = [
        ("lock", |locks| locks.lock("k")),
        // Its lease is revoked, and not left to the next.
        ("without renewal", |locks| locks.lock("k").renew(false)),
        ("fair", |locks| locks.fair("k")),
        ("read", |locks| locks.read("k")),
        ("permit", |locks| locks.semaphore("k", 2)),
    ];
    let mut names = BTreeSet::new();
    for (what, request) in kinds {
        for _ in 0..5 {
            let guard =
                request(&locks).ttl(LONG).strategy(strategy::fail_fast()).acquire().await.expect("free");
            names.extend(etcd.keys());
            released(guard).await;
            assert_eq!(names.len(), 1, "{what}: {names:?}");
        }
    }
}

#[tokio::test]
async fn waiters_use_the_names_of_their_process_again() {
    let etcd = Etcd::start();
    let locks = [manager(&etcd).await, manager(&etcd).await];
    let mut names = BTreeSet::new();
    let mut held = try_once(&locks[0], "k").await.expect("free");
    for turn in 1..=10 {
        let waiting = tokio::spawn(locks[turn % 2].fair("k").ttl(LONG).wait(LONG).acquire());
        wait_until("it waits", PATIENCE, async || etcd.keys().len() == 2).await;
        names.extend(etcd.keys());
        released(held).await;
        held = within(PATIENCE, "a turn", waiting).await.expect("no panic").expect("its turn");
        assert_eq!(names.len(), 2, "{names:?}");
    }
    released(held).await;
}

/// Two processes could choose the same name. Then the one that comes later takes another.
#[tokio::test]
async fn a_name_that_somebody_else_has_is_not_used() {
    let etcd = Etcd::start();
    let (locks, other) = (manager(&etcd).await, manager(&etcd).await);
    let guard = try_once(&locks, "k").await.expect("free");
    let name = etcd.keys().remove(0);
    released(guard).await;
    // An entry of the other process, moved to the name that is free here.
    let theirs = try_once(&other, "k").await.expect("free");
    let moved = etcd.keys().remove(0);
    let value = etcd.ctl(&["get", &moved, "--print-value-only"]);
    etcd.ctl(&["put", &name, value.trim()]);
    etcd.ctl(&["del", &moved]);
    let error = try_once(&locks, "k").await.expect_err("they hold it");
    assert!(error.is_contended() && error.holder().is_some(), "{error}");
    let before = requests(&etcd, "KV", "Txn");
    // Of another length, so that no lease that is left comes between.
    let waiting = tokio::spawn(locks.fair("k").ttl(LONG / 2).wait(LONG).acquire());
    wait_until("it waits", PATIENCE, async || etcd.keys().len() == 2).await;
    let asked = requests(&etcd, "KV", "Txn") - before;
    assert!(asked < 20, "it has asked {asked} times for a name");
    etcd.ctl(&["del", &name]);
    let guard = within(PATIENCE, "a turn", waiting).await.expect("no panic").expect("its turn");
    drop(theirs);
    released(guard).await;
    empty(&etcd, PATIENCE).await;
}

/// An operator blocks the key with a name copied from a listing, which this process would use again.
#[tokio::test]
async fn what_another_program_writes_to_a_name_that_is_free_is_not_its_own() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let guard = try_once(&locks, "k").await.expect("free");
    let name = etcd.keys().remove(0);
    released(guard).await;
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
    released(guard).await;
}

/// The entry of a waiter has a value of another program and the lease of that. It lines up again, and is not granted.
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
    released(held).await;
    let guard = within(PATIENCE, "a turn", waiting).await.expect("no panic").expect("its turn");
    let key = etcd.keys().remove(0);
    assert!(etcd.ctl(&["get", &key, "--print-value-only"]).contains(" host="), "its own value");
    released(guard).await;
    empty(&etcd, PATIENCE).await;
}
