//! Commands whose lock is lost, or whose `lockctl` is stopped or killed: they end before another one can hold the lock.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::{Signal, kill_process};

use crate::ctl::{Ctl, Running};
use crate::log::Log;
use crate::running::redis;

/// Starts a command whose lease is not renewed, as if the store were away for it alone.
fn start_with_one_lease(ctl: &Ctl, command: &[&str]) -> Running {
    let options = ["run", "a", "--ttl", "4s", "--no-renew", "--grace", "300ms", "--"];
    ctl.start(&[&options, command].concat())
}

fn is_lost(run: Running) {
    let said = run.end();
    assert_eq!(said.code, 76, "{said:?}");
    assert!(said.err.contains("the lock `a` was lost and the command was stopped"), "{said:?}");
}

#[test]
fn a_command_ends_before_another_one_can_hold_its_lock() {
    for trap in ["", "trap '' TERM; ", "trap 'exit 0' TERM; "] {
        let (_server, ctl) = redis();
        let log = Log::new();
        let run = start_with_one_lease(&ctl, &["sh", "-c", &format!("{trap}{}", log.works("first"))]);
        log.until_all(&["first"]);
        log.is_silent_under_the_next(&ctl, "a");
        is_lost(run);
    }
}

#[test]
fn children_that_leave_the_process_group_end_too() {
    let (_server, ctl) = redis();
    let log = Log::new();
    let stubborn = format!("trap '' TERM; {}", log.works("setsid"));
    let command = format!("setsid sh -c \"{stubborn}\" & timeout 600 sh -c '{}'", log.works("timeout"));
    let run = start_with_one_lease(&ctl, &["sh", "-c", &command]);
    log.until_all(&["setsid", "timeout"]);
    log.is_silent_under_the_next(&ctl, "a");
    is_lost(run);
}

#[test]
fn a_nested_command_ends_with_the_outer_lock() {
    let (_server, ctl) = redis();
    let log = Log::new();
    let own = env!("CARGO_BIN_EXE_lockctl");
    let stubborn = format!("trap '' TERM; {} & {}", log.works("child"), log.works("inner"));
    let run = start_with_one_lease(&ctl, &[own, "run", "b", "--", "sh", "-c", &stubborn]);
    log.until_all(&["child", "inner"]);
    log.is_silent_under_the_next(&ctl, "a");
    is_lost(run);
}

#[test]
fn a_store_that_is_away_ends_the_command() {
    let (server, ctl) = redis();
    let log = Log::new();
    let run = ctl.start(&["run", "a", "--ttl", "2s", "--", "sh", "-c", &log.works("x")]);
    log.until_all(&["x"]);
    server.stop();
    is_lost(run);
    let ended = log.lines().len();
    thread::sleep(Duration::from_millis(100));
    assert_eq!(log.lines().len(), ended, "nothing works on");
}

#[test]
fn a_killed_lockctl_leaves_no_command() {
    let (_server, ctl) = redis();
    let log = Log::new();
    // The command ends with its parent at once, its child by the warden.
    let command = format!("sh -c '{}' & {}", log.works("child"), log.works("command"));
    let run = ctl.start(&["run", "a", "--ttl", "3s", "--", "sh", "-c", &command]);
    log.until_all(&["child", "command"]);
    run.signal(Signal::KILL);
    assert_eq!(run.end().code, 137);
    log.is_silent_under_the_next(&ctl, "a");
}

#[test]
fn a_stopped_lockctl_leaves_no_command() {
    for trap in ["trap '' TERM; ", "trap 'exit 0' TERM; "] {
        let (_server, ctl) = redis();
        let log = Log::new();
        let command = format!("{trap}{}", log.works("x"));
        let run = ctl.start(&["run", "a", "--ttl", "4s", "--grace", "300ms", "--", "sh", "-c", &command]);
        log.until_all(&["x"]);
        run.signal(Signal::STOP);
        log.is_silent_under_the_next(&ctl, "a");
        run.signal(Signal::CONT);
        is_lost(run);
    }
}

#[test]
fn a_command_that_the_warden_has_ended_was_stopped() {
    let (_server, ctl) = redis();
    let log = Log::new();
    let command = format!("trap '{}; exit 0' TERM; {}", log.says("ended"), log.works("x"));
    let run = ctl.start(&["run", "a", "--ttl", "4s", "--grace", "1s", "--", "sh", "-c", &command]);
    log.until_all(&["x"]);
    run.signal(Signal::STOP);
    log.until_all(&["ended"]);
    // It renews its lease in time again.
    run.signal(Signal::CONT);
    is_lost(run);
}

#[test]
fn a_warden_that_was_killed_or_stopped_is_replaced() {
    for signal in [Signal::KILL, Signal::STOP] {
        let (_server, ctl) = redis();
        let log = Log::new();
        let command = format!("sh -c '{}' & {}; exit 5", log.works("child"), log.waits());
        let run = ctl.start(&["run", "a", "--ttl", "2s", "--", "sh", "-c", &command]);
        log.until_all(&["child"]);
        let first = run.warden(None);
        kill_process(first, signal).expect("it runs");
        if signal == Signal::STOP {
            // As if it were stopped for many minutes.
            let mut pipe = OpenOptions::new()
                .write(true)
                .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
                .open(format!("/proc/{first}/fd/0"))
                .expect("its input");
            let full = loop {
                if let Err(error) = pipe.write_all(b"\n") {
                    break error;
                }
            };
            assert_eq!(full.kind(), ErrorKind::WouldBlock);
        }
        run.warden(Some(first));
        run.signal(Signal::KILL);
        assert_eq!(run.end().code, 137);
        log.is_silent_under_the_next(&ctl, "a");
    }
}

#[test]
fn a_program_that_was_replaced_starts_its_warden_again() {
    let (_server, ctl) = redis();
    let log = Log::new();
    let program = log.path("lockctl");
    fs::copy(env!("CARGO_BIN_EXE_lockctl"), &program).expect("a copy");
    let mut command = ctl.program(&program);
    command.args(["run", "a", "--", "sh", "-c", &format!("{}; {}; exit 5", log.says("works"), log.waits())]);
    let run = Running::of(command);
    log.until_all(&["works"]);
    fs::remove_file(&program).expect("it was there");
    let first = run.warden(None);
    kill_process(first, Signal::KILL).expect("it runs");
    run.warden(Some(first));
    log.go();
    let said = run.end();
    assert_eq!(said.code, 5, "{said:?}");
}
