//! The contract suite on a Cluster.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::redis::Redis;
use lock_core::testkit::contract::{self, Subject};
use lock_tests::RedisCluster;

#[tokio::test]
async fn a_cluster_keeps_the_contract() {
    let nodes = RedisCluster::start();
    // A busy machine answers late, which is no fault of the store.
    let url = format!("{}/?timeout=5s", nodes.url());
    let cluster = Arc::new(Redis::connect(&url).await.expect("the cluster takes locks"));
    let subject = || Subject::from_dyn(cluster.clone()).with_short_lease(Duration::from_millis(500));
    let report = contract::run(|| std::future::ready(subject())).await;
    // These cases do not apply, because the store notifies queued waiters and refuses no claim.
    report.assert_complete(&[
        "cancel::a_wait",
        "release::a_waiter_is_told",
        "refusal::more_than_it_can",
        "refusal::a_token_that_it_cannot_give",
        "refusal::a_sign_of_life_that_it_does_not_need",
        "refusal::a_downgrade_that_it_cannot_do",
        "refusal::a_latch_that_it_does_not_have",
        "session::",
    ]);
}
