//! Leader election, and workers that are started again.

use std::time::Duration;

use lock_tests::PostgresServer;

use crate::leaders::named::{take_over, take_over_a_place};
use crate::leaders::survive;
use crate::support::ms;

#[tokio::test]
async fn a_leader_that_is_killed_is_followed_after_its_ttl() {
    let server = PostgresServer::start();
    let took = survive(&server.url(), ms(3_000), 5, 3).await;
    // The least, because a busy machine adds to most of them.
    assert!(took.iter().any(|took| *took < ms(3_000) + Duration::from_secs(1)), "{took:?}");
}

#[tokio::test]
async fn a_worker_of_the_same_name_is_waited_for_until_it_is_dead() {
    let server = PostgresServer::start();
    take_over(&server.url()).await;
}

#[tokio::test]
async fn a_place_in_the_queue_outlives_its_worker_and_costs_little() {
    let server = PostgresServer::start();
    take_over_a_place(&server.url()).await;
}
