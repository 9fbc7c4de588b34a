//! How soon the library follows a failover, measured from the promotion of the replica.

use std::time::Duration;

use lock_tests::{PATIENCE, RedisCluster, monotonic, soon_in_one_of_ten};

use crate::support::{connect, key_on, locked, soon_dead};

/// A time short enough to notice a request, a look-up or a retry that is a second or more late.
const SOON: Duration = Duration::from_secs(1);

/// Kills a primary. Returns the times from the promotion until a lock was granted, to a waiting task and to a new task.
#[allow(clippy::print_stdout, reason = "the figures are wanted as well as the verdict")]
async fn after_a_promotion() -> [Duration; 2] {
    let mut cluster = RedisCluster::start_with(soon_dead);
    let (waits, idle) = (connect(&cluster).await, connect(&cluster).await);
    let (key, other) = (key_on(&cluster, 1, "k"), key_on(&cluster, 1, "other"));
    for locks in [&waits, &idle] {
        locks.lock(&key).run(async {}).await.expect("free");
    }
    let promoted = cluster.promoted(1);
    cluster.nodes[1].kill9();
    let killed = monotonic();
    // One task sends its request during the failover, the other after it.
    let waiting = tokio::spawn(async move {
        let guard = locked(&waits, &key).await;
        (monotonic(), guard)
    });
    let named = tokio::task::spawn_blocking(move || promoted.recv_timeout(PATIENCE)).await;
    let named = named.expect("no panic").expect("the replica is promoted");
    let late = locked(&idle, &other).await;
    let second = monotonic();
    let (first, guard) = waiting.await.expect("no panic");
    let [first, second] = [first, second].map(|granted| granted.saturating_sub(named));
    println!(
        "cluster: promotion {:?} after the kill; a lock {first:?} after that for one who waits, {second:?} for one who \
         comes",
        named - killed
    );
    for guard in [guard, late] {
        // `failover.rs` tests the release after a failover.
        let _ = guard.release().await;
    }
    [first, second]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_granted_within_a_second_of_the_promotion() {
    soon_in_one_of_ten(SOON, after_a_promotion).await;
}
