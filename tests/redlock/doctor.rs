//! The findings of `doctor` on a majority, about each voter and about resources that the voters must not share.

use std::sync::Arc;
use std::time::Duration;

use lock_core::LockErrorKind;
use lock_core::Severity::{Danger, Note, Warning};
use lock_tests::{Clock, PATIENCE, RedisServer, Replica, wait_until};

use crate::findings::{found_as, gone, rules};
use crate::support::{MAX_TTL, new_cluster};
use crate::url::{connect, url};

#[tokio::test]
async fn each_voter_is_looked_at_and_what_they_share() {
    let clock = Arc::new(Clock::new());
    let mut servers: Vec<RedisServer> = (0..2).map(|_| RedisServer::start()).collect();
    servers.push(RedisServer::builder().clock(&clock).start());
    new_cluster(&servers.iter().collect::<Vec<_>>(), MAX_TTL).await;
    let locks = connect(&url(&servers, "", "?max_ttl=3s")).await;
    // All voters of the test run on this machine. The quarantine covers the data that a voter loses in a restart.
    assert_eq!(rules(&locks).await, [("redis.persistence", Note), ("redlock.one_machine", Warning)]);
    let names: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let finding = found_as(&locks, "redlock.one_machine", Warning).await;
    assert_eq!(finding.about, names.join(", "), "{finding}");

    // A voter with such a policy is refused only while a client connects.
    for (name, value) in [("maxmemory-policy", "allkeys-lru"), ("maxmemory", "1gb")] {
        servers[0].command(&["CONFIG", "SET", name, value]);
    }
    let finding = found_as(&locks, "redis.eviction", Danger).await;
    assert_eq!(finding.about, names[0], "{finding}");
    servers[0].command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    gone(&locks, "redis.eviction").await;

    let replica = Replica::of(&servers[1]);
    let finding = found_as(&locks, "redlock.replicas", Warning).await;
    assert_eq!(finding.about, names[1], "{finding}");
    drop(replica);
    gone(&locks, "redlock.replicas").await;

    clock.ahead(Duration::from_secs(31));
    let finding = found_as(&locks, "redlock.clock", Warning).await;
    assert_eq!(finding.about, names[2], "{finding}");
    gone(&locks, "redis.clock").await;
    clock.ahead(Duration::ZERO);
    gone(&locks, "redlock.clock").await;

    servers[0].stop();
    let finding = found_as(&locks, "redlock.node", Danger).await;
    assert!(finding.about == names[0] && finding.found.contains("2 of 3 do"), "{finding}");
    servers[0].cont();
    gone(&locks, "redlock.node").await;

    servers.iter_mut().for_each(RedisServer::kill9);
    wait_until("nobody answers", PATIENCE, async || {
        locks.doctor().await.is_err_and(|error| error.kind() == LockErrorKind::NoQuorum)
    })
    .await;
}
