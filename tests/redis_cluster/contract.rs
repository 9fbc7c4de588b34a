//! The contract suite on a Cluster.

use std::sync::Arc;

use lock_core::backend::redis::cluster::Cluster;
use lock_core::testkit::contract::{self, Subject};
use lock_tests::RedisCluster;

#[tokio::test]
async fn a_cluster_keeps_the_contract() {
    let nodes = RedisCluster::start();
    let cluster = Arc::new(Cluster::connect(&nodes.url()).await.expect("the cluster takes locks"));
    let report = contract::run(|| std::future::ready(Subject::from_dyn(cluster.clone()))).await;
    assert!(report.ran.len() >= 36, "{report}");
    assert!(report.failures.is_empty(), "{report}");
}
