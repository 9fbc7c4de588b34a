//! Leader election.

use std::time::Duration;

use lock_tests::Etcd;

use crate::leaders::survive;
use crate::support::SHORTEST;

#[tokio::test]
async fn a_leader_that_is_killed_is_followed_after_its_ttl() {
    let etcd = Etcd::start();
    let took = survive(&etcd.url(), SHORTEST, 5, 3).await;
    // etcd ends leases by the second: a lease may live one longer. The least, because a busy machine adds to most of them.
    assert!(took.iter().any(|took| *took < SHORTEST + Duration::from_secs(3)), "{took:?}");
}
