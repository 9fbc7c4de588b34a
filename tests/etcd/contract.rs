//! The contract suite, on one member and on a cluster of three.

use std::sync::Arc;

use lock_core::backend::etcd::Etcd as Store;
use lock_core::testkit::contract::{self, Subject};
use lock_tests::Etcd;

/// The cases that do not apply to etcd: waiters watch, holders are not notified of waiters, and there are no latches.
const NOT_APPLICABLE: &[&str] = &[
    "listener::",
    "latch::",
    "permits::",
    "refusal::more_than_it_can",
    "refusal::a_token_that_it_cannot_give",
    "refusal::a_downgrade_that_it_cannot_do",
    "fifo::without_a_place_there_is_nothing_to_keep",
    "session::",
];

async fn keeps_the_contract(etcd: &Etcd) {
    let store = Arc::new(
        Store::connect(&format!("{}?timeout=5s", etcd.url())).await.expect("the cluster takes locks"),
    );
    let run = async || {
        let subject = || std::future::ready(Subject::from_dyn(store.clone()));
        contract::run(subject).await
    };
    let elections = || etcd.metric("etcd_server_leader_changes_seen_total");
    let before = elections();
    let mut report = run().await;
    // No case expects an election, which a busy machine sometimes causes.
    if !report.failures.is_empty() && elections() > before {
        report = run().await;
    }
    report.assert_complete(NOT_APPLICABLE);
}

#[tokio::test]
async fn etcd_keeps_the_contract() {
    let etcd = Etcd::start();
    keeps_the_contract(&etcd).await;
}

#[tokio::test]
async fn a_cluster_of_three_keeps_the_contract() {
    let etcd = Etcd::builder().members(3).start();
    keeps_the_contract(&etcd).await;
}
