//! Commands under a lock, on Redis.

use std::thread;

use lock_tests::RedisServer;
use rustix::process::Signal;

use crate::ctl::{Ctl, until};
use crate::log::Log;

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
        ("the command's code", &["run", "a", "--", "sh", "-c", "exit 7"], 7, ""),
        ("success", &["run", "a", "--", "true"], 0, ""),
        ("a command that a signal ends", &["run", "a", "--", "sh", "-c", "kill -9 $$"], 137, ""),
        ("not found", &["run", "a", "--", "no-such-program"], 127, "no-such-program: No such file"),
        ("not executable", &["run", "a", "--", "/etc"], 126, "Permission denied"),
        ("held, no wait", &["run", "held", "-n", "--", "true"], 75, "key `held`"),
        ("held, a code of one's own", &["run", "held", "-n", "-E", "9", "--", "true"], 9, "key `held`"),
        ("held, a short wait", &["run", "held", "--wait", "50ms", "--", "true"], 75, "key `held`"),
        ("held, a reader", &["run", "held", "-n", "--shared", "--", "true"], 75, "key `held`"),
        ("held, wait", &["wait", "held", "--wait", "50ms"], 75, "was not free in time"),
        ("free, wait", &["wait", "free"], 0, ""),
        ("a wait of ages", &["wait", "free", "--wait", "500000000000years"], 0, ""),
        ("a run that would wait for ages", &["run", "a", "--wait", "500000000000years", "--", "true"], 0, ""),
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
        ("a ttl of nothing", &["run", "a", "--ttl", "0s", "--", "true"], 64, "ttl"),
        ("an empty key", &["run", "", "--", "true"], 64, "key"),
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
        ("help", &["--help"], 0, ""),
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

#[test]
fn a_command_knows_its_lock() {
    let (_server, ctl) = redis();
    let said =
        ctl.run(&["--namespace", "shop", "run", "a", "--", "sh", "-c", "echo $LOCK_KEY $LOCK_FENCING_TOKEN"]);
    let (key, token) = said.out.trim().split_once(' ').expect("two words");
    assert_eq!(key, "shop:a");
    assert!(token.parse::<u64>().is_ok_and(|token| token > 0), "{said:?}");
}

#[test]
fn a_hundred_at_once_run_one_at_a_time() {
    let (_server, ctl) = redis();
    let log = Log::new();
    let command = format!("{}; sleep 0.01; {}", log.says("in"), log.says("out"));
    let runs: Vec<_> = (0..100)
        .map(|_| {
            let (ctl, command) = (ctl.clone(), command.clone());
            thread::spawn(move || ctl.run(&["run", "one", "--", "sh", "-c", &command]).code)
        })
        .collect();
    for run in runs {
        assert_eq!(run.join().expect("it ends"), 0);
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 200);
    assert!(lines.chunks(2).all(|pair| pair == ["in", "out"]), "two at once: {lines:?}");
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
fn a_lock_of_an_outer_command_is_not_waited_for() {
    let (_server, ctl) = redis();
    let own = env!("CARGO_BIN_EXE_lockctl");
    let said = ctl.run(&["run", "a", "--", own, "run", "b", "--", own, "run", "a", "--", "true"]);
    assert_eq!(said.code, 64, "{said:?}");
    assert!(said.err.contains("an outer lockctl holds `a`"), "{said:?}");
    assert_eq!(ctl.run(&["run", "a", "--", own, "run", "b", "--", "sh", "-c", "exit 3"]).code, 3);
}

#[test]
fn signals_reach_the_whole_command() {
    let (_server, ctl) = redis();
    let log = Log::new();
    // A shell lets its background ignore INT and QUIT.
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::HUP, "HUP"), (Signal::USR1, "USR1")] {
        // The inner shell is a child of the command.
        let inner = format!(
            "trap '{}; exit 0' {name}; {}; while :; do sleep 0.05; done",
            log.says(name),
            log.says("ready")
        );
        let outer = format!("trap 'wait; exit 4' {name}; sh -c \"{inner}\" & wait");
        let run = ctl.start(&["run", "a", "--", "sh", "-c", &outer]);
        until("the command runs", || log.lines().last().is_some_and(|line| line == "ready"));
        run.signal(signal);
        let said = run.end();
        assert_eq!(said.code, 4, "{name}: {said:?}");
        assert_eq!(log.lines().last().map(String::as_str), Some(name));
    }
}

#[test]
fn a_signal_ends_a_wait() {
    let (_server, ctl) = redis();
    let held = ctl.start(&["hold", "a"]);
    ctl.until_held("a", 1);
    let waits = ctl.start(&["run", "a", "--", "true"]);
    ctl.until_waited_for("a", 1);
    waits.signal(Signal::TERM);
    let said = waits.end();
    assert_eq!(said.code, 143, "{said:?}");
    ctl.until_waited_for("a", 0);
    held.signal(Signal::INT);
    assert_eq!(held.end().code, 0);
}

#[test]
fn a_warning_lets_the_command_work_on() {
    let (_server, ctl) = redis();
    let arguments = [
        "run",
        "a",
        "--ttl",
        "300ms",
        "--no-renew",
        "--on-lost",
        "warn",
        "--",
        "sh",
        "-c",
        "sleep 1; exit 3",
    ];
    let said = ctl.run(&arguments);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains("works on"), "{said:?}");
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
