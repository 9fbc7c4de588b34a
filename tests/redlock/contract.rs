//! The contract suite, on one voter and on a majority of several.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::DynBackend;
use lock_core::backend::redlock::quorum::Quorum;
use lock_core::backend::redlock::{Voter, VoterOptions};
use lock_core::testkit::contract::{self, Subject};
use lock_tests::RedisServer;

use crate::support::new_cluster;

/// A lease that is longer than every lease of the suite.
const MAX_TTL: Duration = Duration::from_secs(60 * 60);

async fn voters(servers: &[RedisServer]) -> Vec<Voter> {
    new_cluster(&servers.iter().collect::<Vec<_>>(), MAX_TTL).await;
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let options = VoterOptions::new(MAX_TTL);
    Voter::connect_all(urls.iter().map(String::as_str), options).await.expect("all are up")
}

/// The shortest lease here. A quorum waits for a node for a tenth of the lease. With the short default leases of the
/// suite, that would be less than the delay of a server on a busy machine.
const SHORT: Duration = Duration::from_secs(1);

/// The cases that do not apply: a majority has no order, no permits and no list.
const NOT_APPLICABLE: &[&str] = &[
    "permits::",
    "@write",
    "@semaphore",
    "cancel::a_place_in_a_queue",
    "cancel::a_wait",
    "release::a_waiter_is_told",
    "fifo::",
    "session::",
    "line::",
    "latch::",
    "listener::",
    "inspect::",
    "downgrade::serves_readers_that_wait",
    "downgrade::overtakes_no_writer",
    "several::overtakes_nobody",
    "refusal::a_token_that_it_cannot_give",
    "refusal::a_downgrade_that_it_cannot_do",
];

async fn keeps_the_contract(backend: Arc<dyn DynBackend>, not_applicable: &[&str]) {
    let subject = || Subject::from_dyn(backend.clone()).with_short_lease(SHORT);
    let report = contract::run(|| std::future::ready(subject())).await;
    report.assert_complete(not_applicable);
}

async fn quorum_of(count: usize) {
    let servers: Vec<RedisServer> = (0..count).map(|_| RedisServer::start()).collect();
    let quorum = Quorum::new(voters(&servers).await).expect("an odd number");
    keeps_the_contract(
        Arc::new(quorum),
        &[NOT_APPLICABLE, &["permit::", "several::names_the_key_that_is_in_use"]].concat(),
    )
    .await;
}

#[tokio::test]
async fn a_voter_by_itself_keeps_the_contract() {
    let server = [RedisServer::start()];
    keeps_the_contract(Arc::new(voters(&server).await.remove(0)), NOT_APPLICABLE).await;
}

#[tokio::test]
async fn three_voters_keep_the_contract() {
    quorum_of(3).await;
}

#[tokio::test]
async fn five_voters_keep_the_contract() {
    quorum_of(5).await;
}
