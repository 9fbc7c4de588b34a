//! A cluster that accepts no more data, and a compacted history.

use std::time::Duration;

use lock_core::{LockError, LockErrorKind};
use lock_tests::{Etcd, PATIENCE, wait_until};

use crate::support::{LONG, cycle, manager, ms, refused, try_once};

/// Fills the database until its alarm is raised.
fn fill(etcd: &Etcd) {
    let value = "x".repeat(100_000);
    for number in 0..200 {
        if etcd.ctl(&["alarm", "list"]).contains("NOSPACE") {
            return;
        }
        // The last write is refused, and raises the alarm.
        let _ = etcd.try_ctl(&["put", &format!("fill{number}"), &value]);
    }
    panic!("no alarm");
}

/// Compacts the history up to now.
fn compact(etcd: &Etcd) {
    let text = etcd.ctl(&["endpoint", "status", "-w", "fields"]);
    let revision = text.lines().find_map(|line| line.strip_prefix("\"Revision\" : ")).expect("a revision");
    etcd.ctl(&["compact", revision.trim()]);
}

/// Deletes the data of [`fill`] as the error advises. A write to a database that is still full would raise the alarm
/// again.
fn empty(etcd: &Etcd) {
    etcd.ctl(&["del", "--prefix", "fill"]);
    compact(etcd);
    etcd.ctl(&["defrag"]);
    etcd.ctl(&["alarm", "disarm"]);
}

#[tokio::test]
async fn a_full_database_says_what_to_do_and_lets_go_of_what_is_held() {
    let etcd = Etcd::builder().argument("--quota-backend-bytes=4000000").start();
    let locks = manager(&etcd).await;
    let held = try_once(&locks, "held").await.expect("free");
    fill(&etcd);
    let error = try_once(&locks, "k").await.expect_err("the database is full");
    assert_eq!(error.kind(), LockErrorKind::Unavailable);
    assert!(error.to_string().contains("`etcdctl alarm disarm`") && !error.is_temporary(), "{error}");
    let error = locks.ping().await.expect_err("no lock would be granted");
    assert!(error.to_string().contains("`etcdctl alarm disarm`"), "{error}");
    let error = refused(&etcd.url()).await;
    assert!(error.to_string().contains("`etcdctl alarm disarm`"), "{error}");
    // A release needs no space.
    assert_eq!(held.release().await.expect("an answer"), lock_core::Released::Released);
    let left = etcd.keys();
    assert!(left.iter().all(|key| key.starts_with("fill")), "{left:?}");
    empty(&etcd);
    wait_until("it serves again", PATIENCE, async || locks.ping().await.is_ok()).await;
    assert!(etcd.keys().is_empty(), "a ping writes nothing");
}

/// A refused request has written nothing, so an entry under the chosen name belongs to another client.
#[tokio::test]
async fn what_another_program_has_written_stays_where_a_request_is_refused() {
    let etcd = Etcd::builder().argument("--quota-backend-bytes=4000000").start();
    let locks = manager(&etcd).await;
    let guard = try_once(&locks, "k").await.expect("free");
    let name = etcd.keys().remove(0);
    guard.release().await.expect("an answer");
    etcd.ctl(&["put", &name, "x"]);
    fill(&etcd);
    let error = try_once(&locks, "k").await.expect_err("somebody has the key");
    assert!(error.is_contended(), "{error}");
    assert!(etcd.keys().contains(&name));
}

