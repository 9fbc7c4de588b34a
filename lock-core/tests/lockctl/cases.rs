//! The cases of `run`, each of which runs on each store.

use std::thread;

use rustix::process::Signal;

use crate::bed::Bed;
use crate::ctl::until;
use crate::log::Log;
use crate::loss;

pub(crate) type Case = (&'static str, fn(&Bed, &str));

/// Cases that differ in one command line. Each has a name, the arguments, the exit code, and a part of the error
/// output. `KEY` stands for the key, and `HELD` for a key that another process holds.
const LINES: &[(&str, &[&str], i32, &str)] = &[
    ("success", &["KEY", "--", "true"], 0, ""),
    ("the command's code", &["KEY", "--", "sh", "-c", "exit 7"], 7, ""),
    ("a command that a signal ends", &["KEY", "--", "sh", "-c", "kill -9 $$"], 137, ""),
    ("not found", &["KEY", "--", "no-such-program"], 127, "no-such-program: No such file"),
    ("not executable", &["KEY", "--", "/etc"], 126, "Permission denied"),
    ("held, no wait", &["HELD", "-n", "--", "true"], 75, "HELD`"),
    ("held, a code of one's own", &["HELD", "-n", "-E", "9", "--", "true"], 9, "HELD`"),
    ("held, a short wait", &["HELD", "--wait", "100ms", "--", "true"], 75, "HELD`"),
    ("free, a wait of ages", &["KEY", "--wait", "500000000000years", "--", "true"], 0, ""),
    ("a ttl of nothing", &["KEY", "--ttl", "0s", "--", "true"], 64, "ttl"),
    ("an empty key", &["", "--", "true"], 64, "key"),
];

pub(crate) const CASES: &[Case] = &[
    ("lines", lines),
    ("a command knows its lock", a_command_knows_its_lock),
    ("TERM reaches the whole command", |bed, key| a_signal_is_forwarded(bed, key, Signal::TERM, "TERM")),
    ("HUP reaches the whole command", |bed, key| a_signal_is_forwarded(bed, key, Signal::HUP, "HUP")),
    ("USR1 reaches the whole command", |bed, key| a_signal_is_forwarded(bed, key, Signal::USR1, "USR1")),
    ("a signal ends a wait", a_signal_ends_a_wait),
    ("a lock of an outer command", a_lock_of_an_outer_command_is_not_waited_for),
    ("nested commands", nested_commands),
    ("a warning lets the command work on", a_warning_lets_the_command_work_on),
    ("a lock is free when its command has ended", a_lock_is_free_when_its_command_has_ended),
    ("a forced release ends the command", loss::a_forced_release_ends_the_command),
    ("loss", |bed, key| loss::a_command_ends_first(bed, key, "")),
    ("loss, TERM is ignored", |bed, key| loss::a_command_ends_first(bed, key, "trap '' TERM; ")),
    ("loss, an end with 0", |bed, key| loss::a_command_ends_first(bed, key, "trap 'exit 0' TERM; ")),
    ("loss, children outside of the group", loss::children_outside_of_the_group_end_too),
    ("loss, a nested command", loss::a_nested_command_ends_with_the_outer_lock),
    ("killed", loss::a_killed_lockctl_leaves_no_command),
    ("stopped", loss::a_stopped_lockctl_leaves_no_command),
];

fn lines(bed: &Bed, key: &str) {
    let held_key = format!("{key} HELD");
    let held = bed.ctl.start(&["hold", &held_key]);
    bed.ctl.until_held(&held_key, 1);
    for (name, arguments, code, told) in LINES {
        let put = |argument: &&'static str| match *argument {
            "KEY" => key.to_owned(),
            "HELD" => held_key.clone(),
            other => other.to_owned(),
        };
        let arguments: Vec<String> = arguments.iter().map(put).collect();
        let mut line = vec!["run"];
        line.extend(arguments.iter().map(String::as_str));
        let said = bed.ctl.run(&line);
        assert_eq!(said.code, *code, "{name}: {said:?}");
        assert!(said.err.contains(told), "{name}: {said:?}");
    }
    held.signal(Signal::TERM);
    assert_eq!(held.end().code, 0);
}

