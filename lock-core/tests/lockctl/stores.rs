//! The commands on each store.

use lock_tests::{Etcd, PostgresServer, RedisServer, ZooKeeperServers};
use rustix::process::Signal;

use crate::ctl::Ctl;

/// Lets each command meet the store once.
fn works(url: String) {
    let ctl = Ctl(url);
    let held = ctl.start(&["hold", "job", "--label", "night"]);
    ctl.until_held("job", 1);
    assert_eq!(ctl.run(&["run", "job", "-n", "--", "true"]).code, 75);
    let said = ctl.run(&["list"]);
    assert!(said.out.contains("night"), "{said:?}");
    let waits = ctl.start(&["run", "job", "--", "sh", "-c", "exit 6"]);
    ctl.until_waited_for("job", 1);
    assert_eq!(ctl.run(&["force-release", "job", "--reason", "stuck", "--yes"]).code, 0);
    let said = held.end();
    assert_eq!(said.code, 76, "{said:?}");
    let said = waits.end();
    assert_eq!(said.code, 6, "{said:?}");
    let said = ctl.run(&["wait", "job"]);
    assert_eq!(said.code, 0, "{said:?}");

    let leads = ctl.start(&[
        "leader",
        "boss",
        "--label",
        "one",
        "--",
        "sh",
        "-c",
        "trap 'exit 8' TERM; while :; do sleep 0.05; done",
    ]);
    crate::ctl::until("it leads", || ctl.run(&["leader", "boss"]).out.contains("one"));
    leads.signal(Signal::TERM);
    let said = leads.end();
    // 143 if the shell had not come to its trap yet.
    assert!([8, 143].contains(&said.code), "{said:?}");
    assert_eq!(ctl.run(&["leader", "boss"]).code, 1);
}

#[test]
fn redis() {
    let server = RedisServer::start();
    works(server.url());
}

#[test]
fn postgres() {
    let server = PostgresServer::start();
    // Without `migrate=true`.
    let url = server.url().split('?').next().expect("a URL").to_owned();
    let ctl = Ctl(url.clone());
    assert_eq!(ctl.run(&["list"]).code, 77, "no tables yet");
    let said = ctl.run(&["migrate"]);
    assert_eq!(said.code, 0, "{said:?}");
    works(url);
}

#[test]
fn etcd() {
    let server = Etcd::start();
    works(server.url());
}

#[test]
fn zookeeper() {
    let servers = ZooKeeperServers::start();
    works(servers.url("locks"));
}
