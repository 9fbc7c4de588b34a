//! Leader election.

use std::time::Duration;

use lock_tests::ZooKeeperServers;

use crate::leaders::survive;
use crate::support::{SESSION, url};

#[tokio::test]
async fn a_leader_that_is_killed_is_followed_within_its_ttl_and_two_seconds() {
    let servers = ZooKeeperServers::start();
    let took = survive(&url(&servers), SESSION, 5, 3).await;
    assert!(took.iter().all(|took| *took < SESSION + Duration::from_secs(2)), "{took:?}");
}
