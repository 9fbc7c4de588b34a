//! The contract suite on ZooKeeper.

use std::sync::Arc;

use lock_core::backend::zookeeper::ZooKeeper;
use lock_core::testkit::contract::{self, Subject};
use lock_tests::ZooKeeperServers;

/// The cases that do not apply: leases of the store's own, a queue that grants on its own, features that the store
/// lacks, and refusals of features that it has.
const NOT_APPLICABLE: &[&str] = &[
    "expiry::",
    "release::of_one_who_ran_out",
    "release::of_one_who_ran_out@write",
    "release::of_one_who_ran_out@semaphore",
    "release::after_expiry",
    "release::after_expiry@write",
    "release::after_expiry@semaphore",
    "release::keeps",
    "release::keeps@write",
    "release::keeps@semaphore",
    "release::says_kept",
    "release::says_kept@write",
    "release::says_kept@semaphore",
    "renewal::not_after_expiry",
    "renewal::not_after_expiry@write",
    "renewal::not_after_expiry@semaphore",
    "renewal::promises_what_is_kept",
    "renewal::promises_what_is_kept@write",
    "renewal::promises_what_is_kept@semaphore",
    "fencing::grows_over_expiry",
    "fencing::grows_over_expiry@write",
    "fencing::grows_over_expiry@semaphore",
    "fifo::one_who_dies",
    "fifo::one_who_dies_with_a_short_ttl",
    "fifo::a_holder_that_dies",
    "fifo::without_a_place_there_is_nothing_to_keep",
    "shared::readers_end_one_by_one",
    "downgrade::has_the_lease_of_its_ttl",
    "permit::permits_end_one_by_one",
    "permits::",
    "listener::",
    "several::runs_out_whole",
    "latch::",
    "inspect::what_is_kept_is_listed_as_such",
    "refusal::more_than_it_can",
    "refusal::a_token_that_it_cannot_give",
    "refusal::a_downgrade_that_it_cannot_do",
];

/// The number of cases that apply.
const CASES: usize = 145;

#[tokio::test]
async fn zookeeper_keeps_the_contract() {
    let servers = ZooKeeperServers::start();
    let url = format!("{}?session_timeout=6s", servers.url("locks"));
    let store = Arc::new(ZooKeeper::connect(&url).await.expect("the server takes locks"));
    let operator = store.operator();
    let report = contract::run(|| {
        let ends = operator.clone();
        let subject = Subject::from_dyn(store.clone()).with_session_end(move |process| {
            let ends = ends.clone();
            Box::pin(async move { ends.end_session(process).await.expect("it has a session") })
        });
        std::future::ready(subject)
    })
    .await;
    report.assert_complete(NOT_APPLICABLE);
    assert_eq!(report.ran.len(), CASES);
}
