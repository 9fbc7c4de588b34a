//! The cost of a process's death for the other processes.

use std::time::Duration;

use lock_core::{LockErrorKind, LockManager, LockRequest, strategy};
use lock_tests::{PATIENCE, RedisServer, Worker, monotonic, soon_in_one_of_ten, wait_until};

use crate::WORKER;

/// The time that a busy machine may add to the minimum of many measurements. It is shorter than one more heartbeat.
const SLACK: Duration = Duration::from_millis(500);
/// A ttl that is so long that it has no effect on a bound of 2 s.
const LONG: Duration = Duration::from_secs(60);

fn request(locks: &LockManager, kind: &str, ttl: Duration) -> LockRequest {
    let request = if kind == "fair" { locks.fair("k") } else { locks.lock("k") };
    request.ttl(ttl).strategy(strategy::wait())
}

/// Starts a process that waits for `k` and then holds it.
fn waiter(server: &RedisServer, kind: &str, ttl: Duration) -> Worker {
    let ttl = ttl.as_millis().to_string();
    let arguments = ["hold", "--url", &server.url(), "--key", "k", "--ttl", &ttl, "--effect", "/dev/null"];
    Worker::start(WORKER, &[&arguments[..], &["--kind", kind, "--wait"]].concat())
}

async fn waiting(server: &RedisServer, count: u64) {
    wait_until("they wait", PATIENCE, async || server.get::<u64>(&["ZCARD", "{k}:q"]) == count).await;
}

/// One process holds the lock, a dead process is next in the queue, and another process waits after it. Returns how
/// long the last one waits after the release.
async fn after_a_dead_waiter(kind: &str, ttl: Duration) -> Duration {
    let server = RedisServer::start();
    let (holder, last) = (connect(&server).await, connect(&server).await);
    let guard = request(&holder, kind, LONG).acquire().await.expect("the key is free");
    let mut dead = waiter(&server, kind, ttl);
    waiting(&server, 1).await;
    let behind = tokio::spawn(request(&last, kind, LONG).acquire());
    waiting(&server, 2).await;
    dead.process().kill9();
    let released = monotonic();
    guard.release().await.expect("an answer");
    behind.await.expect("no panic").expect("it gets the key").release().await.expect("an answer");
    monotonic() - released
}

/// Returns the minimum of three simultaneous measurements, so that other processes on the machine do not affect the
/// result.
async fn least<F: Future<Output = Duration>>(measure: impl Fn() -> F) -> Duration {
    let (one, two, three) = tokio::join!(measure(), measure(), measure());
    one.min(two).min(three)
}

async fn connect(server: &RedisServer) -> LockManager {
    LockManager::connect(&server.url()).await.expect("the server takes locks")
}

#[tokio::test]
async fn a_waiter_that_dies_costs_those_behind_it_two_seconds_at_most() {
    for kind in ["lock", "fair"] {
        let limit = Duration::from_secs(2) + SLACK;
        soon_in_one_of_ten(limit, async || [least(|| after_a_dead_waiter(kind, LONG)).await]).await;
    }
}

#[tokio::test]
async fn a_waiter_that_dies_costs_those_behind_it_its_ttl_at_most() {
    for kind in ["lock", "fair"] {
        let ttl = Duration::from_millis(600);
        soon_in_one_of_ten(ttl + SLACK, async || [least(|| after_a_dead_waiter(kind, ttl)).await]).await;
    }
}

/// One process holds and dies, and another waits. Returns how long the other waits after the death.
async fn after_a_dead_holder(kind: &str, ttl: Duration) -> Duration {
    let server = RedisServer::start();
    let mut holder = waiter(&server, kind, ttl);
    holder.expect("HELD").await;
    let locks = connect(&server).await;
    let next = tokio::spawn(request(&locks, kind, LONG).acquire());
    waiting(&server, 1).await;
    holder.process().kill9();
    let died = monotonic();
    next.await.expect("no panic").expect("it gets the key").release().await.expect("an answer");
    let took = monotonic() - died;
    // The lease was renewed until the death, so it had not expired by accident.
    assert!(took > ttl / 3, "{kind}: {took:?}");
    took
}

/// A process lets its lock linger and dies. Returns how long the key stays locked afterwards.
async fn after_a_dead_one_that_let_it_linger(ttl: Duration) -> Duration {
    let server = RedisServer::start();
    let arguments = ["linger", "--url", &server.url(), "--key", "k", "--ttl", &ttl.as_millis().to_string()];
    let mut worker = Worker::start(WORKER, &arguments);
    worker.expect("HELD").await;
    // The pause is long enough for a renewal, because a lock is kept for as long as it is used.
    tokio::time::sleep(ttl).await;
    let locks = connect(&server).await;
    worker.process().kill9();
    let died = monotonic();
    request(&locks, "lock", LONG)
        .acquire()
        .await
        .expect("it gets the key")
        .release()
        .await
        .expect("an answer");
    monotonic() - died
}

