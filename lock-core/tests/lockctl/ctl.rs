//! Starts the program `lockctl`.
#![allow(clippy::disallowed_methods, reason = "it measures how long the test waits")]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use lock_tests::{Directory, PATIENCE};
use rustix::process::{Pid, Signal, kill_process};

/// The program `lockctl` with the URL of a store.
#[derive(Clone)]
pub(crate) struct Ctl(pub(crate) String);

/// The output of a run and its exit code. After a signal, the code is 128 plus the number of the signal.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ctl {
    fn command(&self, arguments: &[&str]) -> Command {
        // A shell starts its background processes with some signals ignored, and lockctl keeps ignored signals ignored.
        // So the test resets all signals.
        let mut command = self.program("env");
        command.args(["--default-signal", env!("CARGO_BIN_EXE_lockctl")]).args(arguments);
        command
    }

    /// Returns a command whose environment names the store.
    pub(crate) fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env("LOCK_URL", &self.0)
            .env_remove("LOCKCTL_HELD")
            .env_remove("LOCK_NAMESPACE")
            .env_remove("LOCK_TOKEN");
        command.stdin(Stdio::null());
        command
    }

    /// Runs lockctl to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        said(self.command(arguments).output().expect("lockctl starts"))
    }

    /// Starts lockctl. Its output goes to files, because a child that outlives it would keep a pipe open.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::of(self.command(arguments))
    }

    fn shown(&self, key: &str) -> serde_json::Value {
        let said = self.run(&["show", key, "--json"]);
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
    }

    /// Waits until the key has `holders` holders.
    pub(crate) fn until_held(&self, key: &str, holders: u64) {
        until(&format!("{key} has {holders} holders"), || self.shown(key)["holding"] == holders);
    }

    /// Waits until the key has `waiting` waiters.
    pub(crate) fn until_waited_for(&self, key: &str, waiting: u64) {
        until(&format!("{waiting} wait for {key}"), || self.shown(key)["waiting"] == waiting);
    }
}

pub(crate) struct Running {
    process: Child,
    said: Directory,
}

impl Running {
    pub(crate) fn of(mut command: Command) -> Self {
        let said = Directory::new();
        let file = |name| File::create(said.path().join(name)).expect("a file");
        command.stdout(file("out")).stderr(file("err"));
        Self { process: command.spawn().expect("it starts"), said }
    }

    fn id(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).expect("it runs");
    }

    /// Writes text to the standard input of the program.
    pub(crate) fn types(&mut self, text: &str) {
        let input = self.process.stdin.as_mut().expect("a pipe");
        input.write_all(text.as_bytes()).and_then(|()| input.flush()).expect("it reads");
    }

    /// Returns the standard output so far.
    pub(crate) fn printed(&self) -> String {
        let bytes = fs::read(self.said.path().join("out")).expect("a file");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the standard error so far.
    pub(crate) fn told(&self) -> String {
        let bytes = fs::read(self.said.path().join("err")).expect("a file");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits for the warden of this program, and returns the id of the warden: the process that ends the command if
    /// `lockctl` cannot. The warden `before` does not count.
    pub(crate) fn warden(&self, before: Option<Pid>) -> Pid {
        let mut found = None;
        until("it has a warden", || {
            found = self.wardens().into_iter().find(|warden| Some(*warden) != before);
            found.is_some()
        });
        found.expect("it was found")
    }

    fn wardens(&self) -> Vec<Pid> {
        let own = format!(" {} ", self.id());
        let names = fs::read_dir("/proc")
            .expect("a list")
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let processes = names.filter_map(|name| Pid::from_raw(name.parse().ok()?));
        let is_warden = |process: &Pid| {
            // The form of this file is `id (name) state parent ..`.
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            stat.split_once("(warden) ")
                .is_some_and(|(_, rest)| !rest.starts_with('Z') && rest[1..].starts_with(&own))
        };
        processes.filter(is_warden).collect()
    }

    pub(crate) fn end(mut self) -> Said {
        let mut status = None;
        until("lockctl ends", || {
            status = self.process.try_wait().expect("it is a child");
            status.is_some()
        });
        let read = |name| fs::read(self.said.path().join(name)).expect("a file");
        said(Output { status: status.expect("it has ended"), stdout: read("out"), stderr: read("err") })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // If a test has failed, the program may still run.
        let _ = self.process.kill();
    }
}

fn said(output: Output) -> Said {
    use std::os::unix::process::ExitStatusExt;
    let code =
        output.status.code().or(output.status.signal().map(|signal| 128 + signal)).expect("it has ended");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Said { code, out: text(output.stdout), err: text(output.stderr) }
}

pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