/// A holder continues, because a renewal needs no space. A longer lease needs space and is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_goes_on_while_the_database_is_full() {
    const TTL: Duration = Duration::from_secs(5);
    let etcd = Etcd::builder().argument("--quota-backend-bytes=4000000").start();
    let (locks, others) = (manager(&etcd).await, manager(&etcd).await);
    let guard = locks.write("k").ttl(TTL).acquire().await.expect("free");
    let waiting = tokio::spawn(others.lock("k").ttl(LONG).wait(LONG).acquire());
    wait_until("it waits", PATIENCE, async || etcd.keys().len() == 2).await;
    // The fill runs on another thread, because the waiter must send heartbeats meanwhile.
    tokio::task::block_in_place(|| fill(&etcd));
    let says =
        |error: &LockError| error.to_string().contains("`etcdctl alarm disarm`") && !error.is_temporary();
    let error = guard.extend(LONG).await.expect_err("another lease needs space");
    assert!(says(&error), "{error}");
    // This pause is longer than the lease.
    tokio::time::sleep(TTL + ms(1_000)).await;
    assert!(guard.is_held() && guard.check().is_ok(), "a renewal needs no space");
    if waiting.is_finished() {
        panic!("it keeps its place: {:?}", waiting.await);
    }
    assert_eq!(guard.release().await.expect("an answer"), lock_core::Released::Released);
    let next = tokio::time::timeout(PATIENCE, waiting).await.expect("told").expect("no panic");
    let next = next.expect("its turn needs no space");
    assert_eq!(next.release().await.expect("an answer"), lock_core::Released::Released);
    wait_until("nothing is left", PATIENCE, async || etcd.keys().iter().all(|key| key.starts_with("fill")))
        .await;
}

/// A fair turn begins and continues on the lease of its wait. Only a longer lease needs space.
#[tokio::test(flavor = "multi_thread")]
async fn a_fair_turn_goes_on_while_the_database_is_full() {
    let etcd = Etcd::builder().argument("--quota-backend-bytes=4000000").start();
    let (locks, others) = (manager(&etcd).await, manager(&etcd).await);
    let guard = locks.fair("k").ttl(LONG).acquire().await.expect("free");
    let waiting = tokio::spawn(others.fair("k").ttl(LONG).wait(LONG).acquire());
    wait_until("it waits", PATIENCE, async || etcd.keys().len() == 2).await;
    tokio::task::block_in_place(|| fill(&etcd));
    assert_eq!(guard.release().await.expect("an answer"), lock_core::Released::Released);
    let next = tokio::time::timeout(PATIENCE, waiting).await.expect("told").expect("no panic");
    let next = next.expect("its turn");
    // This pause is longer than the lease of a waiter.
    tokio::time::sleep(ms(5_500)).await;
    assert!(next.is_held() && next.check().is_ok(), "it is renewed");
    assert_eq!(next.release().await.expect("an answer"), lock_core::Released::Released);
}

/// A try for a held key reports the holder, even if the client has a spare lease for a free key.
#[tokio::test(flavor = "multi_thread")]
async fn a_held_key_is_held_while_the_database_is_full() {
    let etcd = Etcd::builder().argument("--quota-backend-bytes=4000000").start();
    let (locks, others) = (manager(&etcd).await, manager(&etcd).await);
    let guard = try_once(&locks, "k").await.expect("free");
    cycle(&others, "other").await;
    tokio::task::block_in_place(|| fill(&etcd));
    let error = try_once(&others, "k").await.expect_err("held");
    assert!(error.is_contended() && error.holder().is_some(), "{error}");
    guard.release().await.expect("an answer");
}

/// The revision from which a waiter watches is compacted before the watch is created, or while it is open.
#[tokio::test]
async fn a_waiter_survives_compaction() {
    let etcd = Etcd::start();
    let (locks, others) = (manager(&etcd).await, manager(&etcd).await);
    let guard = try_once(&locks, "k").await.expect("free");
    let waiting = tokio::spawn(others.lock("k").ttl(LONG).wait(LONG).acquire());
    wait_until("it waits", PATIENCE, async || etcd.keys().len() == 2).await;
    for number in 0..10 {
        cycle(&locks, &format!("other{number}")).await;
        compact(&etcd);
        tokio::time::sleep(ms(100)).await;
    }
    guard.release().await.expect("an answer");
    let next = tokio::time::timeout(PATIENCE, waiting).await.expect("told").expect("no panic");
    next.expect("handed over").release().await.expect("an answer");
}
