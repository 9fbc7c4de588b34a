//! Pings of ZooKeeper servers.

use lock_tests::ZooKeeperServers;

use crate::pings::{refuses, serves};
use crate::support::{connect, url};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stands_still_or_dies_refuses_and_one_that_is_back_serves() {
    let mut servers = ZooKeeperServers::start();
    let locks = connect(&format!("{}&timeout=1s", url(&servers))).await;
    let address = servers.address(0).to_string();
    let ping = serves(&locks).await;
    assert_eq!((ping.servers, ping.serving, ping.is_degraded()), (1, 1, false), "{ping}");
    servers.stop(0);
    refuses(&locks, &address).await;
    servers.cont(0);
    serves(&locks).await;
    servers.kill9(0);
    refuses(&locks, &address).await;
    servers.restart(0);
    serves(&locks).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_serves_while_most_of_it_is_up() {
    let mut servers = ZooKeeperServers::builder().members(3).start();
    let locks = connect(&format!("{}&timeout=1s", url(&servers))).await;
    serves(&locks).await;
    servers.kill9(0);
    serves(&locks).await;
    servers.kill9(1);
    refuses(&locks, &servers.address(2).to_string()).await;
    servers.restart(0);
    serves(&locks).await;
}
