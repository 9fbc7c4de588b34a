//! Leader election on Postgres, while leaders are killed.

use std::time::Duration;

use lock_tests::PostgresServer;

use crate::leaders::survive;
use crate::support::ms;

#[tokio::test]
async fn a_leader_that_is_killed_is_followed_after_its_ttl() {
    let server = PostgresServer::start();
    let took = survive(&server.url(), ms(3_000), 5, 3).await;
    // The test checks the shortest time, because a busy machine delays most of them.
    assert!(took.iter().any(|took| *took < ms(3_000) + Duration::from_secs(1)), "{took:?}");
}