#[tokio::test]
async fn one_that_dies_while_its_lock_lingers_costs_its_ttl_at_most() {
    let ttl = Duration::from_millis(1_500);
    let measure = async || {
        let took = least(|| after_a_dead_one_that_let_it_linger(ttl)).await;
        assert!(took > ttl / 3, "{took:?}");
        [took]
    };
    soon_in_one_of_ten(ttl + SLACK, measure).await;
}

#[tokio::test]
async fn a_holder_that_dies_costs_those_who_wait_its_ttl_at_most() {
    let ttl = Duration::from_millis(1_500);
    for kind in ["lock", "fair"] {
        soon_in_one_of_ten(ttl + SLACK, async || [least(|| after_a_dead_holder(kind, ttl)).await]).await;
    }
}

/// Dead waiters exclude no other client and are not reported, long before the holder releases.
#[tokio::test]
async fn waiters_that_died_count_no_more_once_their_places_are_over() {
    for kind in ["lock", "fair"] {
        let server = RedisServer::start();
        let (holder, others) = (connect(&server).await, connect(&server).await);
        let _guard = request(&holder, kind, LONG).acquire().await.expect("the key is free");
        let ttl = Duration::from_millis(900);
        let mut dead: Vec<_> = (0..3).map(|_| waiter(&server, kind, ttl)).collect();
        waiting(&server, 3).await;
        for worker in &mut dead {
            worker.process().kill9();
        }
        // The queue entries of the dead waiters expire after their ttl.
        wait_until("they count no more", PATIENCE, async || {
            let listed = others.locks().await.expect("a list").locks.remove(0);
            (listed.waiting, listed.waiters.len()) == (0, 0)
        })
        .await;
        let refused = others.lock("k").strategy(strategy::fail_fast()).acquire().await.expect_err("held");
        assert_eq!(refused.waiters(), Some(0), "{kind}");
        let next = others.fair("k").ttl(LONG).max_waiters(1).strategy(strategy::wait());
        let next = tokio::spawn(next.acquire());
        waiting(&server, 1).await;
        assert!(!next.is_finished(), "{kind}: it waits");
        let refused = others.fair("k").max_waiters(1).acquire().await.expect_err("one waits");
        assert_eq!((refused.kind(), refused.waiters()), (LockErrorKind::Overloaded, Some(1)), "{kind}");
        next.abort();
    }
}

/// Live waiters remove dead ones from the queue, whatever their position is.
#[tokio::test]
async fn a_living_waiter_drops_the_dead_around_it() {
    let server = RedisServer::start();
    let (holder, alive) = (connect(&server).await, connect(&server).await);
    let _guard = request(&holder, "fair", LONG).acquire().await.expect("the key is free");
    let ttl = Duration::from_millis(900);
    let mut dead = Vec::new();
    for before in 0..4 {
        if before == 2 {
            tokio::spawn(request(&alive, "fair", LONG).acquire());
        } else {
            dead.push(waiter(&server, "fair", ttl));
        }
        waiting(&server, before + 1).await;
    }
    for worker in &mut dead {
        worker.process().kill9();
    }
    // This takes the life of a dead entry, and one heartbeat of a live waiter.
    wait_until("the dead are dropped", PATIENCE, async || {
        server.get::<u64>(&["ZCARD", "{k}:q"]) == 1 && server.get::<u64>(&["HLEN", "{k}:w"]) == 1
    })
    .await;
    let listed = holder.locks().await.expect("a list").locks.remove(0);
    assert_eq!(listed.waiting, 1);
}

/// A dead process both holds the key and waits for it, and others are queued. Its queue entry and its grant both end.
#[tokio::test]
async fn the_dead_leave_no_key_without_an_end() {
    let server = RedisServer::start();
    let mut dead: Vec<_> = (0..3).map(|_| waiter(&server, "fair", Duration::from_millis(700))).collect();
    waiting(&server, 2).await;
    for worker in &mut dead {
        worker.process().kill9();
    }
    for key in server.keys() {
        assert!(server.get::<i64>(&["PTTL", &key]) > 0, "{key} has no expiry");
    }
    // The next process cleans up after the dead ones.
    let locks = connect(&server).await;
    let guard = request(&locks, "fair", LONG).acquire().await.expect("the dead are passed over");
    guard.release().await.expect("an answer");
    assert!(server.keys().iter().all(|key| key.ends_with(":f")), "{:?}", server.keys());
}
