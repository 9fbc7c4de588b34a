//! Commands whose lock is lost, or whose `lockctl` is stopped or killed. The command must end before another process
//! can hold the lock.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use lock_tests::RedisServer;
use rustix::fs::OFlags;
use rustix::process::{Signal, kill_process};

use crate::bed::Bed;
use crate::ctl::{Ctl, Running};
use crate::log::Log;

/// The ttl of the leases. A command is killed when a tenth of its lease remains. This is enough time on a busy machine.
pub(crate) const TTL: &str = "6s";
const TIMES: [&str; 4] = ["--ttl", TTL, "--grace", "300ms"];

fn start(ctl: &Ctl, key: &str, options: &[&str], command: &[&str]) -> Running {
    ctl.start(&[&["run", key], &TIMES[..], options, &["--"], command].concat())
}

/// Starts a command whose lease is not renewed, as if the store were down.
fn start_with_one_lease(bed: &Bed, key: &str, command: &str) -> Running {
    start(&bed.ctl, key, &["--no-renew"], &["sh", "-c", command])
}

fn is_lost(run: Running, key: &str) {
    let said = run.end();
    assert_eq!(said.code, 76, "{said:?}");
    assert!(said.err.contains(&format!("the lock `{key}` was lost and the command was stopped")), "{said:?}");
}

/// Checks that a command ends before the next one begins. `trap` is the command's reaction to TERM.
pub(crate) fn a_command_ends_first(bed: &Bed, key: &str, trap: &str) {
    let log = Log::new();
    let run = start_with_one_lease(bed, key, &format!("{trap}{}", log.works("first")));
    log.until_all(&["first"]);
    log.is_silent_under_the_next(&bed.ctl, key);
    is_lost(run, key);
}

pub(crate) fn a_forced_release_ends_the_command(bed: &Bed, key: &str) {
    let log = Log::new();
    let run = start(&bed.ctl, key, &[], &["sh", "-c", &log.works("first")]);
    log.until_all(&["first"]);
    let said = bed.ctl.run(&["force-release", key, "--reason", "stuck", "--yes"]);
    assert_eq!(said.code, 0, "{said:?}");
    is_lost(run, key);
    is_over(&log);
}

fn is_over(log: &Log) {
    let ended = log.lines().len();
    thread::sleep(Duration::from_millis(100));
    assert_eq!(log.lines().len(), ended, "nothing works on");
}

pub(crate) fn children_outside_of_the_group_end_too(bed: &Bed, key: &str) {
    let log = Log::new();
    let stubborn = format!("trap '' TERM; {}", log.works("setsid"));
    let command = format!("setsid sh -c \"{stubborn}\" & timeout 600 sh -c '{}'", log.works("timeout"));
    let run = start_with_one_lease(bed, key, &command);
    log.until_all(&["setsid", "timeout"]);
    log.is_silent_under_the_next(&bed.ctl, key);
    is_lost(run, key);
}

pub(crate) fn a_nested_command_ends_with_the_outer_lock(bed: &Bed, key: &str) {
    let log = Log::new();
    let inner = format!("{key} inner");
    let stubborn = format!("trap '' TERM; {} & {}", log.works("child"), log.works("inner"));
    let command = [env!("CARGO_BIN_EXE_lockctl"), "run", &inner, "--", "sh", "-c", &stubborn];
    let run = start(&bed.ctl, key, &["--no-renew"], &command);
    log.until_all(&["child", "inner"]);
    log.is_silent_under_the_next(&bed.ctl, key);
    is_lost(run, key);
}

/// Stops the store, so this is the last case of a store.
pub(crate) fn a_store_that_is_away_ends_the_command(bed: &Bed, key: &str) {
    let log = Log::new();
    let run = start(&bed.ctl, key, &[], &["sh", "-c", &log.works("x")]);
    log.until_all(&["x"]);
    bed.stop();
    is_lost(run, key);
    is_over(&log);
}

