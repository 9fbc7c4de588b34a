//! Leader election on ZooKeeper, while leaders are killed.

use std::time::Duration;

use lock_tests::ZooKeeperServers;

use crate::leaders::survive;
use crate::support::{SESSION, url};

#[tokio::test]
async fn a_leader_that_is_killed_is_followed_after_its_ttl() {
    let servers = ZooKeeperServers::start();
    let took = survive(&url(&servers), SESSION, 5, 3).await;
    // The test checks the shortest time, because a busy machine delays most of them.
    assert!(took.iter().any(|took| *took < SESSION + Duration::from_secs(2)), "{took:?}");
}
