//! Every key goes to the node that has its slot.

use std::time::Duration;

use lock_core::testkit::names;
use lock_core::{LockErrorKind, LockManager, Release, strategy};
use lock_tests::{PATIENCE, Proxy, RedisCluster, RedisServer, wait_until};

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn locks_are_where_their_slots_are() {
    let cluster = RedisCluster::start();
    let (ours, theirs) = (connect(&cluster).await, connect(&cluster).await);
    let mut guards = Vec::new();
    for number in 0..30 {
        let key = format!("k{number}");
        guards.push(ours.lock(&key).ttl(LONG).acquire().await.expect("free"));
        assert!(theirs.lock(&key).try_acquire().await.expect("an answer").is_none(), "{key}");
        assert!(cluster.nodes[cluster.number_of(&key)].keys().contains(&key), "{key}");
    }
    let used = cluster.nodes[..3].iter().filter(|node| !node.keys().is_empty()).count();
    assert_eq!(used, 3, "the keys are on all nodes");
    assert_eq!(ours.locks().await.expect("an answer").locks.len(), 30);
    for guard in guards {
        guard.release().await.expect("an answer");
    }
    assert!(cluster.nodes.iter().all(|node| node.keys().is_empty()));
}

async fn connect(cluster: &RedisCluster) -> LockManager {
    LockManager::connect(&cluster.url()).await.expect("the cluster takes locks")
}

#[tokio::test]
async fn what_is_no_cluster_is_told_and_so_is_what_is_one() {
    let single = RedisServer::start();
    let url = format!("redis+cluster://127.0.0.1:{}", single.port());
    let error = LockManager::connect(&url).await.expect_err("no cluster");
    assert!(error.to_string().contains("write `redis://` instead of `redis+cluster://`"), "{error}");
    let cluster = RedisCluster::start();
    let error = LockManager::connect(&cluster.nodes[0].url()).await.expect_err("a node");
    assert_eq!(error.kind(), LockErrorKind::Unsupported);
    assert!(error.to_string().contains("write `redis+cluster://` instead"), "{error}");
    let nobody = LockManager::connect("redis+cluster://127.0.0.1:1/?connect_timeout=1s").await;
    let nobody = nobody.expect_err("nobody is there");
    assert!(nobody.is_unavailable() && nobody.is_temporary(), "{nobody}");
    let locks = connect(&cluster).await;
    let error = locks.lock("a}b").try_acquire().await.expect_err("no such key");
    assert_eq!(error.kind(), LockErrorKind::InvalidKey);
    assert!(error.to_string().contains("`{tag}rest`"), "{error}");
    // A replica in the URL knows the other nodes. One reachable node is enough.
    let replica = format!("redis+cluster://127.0.0.1:1,127.0.0.1:{}", cluster.nodes[5].port());
    let locks = LockManager::connect(&replica).await.expect("the others are found");
    locks.lock("k").run(async {}).await.expect("free");
}

/// A node with a fraction of a core accepts connections before it answers.
#[tokio::test]
async fn a_node_that_greets_late_is_waited_for() {
    let cluster = RedisCluster::start();
    let proxy = Proxy::before(&cluster.nodes[0]);
    let url = format!("redis+cluster://127.0.0.1:{}", proxy.port());
    let connecting = async move { LockManager::connect(&url).await };
    let locks = Proxy::greeting_late(std::slice::from_ref(&proxy), Duration::from_secs(3), connecting).await;
    locks.expect("the node has answered").lock("k").run(async {}).await.expect("free");
}

/// A name may resolve to all nodes, and to some servers that have ended. The port of the URL does not matter here.
#[tokio::test]
async fn every_address_of_a_name_is_tried() {
    let cluster = RedisCluster::start();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = |port: u16| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let silent = silent.local_addr().expect("an address");
    names::lead("nodes.test", &[at(1), silent, at(cluster.nodes[4].port()), at(cluster.nodes[0].port())]);
    let locks = LockManager::connect("redis+cluster://nodes.test").await.expect("one of them knows");
    locks.lock("k").run(async {}).await.expect("free");
}

/// With NAT or in containers, a Cluster may announce addresses that its clients cannot reach.
#[tokio::test]
async fn a_cluster_out_of_reach_is_told() {
    let cluster = RedisCluster::start();
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = nowhere.local_addr().expect("it is bound").port().to_string();
    drop(nowhere);
    for node in &cluster.nodes {
        node.command(&["CONFIG", "SET", "cluster-announce-port", &port]);
    }
    let url = format!("{}/?connect_timeout=3s", cluster.url());
    // The nodes propagate the change to each other with a delay.
    let told = async || match LockManager::connect(&url).await {
        Ok(_) => false,
        Err(error) => {
            assert!(error.is_unavailable() && error.is_temporary(), "{error}");
            let text = error.to_string();
            text.contains("none of the addresses that it announces") && text.contains("cluster-announce-ip")
        }
    };
    wait_until("it is told", PATIENCE, told).await;
}

/// The commands for a key keep their order on the connection to its node. Those for several keys on several nodes do
/// not.
#[tokio::test]
async fn a_process_is_never_refused_by_its_own_release() {
    let cluster = RedisCluster::start();
    // A late answer is no refusal.
    let url = format!("{}/?timeout=10s", cluster.url());
    let locks = LockManager::connect(&url).await.expect("the cluster takes locks");
    for round in 0..300 {
        let request = match round % 3 {
            0 => locks.all(["k0", "k1", "k2", "k3"]),
            _ => locks.lock(format!("k{}", round % 4)),
        };
        let request = request.ttl(LONG).strategy(strategy::fail_fast()).release(Release::Background);
        let outcome = request.run(async {}).await;
        outcome.unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
}
