//! A server that is late but alive.

use std::time::Duration;

use lock_tests::{Bound, PATIENCE, Proxy, RedisServer};

use crate::support::{connect, cycle, ms};

/// A server whose answers are all late keeps its connections. If a connection were closed, the result of every call on
/// it would be unknown.
#[tokio::test]
async fn a_server_that_is_slow_is_not_left() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let locks = connect(&format!("{}?timeout=60s", proxy.url())).await;
    cycle(&locks, "k").await;
    proxy.delay(ms(300));
    let (before, since) = (proxy.traffic().opened, Bound::new(PATIENCE));
    while since.elapsed() < Duration::from_secs(6) {
        cycle(&locks, "k").await;
    }
    assert_eq!(proxy.traffic().opened, before, "connections");
}
