//! Pings of a Cluster.

use lock_tests::RedisCluster;

use crate::pings::{refuses, serves, serves_as};
use crate::support::{connect, soon_dead};

#[tokio::test]
async fn most_primaries_must_serve_and_the_others_are_named() {
    let mut cluster = RedisCluster::start();
    let locks = connect(&cluster).await;
    let ping = serves(&locks).await;
    assert_eq!((ping.servers, ping.serving, ping.is_degraded()), (3, 3, false), "{ping}");
    let port = |number: usize| cluster.nodes[number].port().to_string();
    let (first, second) = (port(0), port(1));
    cluster.nodes[0].stop();
    let ping = serves_as(&locks, |ping| ping.serving == 2).await;
    assert!(ping.servers == 3 && ping.degraded.len() == 1 && ping.degraded[0].contains(&first), "{ping}");
    cluster.nodes[0].cont();
    serves_as(&locks, |ping| !ping.is_degraded()).await;
    cluster.nodes[0].kill9();
    cluster.nodes[1].kill9();
    let error = refuses(&locks, &first).await;
    assert!(error.to_string().contains("2 of 3 nodes") && error.to_string().contains(&second), "{error}");
}

/// The test requests no lock, so only the ping follows the failover.
#[tokio::test]
async fn a_node_that_was_replaced_is_no_fault_any_more() {
    let mut cluster = RedisCluster::start_with(soon_dead);
    let locks = connect(&cluster).await;
    serves(&locks).await;
    cluster.nodes[1].kill9();
    serves_as(&locks, |ping| ping.is_degraded()).await;
    serves_as(&locks, |ping| ping.serving == 3 && !ping.is_degraded()).await;
}
