//! Renewals while a node hangs.

use std::time::Duration;

use lock_core::LockGuard;
use lock_tests::{Bound, RedisCluster};
use tokio::time::sleep;

use crate::support::{connect, key_on};

const TTL: Duration = Duration::from_millis(1_200);
/// The least time that must be left of a lease. A renewal is due when two thirds of the lease, 0.8 s, are left. If its
/// answer waited for the hanging node, only 0.5 s would be left.
const LEFT: Duration = Duration::from_millis(600);
const TIME: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(10);

/// Returns the shortest remaining time of all leases.
async fn least_left(guards: &[LockGuard]) -> Duration {
    let mut least = TTL;
    let over = Bound::new(TIME);
    while over.elapsed() < TIME {
        sleep(LOOK).await;
        least = guards.iter().map(LockGuard::remaining).min().unwrap_or_default().min(least);
    }
    least
}

#[tokio::test]
async fn a_node_that_hangs_leaves_the_others_their_margin() {
    let cluster = RedisCluster::start();
    for node in &cluster.nodes {
        // The hanging node must not count as dead during the test.
        node.command(&["CONFIG", "SET", "cluster-node-timeout", "60000"]);
    }
    let locks = connect(&cluster).await;
    let take = async |number: usize, name: &str, ttl: Duration| {
        locks.lock(key_on(&cluster, number, name)).ttl(ttl).acquire().await.expect("free")
    };
    let mut left = Vec::new();
    // A busy machine may be late once, but a renewal that waits for the node is always late.
    for go in 0..6 {
        let (mut hung, mut well) = (Vec::new(), Vec::new());
        for at in 0..32 {
            // These locks are renewed together with the others at any time, and are held for the whole test.
            hung.push(take(0, &format!("hung{go}.{at}."), 4 * TTL).await);
            well.push(take(1 + at % 2, &format!("well{go}.{at}."), TTL).await);
        }
        cluster.nodes[0].stop();
        left.push(least_left(&well).await);
        cluster.nodes[0].cont();
        if left[go] >= LEFT {
            return;
        }
    }
    panic!("of leases of {TTL:?} was left at the least: {left:?}");
}
