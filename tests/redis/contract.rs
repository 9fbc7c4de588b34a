//! The contract suite, on the server directly and through a network.

use std::sync::Arc;

use lock_core::backend::redis::Redis;
use lock_core::testkit::contract::{self, Subject};
use lock_tests::{Proxy, RedisServer};

use crate::support::ms;

/// The cases that do not apply: the store notifies queued waiters, and refuses no claim.
pub(crate) const NOT_APPLICABLE: &[&str] = &[
    "cancel::a_wait",
    "release::a_waiter_is_told",
    "refusal::more_than_it_can",
    "refusal::a_token_that_it_cannot_give",
    "refusal::a_sign_of_life_that_it_does_not_need",
    "refusal::a_downgrade_that_it_cannot_do",
    "refusal::a_latch_that_it_does_not_have",
    "session::",
];

async fn keeps_the_contract(url: &str) {
    // A busy machine answers late, which is no fault of the store.
    let url = format!("{url}?timeout=5s");
    let redis = Arc::new(Redis::connect(&url).await.expect("the server takes locks"));
    let report =
        contract::run(|| std::future::ready(Subject::from_dyn(redis.clone()).with_short_lease(ms(500))))
            .await;
    report.assert_complete(NOT_APPLICABLE);
}

#[tokio::test]
async fn redis_keeps_the_contract() {
    let server = RedisServer::start();
    keeps_the_contract(&server.url()).await;
}

#[tokio::test]
async fn redis_keeps_the_contract_behind_a_slow_network() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    proxy.delay(ms(1));
    keeps_the_contract(&proxy.url()).await;
}
