//! Grants that linger in one process while other processes want the key.

use std::time::Duration;

use lock_core::{LockManager, LockRequest, strategy};
use lock_tests::{PATIENCE, RedisServer, monotonic, soon_in_one_of_ten};

use crate::support::{LONG, calls, empty, manager, ms, try_once, within};

/// The longest linger. A test would notice such a delay.
const LINGER: Duration = Duration::from_secs(1);
/// A time that is longer than a hand-off, and shorter than [`LINGER`]. A busy machine may take longer, but not every
/// time.
const SOON: Duration = Duration::from_millis(600);

fn lingering(locks: &LockManager, linger: Duration) -> LockRequest {
    locks.lock("k").ttl(LONG).linger(linger).strategy(strategy::wait())
}

async fn cycle(locks: &LockManager, linger: Duration) {
    lingering(locks, linger).acquire().await.expect("it waits").release().await.expect("an answer");
}

/// Returns how many commands of clients the server has run, without those that maintain a connection.
fn commands(server: &RedisServer) -> u64 {
    ["set", "evalsha", "eval", "subscribe"].into_iter().map(|command| calls(server, command)).sum()
}

#[tokio::test]
async fn one_process_over_and_over_costs_a_handful_of_commands() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    cycle(&locks, LINGER).await;
    let (before, started) = (commands(&server), monotonic());
    for _ in 0..5_000 {
        cycle(&locks, LINGER).await;
    }
    let (cost, seconds) = (commands(&server) - before, (monotonic() - started).as_secs());
    // The process sends one request a second to the store, in case a notification was lost.
    assert!(cost <= 4 + 2 * seconds, "{cost} commands in {seconds} s");
    assert!(!server.keys().is_empty(), "it lingers");
    empty(&server, LINGER + PATIENCE).await;
}

#[tokio::test]
async fn who_waits_elsewhere_waits_for_one_hand_off() {
    let server = RedisServer::start();
    let (here, there) = (manager(&server).await, manager(&server).await);
    let measure = async || {
        cycle(&here, LINGER).await;
        let started = monotonic();
        cycle(&there, Duration::ZERO).await;
        let lingers = monotonic() - started;
        // The other process begins to wait while the key is held.
        let guard = lingering(&here, LINGER).acquire().await.expect("the key is free");
        let request = lingering(&there, Duration::ZERO);
        let waiting = tokio::spawn(async move { request.acquire().await });
        tokio::time::sleep(ms(50)).await;
        let released = monotonic();
        guard.release().await.expect("an answer");
        waiting.await.expect("no panic").expect("it waits").release().await.expect("an answer");
        [lingers, monotonic() - released]
    };
    soon_in_one_of_ten(SOON, measure).await;
}

#[tokio::test]
async fn who_uses_it_all_the_time_lets_each_waiter_in() {
    let server = RedisServer::start();
    let (here, there) = (manager(&server).await, manager(&server).await);
    let busy = tokio::spawn(async move {
        loop {
            cycle(&here, LINGER).await;
            tokio::task::yield_now().await;
        }
    });
    let mut times = Vec::new();
    for _ in 0..40 {
        tokio::time::sleep(ms(5)).await;
        let started = monotonic();
        cycle(&there, Duration::ZERO).await;
        times.push(monotonic() - started);
    }
    busy.abort();
    times.sort_unstable();
    // The test uses the lower quartile, because a busy machine delays many of the waits.
    assert!(times[10] < SOON, "{times:?}");
}

#[tokio::test]
async fn who_only_tries_elsewhere_is_refused_for_no_longer_than_the_linger() {
    let server = RedisServer::start();
    let (here, there) = (manager(&server).await, manager(&server).await);
    cycle(&here, LINGER).await;
    let released = monotonic();
    assert!(try_once(&there, "k").await.expect_err("it lingers").is_contended());
    let guard = loop {
        match try_once(&there, "k").await {
            Ok(guard) => break guard,
            Err(error) => assert!(error.is_contended(), "{error}"),
        }
        // The wait is shorter than the lease.
        assert!(monotonic() - released < LINGER + PATIENCE);
        tokio::time::sleep(ms(5)).await;
    };
    let refused = monotonic() - released;
    assert!(refused > LINGER - ms(50), "{refused:?}");
    guard.release().await.expect("an answer");
}

#[tokio::test]
async fn a_waiter_of_which_nobody_is_told_waits_for_the_end_of_the_linger() {
    let server = RedisServer::start();
    let (here, there) = (manager(&server).await, manager(&server).await);
    cycle(&here, LINGER).await;
    server.command(&["ACL", "SETUSER", "default", "-publish"]);
    let started = monotonic();
    // The release serves the waiter, which detects the grant by its next heartbeat.
    within(PATIENCE, "the wait", cycle(&there, Duration::ZERO)).await;
    assert!(monotonic() - started > LINGER - SOON, "nobody was told");
}

#[tokio::test]
async fn a_lost_connection_gives_it_back() {
    let server = RedisServer::start();
    let (here, there) = (manager(&server).await, manager(&server).await);
    let measure = async || {
        cycle(&here, LINGER).await;
        server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        let started = monotonic();
        within(PATIENCE, "the wait", cycle(&there, Duration::ZERO)).await;
        [monotonic() - started]
    };
    soon_in_one_of_ten(SOON, measure).await;
}

#[tokio::test]
async fn a_forced_release_ends_it_and_tokens_grow() {
    let server = RedisServer::start();
    let (here, there) = (manager(&server).await, manager(&server).await);
    let mut last = 0;
    for _ in 0..100 {
        let guard = lingering(&here, LINGER).fencing(true).acquire().await.expect("it waits");
        let token = guard.fencing_token().await.expect("it came with the grant").get();
        assert!(token > last, "{token} after {last}");
        last = token;
        guard.release().await.expect("an answer");
    }
    let id = there.locks().await.expect("an answer").locks[0].holders[0].id.clone();
    assert!(there.force_release("k", &id, "a test").await.expect("an answer"));
    let guard = try_once(&there, "k").await.expect("it is free");
    assert!(guard.fencing_token().await.expect("an answer").get() > last);
    // The notification of the forced release is in flight.
    tokio::time::sleep(ms(100)).await;
    assert!(try_once(&here, "k").await.expect_err("it is held").is_contended());
    guard.release().await.expect("an answer");
}

#[tokio::test]
async fn a_shutdown_leaves_nothing() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    for key in 0..50 {
        let request = locks.lock(format!("k{key}").as_str()).ttl(LONG).linger(LINGER);
        request.run(async {}).await.expect("the key is free");
    }
    assert_eq!(server.keys().len(), 50);
    assert_eq!(locks.shutdown(PATIENCE).await, lock_core::ShutdownReport::default());
    assert!(server.keys().is_empty(), "{:?}", server.keys());
}

#[tokio::test]
async fn a_manager_that_is_dropped_gives_it_back() {
    let server = RedisServer::start();
    for _ in 0..5 {
        let locks = manager(&server).await;
        cycle(&locks, LINGER).await;
        drop(locks);
        empty(&server, PATIENCE).await;
    }
}
