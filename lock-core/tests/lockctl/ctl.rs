//! Starts the program.
#![allow(clippy::disallowed_methods, reason = "it measures how long the test waits")]

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use lock_tests::PATIENCE;
use rustix::process::{Pid, Signal, kill_process};

/// The program with the URL of a store.
#[derive(Clone)]
pub(crate) struct Ctl(pub(crate) String);

/// What a run has said, and its exit code; of one that a signal has ended, 128 and the signal.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ctl {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockctl"));
        command
            .args(arguments)
            .env("LOCK_URL", &self.0)
            .env_remove("LOCKCTL_HELD")
            .env_remove("LOCK_NAMESPACE");
        command.stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        said(self.command(arguments).output().expect("lockctl starts"))
    }

    /// Starts it.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(command.spawn().expect("lockctl starts"))
    }

    fn shown(&self, key: &str) -> serde_json::Value {
        let said = self.run(&["show", key, "--json"]);
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
    }

    /// Waits until this key has so many holders.
    pub(crate) fn until_held(&self, key: &str, holders: u64) {
        until(&format!("{key} has {holders} holders"), || self.shown(key)["holding"] == holders);
    }

    /// Waits until so many wait for this key.
    pub(crate) fn until_waited_for(&self, key: &str, waiting: u64) {
        until(&format!("{waiting} wait for {key}"), || self.shown(key)["waiting"] == waiting);
    }
}

/// One that runs.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("it runs");
    }

    /// Waits for its end.
    pub(crate) fn end(self) -> Said {
        said(self.0.wait_with_output().expect("lockctl ends"))
    }
}

fn said(output: Output) -> Said {
    use std::os::unix::process::ExitStatusExt;
    let code =
        output.status.code().or(output.status.signal().map(|signal| 128 + signal)).expect("it has ended");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Said { code, out: text(output.stdout), err: text(output.stderr) }
}

/// Waits until it is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
