//! The contract suite, on the server directly and through a pooler.

use std::sync::Arc;

use lock_core::backend::postgres::Postgres;
use lock_core::testkit::contract::{self, Subject};
use lock_tests::PostgresServer;

use crate::support::ms;

/// The cases that do not apply: the store notifies queued waiters, and refuses no claim.
const NOT_APPLICABLE: &[&str] = &[
    "cancel::a_wait",
    "permits::",
    "release::a_waiter_is_told",
    "refusal::more_than_it_can",
    "refusal::a_token_that_it_cannot_give",
    "refusal::a_sign_of_life_that_it_does_not_need",
    "refusal::a_downgrade_that_it_cannot_do",
    "refusal::a_latch_that_it_does_not_have",
    "session::",
];

/// Returns a subject for the suite. A call may take half of its lease, and a commit on a busy machine takes up to a
/// tenth of a second.
pub(crate) fn subject(postgres: &Arc<Postgres>) -> Subject {
    Subject::from_dyn(postgres.clone()).with_short_lease(ms(1_500))
}

/// Runs the suite. The cases in `more` do not apply either.
pub(crate) async fn keeps_the_contract(url: &str, more: &[&str]) {
    keeps_it(Postgres::connect(url).await.expect("the server takes locks"), more).await;
}

/// Runs the suite on a store. Otherwise like [`keeps_the_contract`].
pub(crate) async fn keeps_it(postgres: Postgres, more: &[&str]) {
    let postgres = Arc::new(postgres);
    let report = contract::run(|| std::future::ready(subject(&postgres))).await;
    report.assert_complete(&[NOT_APPLICABLE, more].concat());
}

#[tokio::test]
async fn postgres_keeps_the_contract() {
    let server = PostgresServer::start();
    keeps_the_contract(&server.url(), &[]).await;
}
