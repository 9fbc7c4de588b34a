//! The wall clock of a server, which tests can set.

use std::sync::Arc;
use std::time::Duration;

use lock_tests::{Clock, RedisServer};

/// Returns the server's time in seconds since the Unix epoch.
fn time(server: &RedisServer) -> i64 {
    let time: (i64, i64) = server.get(&["TIME"]);
    time.0
}

#[test]
fn a_clock_sets_the_time_of_its_server_and_of_no_other() {
    let clock = Arc::new(Clock::new());
    let (set, right) = (RedisServer::builder().clock(&clock).start(), RedisServer::start());
    let ahead = || time(&set) - time(&right);
    assert!(ahead().abs() <= 1);
    clock.ahead(Duration::from_secs(3_600));
    assert!((ahead() - 3_600).abs() <= 1, "{}", ahead());
    clock.behind(Duration::from_secs(60));
    assert!((ahead() + 60).abs() <= 1, "{}", ahead());
}

/// Redis expires keys by the same clock.
#[test]
fn a_clock_that_is_set_ends_leases() {
    let clock = Arc::new(Clock::new());
    let server = RedisServer::builder().clock(&clock).start();
    server.command(&["SET", "k", "v", "PX", "30000"]);
    clock.ahead(Duration::from_secs(31));
    assert!(server.keys().is_empty());
}
