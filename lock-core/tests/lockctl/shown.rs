//! Tests the output of the commands.

use lock_tests::RedisServer;
use rustix::process::Signal;
use serde_json::Value;

use crate::ctl::{Ctl, until};
use crate::running::redis;

fn json(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn the_holder_is_shown_to_who_waits_and_to_who_looks() {
    let server = RedisServer::start();
    let ctl = Ctl(server.url());
    let held = ctl.start(&["hold", "order:42", "--label", "night run"]);
    ctl.until_held("order:42", 1);
    let waits = ctl.start(&["run", "order:42", "--", "true"]);
    ctl.until_waited_for("order:42", 1);

    let said = ctl.run(&["list"]);
    let [head, line] = said.out.lines().collect::<Vec<_>>()[..] else { panic!("{said:?}") };
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(head), ["KEY", "MODE", "HELD", "BY", "HELD", "FOR", "LEASE", "WAITING", "ID"]);
    assert!(
        line.starts_with("order:42") && line.contains("(lockctl, night run)") && line.contains("exclusive"),
        "{line}"
    );

    let shown = &json(&ctl.run(&["show", "order:42", "--json"]).out)[0];
    let listed = &json(&ctl.run(&["list", "order:", "--json"]).out)[0];
    assert_eq!((&listed["key"], &listed["holders"][0]["id"]), (&shown["key"], &shown["holders"][0]["id"]));
    assert_eq!(
        (&shown["mode"], &shown["holding"], &shown["waiting"]),
        (&"exclusive".into(), &1.into(), &1.into())
    );
    assert_eq!(shown["holders"][0]["owner"]["label"], "night run");
    assert!(ctl.run(&["show", "order:42"]).out.contains("waiting 1: "));
    assert_eq!(ctl.run(&["list", "other"]).out.lines().count(), 1);
    assert_eq!(ctl.run(&["list", "--older", "1h"]).out.lines().count(), 1);

    // The waiting command has printed the holder by now, or prints it soon.
    held.signal(Signal::TERM);
    let held = held.end();
    assert!(held.out.starts_with("holding `order:42`, fencing token "), "{held:?}");
    assert_eq!(waits.end().code, 0);
}

#[test]
fn a_wait_is_told_in_lines_where_no_terminal_is() {
    let server = RedisServer::start();
    let ctl = Ctl(server.url());
    let held = ctl.start(&["hold", "k"]);
    ctl.until_held("k", 1);
    let plain = ctl.run(&["run", "k", "--wait", "2s", "--", "true"]);
    assert!(plain.err.contains("waiting for `k`") && plain.err.contains("held by "), "{plain:?}");
    let told = ctl.run(&["run", "k", "--json", "--wait", "2s", "--", "true"]);
    let events = json(&told.err);
    assert_eq!((&events[0]["event"], &events[0]["key"]), (&"waiting".into(), &"k".into()), "{told:?}");
    assert_eq!(events.last().map(|event| event["exit"].clone()), Some(75.into()));
    held.signal(Signal::TERM);
    held.end();
}

#[test]
fn an_error_is_json_where_json_is_asked_for() {
    let (_server, ctl) = redis();
    for arguments in [
        &["--json", "run", "a", "--shared", "--fair", "--", "true"][..],
        &["run", "a", "--ttl", "5", "--json", "--", "true"],
        &["--url", "foo://x", "list", "--json"],
    ] {
        let said = ctl.run(arguments);
        let [error] = &json(&said.err)[..] else { panic!("{said:?}") };
        assert!(said.code == 64 && error["exit"] == 64, "{said:?}");
        assert!(error["error"].as_str().is_some_and(|text| !text.starts_with("error")), "{said:?}");
    }
    // `--json` after the command belongs to the command, not to `lockctl`.
    let said = ctl.run(&["run", "a", "--fair", "--shared", "--", "true", "--json"]);
    assert!(said.code == 64 && said.err.starts_with("error: "), "{said:?}");
}

#[test]
fn a_hostile_key_is_shown_as_text() {
    let server = RedisServer::start();
    let ctl = Ctl(server.url());
    let held = ctl.start(&["hold", "a\u{1b}[31m\nb"]);
    until("it is held", || ctl.run(&["list"]).out.lines().count() == 2);
    let said = ctl.run(&["list"]);
    assert!(said.out.contains("a\\u{1b}[31m\\nb") && !said.out.contains('\u{1b}'), "{said:?}");
    held.signal(Signal::TERM);
    held.end();
}

#[test]
fn completions_bench_and_sql_print() {
    let server = RedisServer::start();
    let ctl = Ctl(server.url());
    for shell in ["bash", "zsh", "fish"] {
        let said = ctl.run(&["completions", shell]);
        assert!(said.code == 0 && said.out.contains("lockctl"), "{shell}");
    }
    let bench = &json(&ctl.run(&["bench", "--time", "300ms", "--json"]).out)[0];
    assert!(bench["cycles"].as_u64() > Some(0), "{bench}");
    assert!(ctl.run(&["sql", "--schema", "locks"]).out.contains("locks"));
    assert_eq!(ctl.run(&["sql", "--schema", "no;good"]).code, 64);
}
