//! The contract suite, next to the server and with a network in between.

use std::sync::Arc;

use lock_core::backend::redis::Redis;
use lock_core::testkit::contract::{self, Report, Subject};
use lock_tests::{Proxy, RedisServer};

use crate::support::ms;

/// Runs the suite. A case that silently no longer applies would make it worth less every time, so they are counted.
async fn run(url: &str) -> Report {
    let redis = Arc::new(Redis::connect(url).await.expect("the server takes locks"));
    let report = contract::run(|| std::future::ready(Subject::from_dyn(redis.clone()))).await;
    assert!(report.ran.len() >= 36, "{report}");
    let applies = |topic: &str| report.ran.iter().filter(|case| case.starts_with(topic)).count();
    for topic in [
        "exclusive",
        "release",
        "expiry",
        "renewal",
        "fencing",
        "refusal",
        "cancel",
        "shared",
        "permit",
        "fifo",
        "several",
        "downgrade",
        "latch",
    ] {
        assert!(applies(topic) > 0, "no case of {topic} ran");
    }
    report
}

#[tokio::test]
async fn redis_keeps_the_contract() {
    let server = RedisServer::start();
    let report = run(&server.url()).await;
    assert!(report.failures.is_empty(), "{report}");
}

#[tokio::test]
async fn redis_keeps_the_contract_behind_a_slow_network() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    proxy.delay(ms(1));
    let report = run(&proxy.url()).await;
    assert!(report.failures.is_empty(), "{report}");
}