fn a_command_knows_its_lock(bed: &Bed, key: &str) {
    let said = bed.ctl.run(&[
        "--namespace",
        "shop",
        "run",
        key,
        "--",
        "sh",
        "-c",
        "echo $LOCK_FENCING_TOKEN $LOCK_KEY",
    ]);
    let (token, named) = said.out.trim().split_once(' ').expect("two words");
    assert_eq!(named, format!("shop:{key}"));
    assert!(token.parse::<u64>().is_ok_and(|token| token > 0), "{said:?}");
}

fn a_signal_is_forwarded(bed: &Bed, key: &str, signal: Signal, name: &str) {
    let log = Log::new();
    // The inner shell is a background process of the command. The cases do not send INT or QUIT, because a shell makes
    // its background processes ignore them.
    let inner = format!(
        "trap '{}; exit 0' {name}; {}; while :; do sleep 0.05; done",
        log.says(name),
        log.says("ready")
    );
    let outer = format!("trap 'wait; exit 4' {name}; sh -c \"{inner}\" & wait");
    let run = bed.ctl.start(&["run", key, "--", "sh", "-c", &outer]);
    log.until_all(&["ready"]);
    run.signal(signal);
    let said = run.end();
    assert_eq!(said.code, 4, "{said:?}");
    assert_eq!(log.lines(), ["ready", name]);
}

fn a_signal_ends_a_wait(bed: &Bed, key: &str) {
    let held = bed.ctl.start(&["hold", key]);
    bed.ctl.until_held(key, 1);
    let waits = bed.ctl.start(&["run", key, "--", "true"]);
    bed.ctl.until_waited_for(key, 1);
    waits.signal(Signal::TERM);
    let said = waits.end();
    assert_eq!(said.code, 143, "{said:?}");
    bed.ctl.until_waited_for(key, 0);
    held.signal(Signal::INT);
    assert_eq!(held.end().code, 0);
}

const OWN: &str = env!("CARGO_BIN_EXE_lockctl");

fn a_lock_of_an_outer_command_is_not_waited_for(bed: &Bed, key: &str) {
    let inner = format!("{key} inner");
    let said = bed.ctl.run(&["run", key, "--", OWN, "run", &inner, "--", OWN, "run", key, "--", "true"]);
    assert_eq!(said.code, 64, "{said:?}");
    assert!(said.err.contains(&format!("an outer lockctl holds `{key}`")), "{said:?}");
}

fn nested_commands(bed: &Bed, key: &str) {
    let inner = format!("{key} inner");
    let said = bed.ctl.run(&["run", key, "--", OWN, "run", &inner, "--", "sh", "-c", "exit 3"]);
    assert_eq!(said.code, 3, "{said:?}");
}

fn a_warning_lets_the_command_work_on(bed: &Bed, key: &str) {
    let log = Log::new();
    let command = format!("{}; exit 3", log.waits());
    let options = ["run", key, "--ttl", loss::TTL, "--no-renew", "--on-lost", "warn", "--"];
    let run = bed.ctl.start(&[&options[..], &["sh", "-c", &command]].concat());
    until("it warns", || run.told().contains("works on"));
    log.go();
    let said = run.end();
    assert_eq!(said.code, 3, "{said:?}");
}

fn a_lock_is_free_when_its_command_has_ended(bed: &Bed, key: &str) {
    assert_eq!(bed.ctl.run(&["run", key, "--", "true"]).code, 0);
    let said = bed.ctl.run(&["show", key]);
    assert!(said.code == 1 && said.out.contains("is free"), "{said:?}");
    assert_eq!(bed.ctl.run(&["leader", key, "--", "true"]).code, 0);
    assert_eq!(bed.ctl.run(&["leader", key]).code, 1);
}

pub(crate) fn many_at_once_run_one_at_a_time(bed: &Bed) {
    let log = Log::new();
    let command = format!("{}; sleep 0.01; {}", log.says("in"), log.says("out"));
    thread::scope(|scope| {
        for _ in 0..bed.crowd {
            scope.spawn(|| {
                let said = bed.ctl.run(&["run", "many", "--ttl", "1m", "--", "sh", "-c", &command]);
                assert_eq!(said.code, 0, "{said:?}");
            });
        }
    });
    let lines = log.lines();
    assert_eq!(lines.len(), 2 * bed.crowd);
    assert!(lines.chunks(2).all(|pair| pair == ["in", "out"]), "two at once: {lines:?}");
}
