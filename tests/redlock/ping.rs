//! Pings of a majority of servers.

use lock_core::LockErrorKind;
use lock_tests::RedisServer;

use crate::pings::{refuses, serves, serves_as};
use crate::support::{MAX_TTL, new_cluster};
use crate::url::{connect, url};

#[tokio::test]
async fn a_majority_must_vote_and_the_others_are_named() {
    let mut servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    new_cluster(&servers.iter().collect::<Vec<_>>(), MAX_TTL).await;
    let locks = connect(&url(&servers, "", "?max_ttl=3s")).await;
    let ping = serves(&locks).await;
    assert_eq!((ping.servers, ping.serving, ping.is_degraded()), (3, 3, false), "{ping}");
    let first = servers[0].port().to_string();
    servers[0].stop();
    let ping = serves_as(&locks, |ping| ping.serving == 2).await;
    assert!(ping.servers == 3 && ping.degraded.len() == 1 && ping.degraded[0].contains(&first), "{ping}");
    servers[1].kill9();
    let error = refuses(&locks, &first).await;
    assert_eq!(error.kind(), LockErrorKind::NoQuorum, "{error}");
    assert!(error.to_string().contains("2 of 3 nodes did not answer the ping, 2 are needed"), "{error}");
    servers[0].cont();
    // The second server may have forgotten a lock, and answers without a vote.
    servers[1].restart();
    let ping = serves_as(&locks, |ping| ping.degraded.iter().any(|why| why.contains("quarantine"))).await;
    assert!(ping.serving == 2 && ping.degraded[0].contains(&servers[1].port().to_string()), "{ping}");
    serves_as(&locks, |ping| !ping.is_degraded()).await;
}
