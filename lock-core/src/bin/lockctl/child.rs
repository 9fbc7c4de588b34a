//! The process of a command.

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child as Process, Command};

use crate::exit::{Exit, Fault};

/// A command that runs, and its warden, which ends it if this process is killed.
#[derive(Debug)]
pub(crate) struct Child {
    process: Process,
    target: Target,
    warden: Process,
}

/// What a signal is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) process: Pid,
    /// Whether the command has a process group of its own, so that its children get the signal too. On a terminal it
    /// has none: it stays in the foreground, reads the terminal, and gets Ctrl-C from it.
    pub(crate) group: bool,
}

impl Target {
    /// Sends a signal. Returns whether there was a process to get it.
    pub(crate) fn send(self, signal: Signal) -> bool {
        let sent = if self.group {
            kill_process_group(self.process, signal)
        } else {
            kill_process(self.process, signal)
        };
        sent.is_ok()
    }

    /// Returns whether a process is left.
    pub(crate) fn is_alive(self) -> bool {
        use rustix::process::{test_kill_process, test_kill_process_group};
        let found =
            if self.group { test_kill_process_group(self.process) } else { test_kill_process(self.process) };
        found.is_ok()
    }
}

impl Child {
    /// Starts a command with these variables. `grace` is what its warden gives it.
    pub(crate) fn start(
        command: &[OsString],
        variables: &[(&str, String)],
        grace: Duration,
    ) -> Result<Self, Fault> {
        let own = std::env::current_exe().map_err(|error| failed("this program", &error))?;
        let group = !std::io::stdin().is_terminal();
        let mut start = Command::new(&own);
        start.arg("__exec").arg(std::process::id().to_string()).arg("--").args(command);
        start.envs(variables.iter().map(|(name, value)| (name, value)));
        if group {
            start.process_group(0);
        }
        let process = start.spawn().map_err(|error| failed("the command", &error))?;
        let pid = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let Some(pid) = pid else {
            return Err(Fault::new(Exit::NOT_EXECUTABLE, "the command has no process id"));
        };
        let target = Target { process: pid, group };
        let warden = warden(&own, target, grace).inspect_err(|_| {
            target.send(Signal::KILL);
        })?;
        Ok(Self { process, target, warden })
    }

    pub(crate) fn send(&self, signal: Signal) {
        self.target.send(signal);
    }

    /// Waits until the command has ended.
    pub(crate) async fn ended(&mut self) -> std::io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Tells the warden that there is nothing left to end.
    pub(crate) async fn dismiss(mut self) {
        if let Some(mut input) = self.warden.stdin.take() {
            use tokio::io::AsyncWriteExt;
            let _ = input.write_all(b"done").await;
        }
        let _ = self.warden.wait().await;
    }
}

/// Starts the warden of a command. It has a process group of its own, so that what is meant for the command or for the
/// terminal does not end it.
fn warden(own: &std::path::Path, target: Target, grace: Duration) -> Result<Process, Fault> {
    let mut start = Command::new(own);
    start.arg("__warden").arg(target.process.as_raw_nonzero().to_string());
    start.arg("--grace").arg(format!("{}ms", grace.as_millis()));
    if target.group {
        start.arg("--group");
    }
    start.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
    start.spawn().map_err(|error| failed("the warden of the command", &error))
}

fn failed(what: &str, error: &std::io::Error) -> Fault {
    Fault::new(Exit::NOT_EXECUTABLE, format!("cannot start {what}: {error}"))
}

/// Becomes the command, in the process that was started for it. Returns only if it cannot.
pub(crate) fn exec(parent: i32, command: &[OsString]) -> Fault {
    // The kernel ends the command when `lockctl` is killed. The setting survives `exec`.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // It was killed before that.
    if rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        return Fault::new(Exit::LOST, "lockctl ended before the command began");
    }
    let [program, arguments @ ..] = command else { return Fault::usage("no command") };
    let error = std::process::Command::new(program).args(arguments).exec();
    let exit = if error.kind() == ErrorKind::NotFound { Exit::NOT_FOUND } else { Exit::NOT_EXECUTABLE };
    let _ = std::io::stderr().flush();
    Fault::new(exit, format!("{}: {error}", program.to_string_lossy()))
}

/// Returns the exit code of a command: its own one, or 128 and the signal that has ended it.
pub(crate) fn code(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => Exit::of_signal(signal),
        (None, None) => Exit::NOT_EXECUTABLE,
    }
}
