//! Leader election on etcd, while leaders are killed.

use std::time::Duration;

use lock_tests::Etcd;

use crate::leaders::survive;
use crate::support::SHORTEST;

#[tokio::test]
async fn a_leader_that_is_killed_is_followed_after_its_ttl() {
    let etcd = Etcd::start();
    let took = survive(&etcd.url(), SHORTEST, 5, 3).await;
    // etcd ends leases once a second, so a lease may last one second longer. The test checks the shortest time, because
    // a busy machine delays most of them.
    assert!(took.iter().any(|took| *took < SHORTEST + Duration::from_secs(3)), "{took:?}");
}