pub(crate) fn a_killed_lockctl_leaves_no_command(bed: &Bed, key: &str) {
    let log = Log::new();
    // The command ends together with its parent. The warden ends the child of the command.
    let command = format!("sh -c '{}' & {}", log.works("child"), log.works("command"));
    let run = start(&bed.ctl, key, &[], &["sh", "-c", &command]);
    log.until_all(&["child", "command"]);
    run.signal(Signal::KILL);
    assert_eq!(run.end().code, 137);
    log.is_silent_under_the_next(&bed.ctl, key);
}

pub(crate) fn a_stopped_lockctl_leaves_no_command(bed: &Bed, key: &str) {
    let log = Log::new();
    let run = start(&bed.ctl, key, &[], &["sh", "-c", &format!("trap '' TERM; {}", log.works("x"))]);
    log.until_all(&["x"]);
    run.signal(Signal::STOP);
    log.is_silent_under_the_next(&bed.ctl, key);
    run.signal(Signal::CONT);
    is_lost(run, key);
}

/// The key is deleted, and the command ends before the next renewal. So only the release finds the loss.
#[test]
fn a_loss_that_only_the_release_finds_is_reported() {
    let server = RedisServer::start();
    let ctl = Ctl(server.url());
    let delete_all = || server.keys().iter().for_each(|key| drop(server.command(&["DEL", key])));
    for (command, options, end, code) in [
        ("run", &[][..], 0, 76),
        ("run", &[], 3, 3),
        ("run", &["--on-lost", "warn"], 0, 0),
        ("leader", &[], 0, 76),
    ] {
        let log = Log::new();
        let script = format!("{}; {}; exit {end}", log.says("works"), log.waits());
        let run =
            ctl.start(&[&[command, "k", "--ttl", "1h"], options, &["--", "sh", "-c", &script]].concat());
        log.until_all(&["works"]);
        delete_all();
        log.go();
        let said = run.end();
        assert_eq!(said.code, code, "{command} {options:?} {end}: {said:?}");
        let told = "`k` was lost before the command ended, and another one may have run at the same time: ";
        assert!(said.err.contains(told) && said.err.lines().count() == 1, "{said:?}");
    }
    let held = ctl.start(&["hold", "k", "--ttl", "1h"]);
    ctl.until_held("k", 1);
    delete_all();
    held.signal(Signal::TERM);
    let said = held.end();
    assert!(said.code == 76 && said.err.contains("`k` was lost before the signal"), "{said:?}");
}

#[test]
fn a_command_that_the_warden_has_ended_was_stopped() {
    let bed = Bed::redis();
    let log = Log::new();
    let command = format!("trap '{}; exit 0' TERM; {}", log.says("ended"), log.works("x"));
    let run = bed.ctl.start(&["run", "a", "--ttl", "6s", "--grace", "2s", "--", "sh", "-c", &command]);
    log.until_all(&["x"]);
    run.signal(Signal::STOP);
    log.until_all(&["ended"]);
    // After this signal, lockctl renews its lease in time, but the warden has already ended the command.
    run.signal(Signal::CONT);
    is_lost(run, "a");
}

#[test]
fn a_warden_that_was_killed_or_stopped_is_replaced() {
    for signal in [Signal::KILL, Signal::STOP] {
        let bed = Bed::redis();
        let log = Log::new();
        let command = format!("sh -c '{}' & {}; exit 5", log.works("child"), log.waits());
        let run = start(&bed.ctl, "a", &[], &["sh", "-c", &command]);
        log.until_all(&["child"]);
        let first = run.warden(None);
        kill_process(first, signal).expect("it runs");
        if signal == Signal::STOP {
            // A full pipe simulates that the warden was stopped for many minutes.
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
        log.is_silent_under_the_next(&bed.ctl, "a");
    }
}

#[test]
fn a_program_that_was_replaced_starts_its_warden_again() {
    let bed = Bed::redis();
    let log = Log::new();
    let program = log.path("lockctl");
    // Another process copies the file. If this process did, a command that another test starts at this moment would
    // inherit the open file, and a file that is open for writing cannot be run.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_lockctl")).arg(&program).status();
    assert!(copied.expect("cp runs").success());
    let mut command = bed.ctl.program(&program);
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
