//! A store that is away from the grant on, for longer than the short lease of a grant from the queue.

use lock_tests::{Flow, Proxy, RedisServer};

use crate::ctl::{Ctl, until};
use crate::log::Log;

/// A grant from the queue lasts at most 2 s until its first renewal. If it ends before that, no command has started, so
/// the lock is requested again.
fn requested_again(command: &str) {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let near = Ctl(server.url());
    let far = Ctl(format!("{}?connect_timeout=60s", proxy.url()));
    let log = Log::new();
    let first = near.start(&[command, "k", "--ttl", "1m", "--", "sh", "-c", &log.waits()]);
    near.until_held("k", 1);
    let says = log.says("ran");
    let second = far.start(&[command, "k", "--ttl", "1m", "--", "sh", "-c", &says]);
    near.until_waited_for("k", 1);
    proxy.requests(Flow::Hold);
    log.go();
    assert_eq!(first.end().code, 0);
    // The queue has granted the key to the second program, which cannot renew it.
    until("the grant is over", || !server.keys().contains(&"k".to_owned()));
    assert_eq!(log.lines(), [""; 0], "no command starts under a short lease");
    proxy.heal();
    let said = second.end();
    assert_eq!((said.code, log.lines()), (0, vec!["ran".to_owned()]), "{said:?}");
}

#[test]
fn a_grant_that_ends_before_its_renewal_is_requested_again() {
    requested_again("run");
}

#[test]
fn a_term_that_ends_before_its_renewal_is_requested_again() {
    requested_again("leader");
}
