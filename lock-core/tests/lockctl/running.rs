//! Commands under a lock, on Redis.

use std::fs;
use std::path::Path;
use std::thread;

use lock_tests::{Directory, RedisServer};
use rustix::process::Signal;

use crate::ctl::{Ctl, until};

fn redis() -> (RedisServer, Ctl) {
    let server = RedisServer::start();
    let ctl = Ctl(server.url());
    (server, ctl)
}

/// Returns a command line of a shell that writes a line to a file.
fn says(file: &Path, line: &str) -> String {
    format!("echo {line} >> {}", file.display())
}

fn lines(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
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
    let directory = Directory::new();
    let log = directory.path().join("log");
    let command = format!("{}; sleep 0.01; {}", says(&log, "in"), says(&log, "out"));
    let runs: Vec<_> = (0..100)
        .map(|_| {
            let (ctl, command) = (ctl.clone(), command.clone());
            thread::spawn(move || ctl.run(&["run", "one", "--", "sh", "-c", &command]).code)
        })
        .collect();
    for run in runs {
        assert_eq!(run.join().expect("it ends"), 0);
    }
    let lines = lines(&log);
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
    let directory = Directory::new();
    let log = directory.path().join("log");
    // A shell lets its background ignore INT and QUIT.
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::HUP, "HUP"), (Signal::USR1, "USR1")] {
        // The inner shell is a child of the command.
        let inner = format!(
            "trap '{}; exit 0' {name}; {}; while :; do sleep 0.05; done",
            says(&log, name),
            says(&log, "ready")
        );
        let outer = format!("trap 'wait; exit 4' {name}; sh -c \"{inner}\" & wait");
        let run = ctl.start(&["run", "a", "--", "sh", "-c", &outer]);
        until("the command runs", || lines(&log).last().is_some_and(|line| line == "ready"));
        run.signal(signal);
        let said = run.end();
        assert_eq!(said.code, 4, "{name}: {said:?}");
        assert_eq!(lines(&log).last().map(String::as_str), Some(name));
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

/// A command that writes a line every 10 ms, and ignores TERM if it is told to.
fn worker(log: &Path, name: &str, stubborn: bool) -> String {
    let trap = if stubborn { "trap '' TERM; " } else { "" };
    format!("{trap}while :; do {}; sleep 0.01; done", says(log, name))
}

#[test]
fn a_command_ends_before_another_one_can_hold_its_lock() {
    for stubborn in [false, true] {
        let server = RedisServer::start();
        let ctl = Ctl(server.url());
        let directory = Directory::new();
        let log = directory.path().join("log");
        // Renewals stop, as if the store were away for the first one alone: its lease ends by itself.
        let first = worker(&log, "first", stubborn);
        let run = ctl.start(&[
            "run",
            "a",
            "--ttl",
            "2s",
            "--no-renew",
            "--grace",
            "300ms",
            "--",
            "sh",
            "-c",
            &first,
        ]);
        until("it works", || !lines(&log).is_empty());
        let second = format!("{}; sleep 0.3", says(&log, "second"));
        assert_eq!(ctl.run(&["run", "a", "--", "sh", "-c", &second]).code, 0);
        let lines = lines(&log);
        let began = lines.iter().position(|line| line == "second").expect("it ran");
        assert_eq!(began, lines.len() - 1, "the first one worked on: stubborn {stubborn}");
        let said = run.end();
        assert_eq!(said.code, 76, "{said:?}");
        assert!(said.err.contains("the lock `a` was lost and the command was stopped"), "{said:?}");
    }
}

#[test]
fn a_store_that_is_away_ends_the_command() {
    let (server, ctl) = redis();
    let directory = Directory::new();
    let log = directory.path().join("log");
    let run = ctl.start(&["run", "a", "--ttl", "2s", "--", "sh", "-c", &worker(&log, "x", false)]);
    until("it works", || !lines(&log).is_empty());
    server.stop();
    let said = run.end();
    assert_eq!(said.code, 76, "{said:?}");
    let ended = lines(&log).len();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(lines(&log).len(), ended, "nothing works on");
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
fn a_killed_lockctl_leaves_no_command() {
    let (_server, ctl) = redis();
    let directory = Directory::new();
    let log = directory.path().join("log");
    // The command ends with its parent at once, its child by the warden.
    let command = format!("sh -c '{}' & {}", worker(&log, "child", false), worker(&log, "command", false));
    let run = ctl.start(&["run", "a", "--ttl", "3s", "--", "sh", "-c", &command]);
    until("both work", || {
        ["child", "command"].iter().all(|name| lines(&log).iter().any(|line| line == name))
    });
    run.signal(Signal::KILL);
    assert_eq!(run.end().code, 137);
    assert_eq!(ctl.run(&["run", "a", "--", "sh", "-c", &says(&log, "next")]).code, 0);
    let ended = lines(&log);
    let next = ended.iter().position(|line| line == "next").expect("it ran");
    assert_eq!(next, ended.len() - 1, "something worked on: {:?}", &ended[next..]);
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
