//! A Cluster over TLS.

use lock_core::LockManager;
use lock_tests::{Certificates, RedisCluster};

use crate::support::{LONG, key_on};

#[tokio::test]
async fn every_node_is_reached_over_tls() {
    let certificates = Certificates::new(&["127.0.0.1", "localhost"]);
    let cluster = RedisCluster::start_with(|_, node| {
        let node = node.tls(&certificates, false);
        // Without this setting, the nodes do not announce their TLS ports to each other.
        node.config("tls-cluster", "yes").config("tls-replication", "yes")
    });
    let url = format!(
        "rediss+cluster://127.0.0.1:{}/?ca={}",
        cluster.nodes[0].tls_port(),
        certificates.file("ca.pem").display()
    );
    let locks = LockManager::connect(&url).await.expect("the cluster takes locks");
    for number in 0..3 {
        let key = key_on(&cluster, number, "k");
        let guard = locks.lock(&key).ttl(LONG).acquire().await.expect("free");
        assert_eq!(cluster.nodes[number].keys(), [key]);
        guard.release().await.expect("an answer");
    }
    let error = LockManager::connect(&url.replace("/?ca=", "/?ca=/none")).await.expect_err("no such file");
    assert!(error.to_string().contains("/none"), "{error}");
}
