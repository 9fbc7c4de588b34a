//! Several keys, in one slot and in different slots.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{LockErrorKind, LockManager, strategy};
use lock_tests::{Clock, PATIENCE, RedisCluster, RedisServer, wait_until};

use crate::support::{LONG, connect, key_on};

#[tokio::test]
async fn keys_of_several_slots_are_held_all_or_none() {
    let cluster = RedisCluster::start();
    let (ours, theirs) = (connect(&cluster).await, connect(&cluster).await);
    let keys = [0, 1, 2].map(|number| key_on(&cluster, number, "k"));
    for held in &keys {
        let holder = theirs.lock(held).ttl(LONG).acquire().await.expect("free");
        assert!(ours.all(&keys).try_acquire().await.expect("an answer").is_none(), "{held}");
        for key in keys.iter().filter(|key| *key != held) {
            let free = theirs.lock(key).try_acquire().await.expect("an answer");
            free.expect("given back").release().await.expect("an answer");
        }
        holder.release().await.expect("an answer");
    }
    let all = ours.all(&keys).ttl(LONG).acquire().await.expect("free");
    for key in &keys {
        assert!(theirs.lock(key).try_acquire().await.expect("an answer").is_none(), "{key}");
    }
    all.release().await.expect("an answer");
    assert!(cluster.nodes.iter().all(|node| node.keys().is_empty()));
}

/// This also holds if the clocks of the nodes differ.
#[tokio::test]
async fn one_token_is_larger_than_the_last_of_every_key() {
    let clock = Arc::new(Clock::new());
    clock.ahead(Duration::from_secs(30));
    let cluster =
        RedisCluster::start_with(|number, node| if number == 2 { node.clock(&clock) } else { node });
    let locks = connect(&cluster).await;
    let keys = [2, 0, 1].map(|number| key_on(&cluster, number, "k"));
    let mut last = [None; 3];
    for round in 0..6 {
        for set in [0..3, 0..1, 1..2, 2..3, 1..3, 0..2] {
            let request = locks.all(&keys[set.clone()]).fencing(round % 2 == 0);
            let guard = request.acquire().await.expect("free");
            let token = guard.fencing_token().await.expect("a token");
            assert_eq!(guard.fencing_token().await.expect("a token"), token);
            guard.release().await.expect("an answer");
            for last in &mut last[set] {
                assert!(Some(token) > *last, "{token} after {last:?}");
                *last = Some(token);
            }
        }
    }
}

/// Once all keys are locked, the client requests that the node with the smallest token raises it. The node refuses.
#[tokio::test]
async fn keys_whose_common_token_is_refused_are_free_again() {
    const ALL: &str = "~* &* +@all";
    let clock = Arc::new(Clock::new());
    clock.ahead(Duration::from_secs(30));
    let cluster =
        RedisCluster::start_with(|number, node| if number == 2 { node.clock(&clock) } else { node });
    let [raised, last, ahead, ..] = &cluster.nodes[..] else { panic!("three primaries") };
    let allow = |what: &str| {
        let mut command = vec!["ACL", "SETUSER", "app", "reset", "on", ">s3cret"];
        command.extend(what.split_whitespace());
        cluster.nodes.iter().for_each(|node| drop(node.command(&command)));
    };
    allow(ALL);
    let url = cluster.url().replacen("://", "://app:s3cret@", 1);
    let locks = LockManager::connect(&url).await.expect("the cluster takes locks");
    let keys = [(2, "a"), (0, "b"), (1, "c")].map(|(number, name)| key_on(&cluster, number, name));
    // The keys are locked in the order of their names. The pause of the last node leaves time to change the rights on
    // the first node.
    last.command(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    let request = locks.all(&keys).fencing(true).ttl(LONG).strategy(strategy::fail_fast());
    let taking = tokio::spawn(request.acquire());
    wait_until("two keys are taken", PATIENCE, async || {
        !ahead.keys().is_empty() && !raised.keys().is_empty()
    })
    .await;
    raised.command(&["ACL", "SETUSER", "app", "-evalsha"]);
    last.command(&["CLIENT", "UNPAUSE"]);
    let error = taking.await.expect("no panic").expect_err("no token");
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
    allow(ALL);
    // The token that the server remembers does not count as a lock.
    let held = |node: &RedisServer| node.keys().iter().any(|key| !key.ends_with(":f"));
    wait_until("no key is taken", PATIENCE, async || !cluster.nodes.iter().any(held)).await;
}

/// A hash tag puts the keys into one slot, so one script locks them all.
#[tokio::test]
async fn keys_of_one_slot_are_one_step() {
    let cluster = RedisCluster::start();
    let locks = connect(&cluster).await;
    let keys = ["{order}:1", "{order}:2", "{order}:3"];
    let node = &cluster.nodes[cluster.number_of(keys[0])];
    locks.lock(keys[0]).run(async {}).await.expect("free");
    node.command(&["CONFIG", "RESETSTAT"]);
    locks.all(keys).run(async {}).await.expect("free");
    let calls = node.info("cmdstat_evalsha");
    assert!(calls.starts_with("calls=2,"), "{calls}");
}

/// The sets overlap in any order, over the slots of all nodes. No two claims wait for each other.
#[tokio::test]
async fn sets_that_overlap_are_all_served() {
    let cluster = RedisCluster::start();
    let keys = [0, 1, 2].map(|number| key_on(&cluster, number, "k"));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..9 {
        let (locks, mut keys) = (connect(&cluster).await, keys.clone());
        keys.rotate_left(number % 3);
        tasks.spawn(async move {
            for _ in 0..5 {
                let request = locks.all(&keys[..2]).strategy(strategy::wait());
                request.run(async { tokio::task::yield_now().await }).await.expect("served");
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
}

/// Returns the CPU time of this thread.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux says so");
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("a number"))
}

/// The tables that are computed once are computed at the connect. In the first release, the computation would delay all
/// other tasks of the runtime, and on a busy machine the release would miss its deadline.
#[tokio::test]
async fn no_step_keeps_its_runtime_busy_for_long() {
    let cluster = RedisCluster::start();
    let locks = [connect(&cluster).await, connect(&cluster).await];
    let keys = [0, 1, 2].map(|number| key_on(&cluster, number, "k"));
    let ticks = tokio::spawn(async {
        let (mut last, mut longest) = (cpu(), Duration::ZERO);
        for _ in 0..500 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let now = cpu();
            (last, longest) = (now, longest.max(now - last));
        }
        longest
    });
    let contenders = locks.map(|locks| {
        let keys = keys.clone();
        tokio::spawn(async move {
            for _ in 0..5 {
                let guard = locks.all(&keys).strategy(strategy::wait()).acquire().await.expect("served");
                // On a busy machine a release may be late.
                let _ = guard.release().await;
            }
        })
    });
    for contender in contenders {
        contender.await.expect("no panic");
    }
    let longest = ticks.await.expect("no panic");
    assert!(longest < Duration::from_millis(25), "{longest:?} without another task");
}
