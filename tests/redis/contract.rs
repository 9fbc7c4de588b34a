//! The contract suite, next to the server and with a network in between.

use std::sync::Arc;

use lock_core::backend::redis::Redis;
use lock_core::testkit::contract::{self, Subject};
use lock_tests::{Proxy, RedisServer};

use crate::support::ms;

/// Runs the suite and says how many cases ran.
async fn run(url: &str) {
    let redis = Arc::new(Redis::connect(url).await.expect("the server takes locks"));
    let report = contract::run_all(|| std::future::ready(Subject::from_dyn(redis.clone()))).await;
    // A case that silently no longer applies would make this test worth less every time.
    assert_eq!(report.ran.len(), 36, "{report}");
    let foreign = |case: &&&str| !case.contains("shared") && !case.contains("permit") && !case.contains("fifo");
    let left_out: Vec<_> = report.not_applicable.iter().filter(foreign).collect();
    assert_eq!(left_out, ["x"].iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn redis_keeps_the_contract() {
    let server = RedisServer::start();
    run(&server.url()).await;
}

#[tokio::test]
async fn redis_keeps_the_contract_behind_a_slow_network() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    proxy.delay(ms(2));
    run(&proxy.url()).await;
}
