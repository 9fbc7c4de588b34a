//! Waiters do not poll. All waiters of one process share one watch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::Kind;
use lock_tests::{Etcd, PATIENCE, take_turns, wait_until};

use crate::support::{LONG, connect, empty, manager, ms, try_once};

const WAITERS: usize = 200;

const SEMAPHORE_WAITERS: usize = 60;

/// The lease of a waiter. A lock with this ttl stays on this lease when it is served. A move to a longer lease would be
/// another notification.
const OF_A_WAITER: Duration = Duration::from_secs(4);

/// The notifications of one deletion for the watches of two processes, and one more.
const OF_ONE_RELEASE: f64 = 3.0;

/// Returns the number of entries whose value says when they were granted. A holder that had waited writes that with its
/// first renewal, which on a busy machine comes while a release is watched.
fn dated(etcd: &Etcd) -> usize {
    etcd.ctl(&["get", "k/", "--prefix", "--print-value-only"]).matches(" granted=").count()
}

/// Returns the notifications of the last release, without those of the holders that have written when they were granted.
/// There were `before` such entries before the release, whose holder was one of them.
fn of_one_release(told: f64, etcd: &Etcd, before: usize) -> f64 {
    let written = dated(etcd) + 1 - before;
    told - 2.0 * f64::from(u32::try_from(written).expect("few"))
}

/// Two hundred waiters wait for one key. A release is sent once to each process, whatever the number of its waiters.
#[tokio::test(flavor = "multi_thread")]
async fn one_release_is_told_once_to_each_process() {
    let etcd = Etcd::start();
    let managers = [manager(&etcd).await, manager(&etcd).await];
    let guard = managers[0].fair("k").ttl(OF_A_WAITER).acquire().await.expect("free");
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..WAITERS {
        let request = managers[number % 2].fair("k").ttl(OF_A_WAITER).wait(PATIENCE * 4);
        waiting.spawn(async move { request.acquire().await });
    }
    wait_until("all stand in line", PATIENCE, async || etcd.keys().len() == WAITERS + 1).await;
    let watches = async || etcd.metric("etcd_debugging_mvcc_watcher_total") as usize == 2;
    wait_until("each process watches", PATIENCE, watches).await;
    let events = || etcd.metric("etcd_debugging_mvcc_events_total");
    let (dated, before) = (dated(&etcd), events());
    guard.release().await.expect("an answer");
    let next = waiting.join_next().await.expect("one is served").expect("no panic").expect("served");
    tokio::time::sleep(ms(300)).await;
    let told = of_one_release(events() - before, &etcd, dated);
    assert!(told <= OF_ONE_RELEASE, "{told} notices of one release to {WAITERS} waiters");
    drop(next);
    waiting.abort_all();
    while waiting.join_next().await.is_some() {}
    empty(&etcd, PATIENCE).await;
}

/// Sixty waiters wait for a semaphore of three. A release is sent once to each process, whatever the number of its
/// waiters. The next waiter is served whichever of the three holders releases.
#[tokio::test(flavor = "multi_thread")]
async fn one_release_of_a_semaphore_is_told_once_to_each_process() {
    let etcd = Etcd::start();
    let managers = [manager(&etcd).await, manager(&etcd).await];
    let request = |number: usize| managers[number % 2].semaphore("k", 3).ttl(OF_A_WAITER).wait(PATIENCE * 4);
    let mut held = Vec::new();
    for number in 0..3 {
        held.push(request(number).acquire().await.expect("free"));
    }
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..SEMAPHORE_WAITERS {
        waiting.spawn(request(number).acquire());
    }
    let all = SEMAPHORE_WAITERS + held.len();
    wait_until("all stand in line", PATIENCE, async || etcd.keys().len() == all).await;
    let streams = "etcd_debugging_mvcc_watch_stream_total";
    wait_until("each process watches", PATIENCE, async || etcd.metric(streams) as usize == 2).await;
    let events = || etcd.metric("etcd_debugging_mvcc_events_total");
    let mut served = Vec::new();
    let at_first = events();
    for guard in held.into_iter().rev() {
        let (dated, before) = (dated(&etcd), events());
        guard.release().await.expect("an answer");
        let next = tokio::time::timeout(PATIENCE, waiting.join_next()).await.expect("told");
        let next = next.expect("one is served").expect("no panic").expect("served");
        tokio::time::sleep(ms(300)).await;
        let told = of_one_release(events() - before, &etcd, dated);
        assert!(told <= OF_ONE_RELEASE, "{told} notices of one release to {SEMAPHORE_WAITERS} waiters");
        served.push(next);
    }
    assert!(events() > at_first, "nobody was told");
    drop(served);
    waiting.abort_all();
    while waiting.join_next().await.is_some() {}
    empty(&etcd, PATIENCE).await;
}

