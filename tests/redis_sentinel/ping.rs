//! Pings of the primary that sentinels name.

use lock_tests::Sentinels;

use super::connect;
use crate::pings::{refuses, serves};

#[tokio::test]
async fn a_primary_that_dies_refuses_and_the_next_one_serves() {
    let mut sentinels = Sentinels::start();
    let locks = connect(&sentinels).await;
    assert_eq!(serves(&locks).await.servers, 1);
    sentinels.primary.kill9();
    refuses(&locks, "mymaster").await;
    // The test requests no lock, so only the ping follows the failover.
    serves(&locks).await;
}
