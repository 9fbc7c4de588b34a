//! Tests the exit codes of commands, the kinds of locks, and what remains in the store.

use lock_tests::RedisServer;
use rustix::process::Signal;

use crate::ctl::Ctl;

/// The token of a lock that never existed.
const NONE: &str = "0123456789abcdef0123456789abcdef0123456789abcdef";

pub(crate) fn redis() -> (RedisServer, Ctl) {
    let server = RedisServer::start();
    let ctl = Ctl(server.url());
    (server, ctl)
}

#[test]
fn each_end_has_its_exit_code() {
    let (_server, ctl) = redis();
    let held = ctl.start(&["hold", "held"]);
    ctl.until_held("held", 1);
    let cases: &[(&str, &[&str], i32, &str)] = &[
        ("held, a reader", &["run", "held", "-n", "--shared", "--", "true"], 75, "key `held`"),
        ("held, wait", &["wait", "held", "--wait", "50ms"], 75, "was not free in time"),
        ("free, wait", &["wait", "free"], 0, ""),
        ("a wait of ages", &["wait", "free", "--wait", "500000000000years"], 0, ""),
        ("free, show", &["show", "free"], 1, ""),
        ("free, force-release", &["force-release", "free", "--reason", "x", "--yes"], 1, "is free"),
        (
            "an unknown id",
            &["force-release", "held", "--id", "12", "--reason", "x", "--yes"],
            64,
            "40 lower-case",
        ),
        ("no terminal to ask on", &["force-release", "held", "--reason", "x"], 64, "--yes"),
        ("no leader", &["leader", "name"], 1, ""),
        ("a command of a leader", &["leader", "name", "--", "sh", "-c", "exit 5"], 5, ""),
        ("a time without a unit", &["run", "a", "--ttl", "5", "--", "true"], 64, "500ms, 30s or 5m"),
        ("two kinds", &["run", "a", "--shared", "--fair", "--", "true"], 64, "cannot be used with"),
        ("no permits", &["run", "a", "--permits", "0", "--", "true"], 64, "--permits"),
        ("no command", &["run", "a"], 64, "COMMAND"),
        ("no subcommand", &[], 64, "Usage"),
        (
            "a store of nowhere",
            &["--url", "redis://127.0.0.1:1/?connect_timeout=100ms", "list"],
            77,
            "127.0.0.1:1",
        ),
        ("an unknown store", &["--url", "foo://x", "list"], 64, "foo"),
        ("an empty URL", &["--url", "", "list"], 64, "set and empty"),
        ("a store in the process", &["--url", "memory://", "run", "a", "--", "true"], 0, "excludes no other"),
        ("help", &["--help"], 0, ""),
        ("a ping", &["ping"], 0, ""),
        ("no token", &["release", "a"], 64, "--token"),
        ("a token of nothing", &["release", "a", "--token", "x"], 64, "48 lower-case"),
        ("a token that is no more", &["release", "a", "--token", NONE], 1, "had ended before"),
        ("a renewal that is too late", &["renew", "a", "--ttl", "9s", "--token", NONE], 76, "it has ended"),
        ("a token for the lock of another", &["release", "held", "--token", NONE], 1, "had ended before"),
        ("held, for a script", &["acquire", "held", "--ttl", "9s", "-n"], 75, "key `held`"),
        ("a release", &["force-release", "held", "--reason", "x", "--yes"], 0, ""),
    ];
    for (name, arguments, code, told) in cases {
        let said = ctl.run(arguments);
        assert_eq!(said.code, *code, "{name}: {said:?}");
        assert!(said.err.contains(told), "{name}: {said:?}");
    }
    let said = held.end();
    assert_eq!(said.code, 76, "released by force: {said:?}");
}

/// A holder that has ended, and a holder that uses another library, cannot be notified of a forced release.
#[test]
fn a_forced_release_says_whether_the_holder_is_told() {
    let (server, ctl) = redis();
    let release = |key: &str| ctl.run(&["force-release", key, "--reason", "x", "--yes"]).out;
    assert_eq!(ctl.run(&["run", "kept", "--min-hold", "1m", "--", "true"]).code, 0);
    assert_eq!(
        release("kept"),
        "released `kept`; no holder is left to tell: it was only kept locked by `min_hold`\n"
    );
    server.command(&["SET", "foreign", "by another library", "PX", "60000"]);
    assert_eq!(release("foreign"), "released `foreign`; its holder is not told: it uses another library\n");
    assert_eq!(ctl.run(&["acquire", "left", "--ttl", "1m"]).code, 0);
    assert_eq!(release("left"), "released `left`; its holder is told if it still runs\n");
}

#[test]
fn permits_and_readers_share() {
    let (_server, ctl) = redis();
    let permits = [(); 2].map(|()| ctl.start(&["hold", "s", "--permits", "3"]));
    ctl.until_held("s", 2);
    assert_eq!(ctl.run(&["available", "s", "--permits", "3"]).out, "1\n");
    let readers = [(); 2].map(|()| ctl.start(&["hold", "r", "--shared"]));
    ctl.until_held("r", 2);
    assert_eq!(ctl.run(&["run", "r", "-n", "--", "true"]).code, 75);
    for held in permits.into_iter().chain(readers) {
        held.signal(Signal::TERM);
        assert_eq!(held.end().code, 0);
    }
    assert_eq!(ctl.run(&["list"]).out.lines().count(), 1, "all were released");
}

#[test]
fn the_lock_is_free_when_the_command_has_ended() {
    let (server, ctl) = redis();
    assert_eq!(ctl.run(&["run", "a", "--", "true"]).code, 0);
    assert_eq!(ctl.run(&["leader", "b", "--", "true"]).code, 0);
    assert_eq!(ctl.run(&["list"]).out.lines().count(), 1);
    let left: Vec<String> = server.keys().into_iter().filter(|key| !key.ends_with(":f")).collect();
    assert_eq!(left, [""; 0]);
    let kept = ctl.run(&["run", "a", "--min-hold", "1m", "--", "true"]);
    assert_eq!(kept.code, 0);
    assert_eq!(ctl.run(&["run", "a", "-n", "--", "true"]).code, 75, "it is kept");
}