/// A watch ends with its wait. A watch that stayed would receive every change of its key for as long as the connection
/// lives.
#[tokio::test]
async fn a_wait_that_is_over_leaves_no_watch() {
    let etcd = Etcd::start();
    let (one, two) = (manager(&etcd).await, manager(&etcd).await);
    let watches = || etcd.metric("etcd_debugging_mvcc_watcher_total") as usize;
    for kind in [Kind::Fair, Kind::Reentrant, Kind::Semaphore { permits: 1 }] {
        let guard = one.request("k", kind).ttl(LONG).acquire().await.expect("free");
        let next = tokio::spawn(two.request("k", kind).ttl(LONG).wait(LONG).acquire());
        let patient = two.request("k", kind).ttl(LONG).wait(LONG);
        wait_until("one watches", PATIENCE, async || watches() > 0).await;
        let dropped = tokio::time::timeout(ms(300), patient.acquire()).await;
        assert!(dropped.is_err(), "{kind}: it is held");
        guard.release().await.expect("an answer");
        let next = next.await.expect("no panic").expect("it is free");
        wait_until("no watch is left", PATIENCE, async || watches() == 0).await;
        next.release().await.expect("an answer");
    }
    empty(&etcd, PATIENCE).await;
}

/// Many simultaneous calls share one connection.
#[tokio::test]
async fn a_thousand_calls_at_once_are_all_answered() {
    let etcd = Etcd::start();
    let locks = connect(&format!("{}?timeout=15s", etcd.url())).await;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..1_000 {
        let locks = locks.clone();
        calls.spawn(async move { try_once(&locks, &format!("k{number}")).await?.release().await });
    }
    while let Some(released) = calls.join_next().await {
        released.expect("no panic").expect("the key is free");
    }
    empty(&etcd, PATIENCE).await;
}

/// The waiters of one process hand the lock to each other while no other process waits. A task that releases checks
/// every 10 ms whether another process waits.
#[tokio::test]
async fn hand_offs_inside_a_process_write_nothing() {
    const TASKS: u32 = 4;
    const HOLDS: u32 = 10;
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let granted = || etcd.metric("etcd_debugging_lease_granted_total");
    let before = granted();
    take_turns(&locks, LONG, TASKS, HOLDS).join_all().await;
    // Each task may request a lease before it knows of the others.
    let leases = granted() - before;
    assert!(leases <= f64::from(TASKS), "{leases} leases for {} holds", HOLDS * TASKS);
}

/// The process also checks whether its grant still exists. If the grant is lost, hand-offs must stop before the next
/// renewal, so that they do not continue next to another holder.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_whose_grant_is_gone_hands_it_off_no_longer_than_a_quantum() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let (holds, stops) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (locks, holds, stops) = (locks.clone(), Arc::clone(&holds), Arc::clone(&stops));
        tasks.spawn(async move {
            while !stops.load(Ordering::SeqCst) {
                // The task that holds the lost grant is notified, and requests again.
                let Ok(guard) = locks.lock("k").ttl(LONG).wait(LONG).acquire().await else { continue };
                holds.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(ms(1)).await;
                let _ = guard.release().await;
            }
        });
    }
    wait_until("they hold it", PATIENCE, async || holds.load(Ordering::SeqCst) > 100).await;
    let keys = etcd.keys();
    let held = keys.first().expect("an entry");
    let stranger = format!("{}/stranger", held.rsplit_once('/').expect("a path").0);
    etcd.transact(&format!("del {held}\nput {stranger} somebody"));
    // Hand-offs must stop after one quantum, and not at the next renewal, which happens after a third of the ttl.
    tokio::time::sleep(ms(1_000)).await;
    let before = holds.load(Ordering::SeqCst);
    tokio::time::sleep(ms(1_000)).await;
    assert_eq!(holds.load(Ordering::SeqCst), before, "somebody else holds the key");
    stops.store(true, Ordering::SeqCst);
    etcd.ctl(&["del", &stranger]);
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
}
