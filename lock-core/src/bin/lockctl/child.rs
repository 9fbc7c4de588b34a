//! A command that runs, and its warden.

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child as Process, Command};

use crate::exit::{Exit, Fault};
use crate::target::{MARK, Target};
use crate::warden::DONE;

/// How long a warden may take to end.
const DISMISSAL: Duration = Duration::from_secs(1);

/// A command, and its warden, which ends it if this process is killed or stopped.
#[derive(Debug)]
pub(crate) struct Child {
    program: PathBuf,
    process: Process,
    target: Target,
    warden: Process,
    grace: Duration,
}

impl Child {
    /// Starts a command with these variables. `grace` is what it gets from TERM to KILL.
    pub(crate) fn start(
        command: &[OsString],
        variables: &[(&str, String)],
        grace: Duration,
    ) -> Result<Self, Fault> {
        let program = std::env::current_exe().map_err(|error| failed("this program", &error))?;
        let group = !std::io::stdin().is_terminal();
        let mark = fastrand::u64(..);
        let mut start = Command::new(&program);
        start.arg("__exec").arg(std::process::id().to_string()).arg("--").args(command);
        start.envs(variables.iter().map(|(name, value)| (name, value))).env(MARK, format!("{mark:x}"));
        if group {
            start.process_group(0);
        }
        let process = start.spawn().map_err(|error| failed("the command", &error))?;
        let pid = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let Some(pid) = pid else {
            return Err(Fault::new(Exit::NOT_EXECUTABLE, "the command has no process id"));
        };
        let target = Target { process: pid, group, mark };
        let warden = warden(&program, target, grace).inspect_err(|_| target.send(Signal::KILL))?;
        Ok(Self { program, process, target, warden, grace })
    }

    pub(crate) fn send(&self, signal: Signal) {
        self.target.send(signal);
    }

    /// Forwards a signal to the command.
    pub(crate) fn forward(&self, signal: Signal) {
        // A terminal sends these to all of its foreground itself.
        if self.target.group || !matches!(signal, Signal::INT | Signal::QUIT) {
            self.send(signal);
        }
        if self.target.group {
            // One that waits for a terminal is stopped, and could not end.
            self.send(Signal::CONT);
        }
    }

    /// Waits until the command has ended.
    pub(crate) async fn ended(&mut self) -> std::io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Tells the warden for how long the command may work on without further news. Starts another warden if it has ended.
    pub(crate) async fn may_work(&mut self, long: Duration) -> Result<(), Fault> {
        let line = format!("{}\n", long.as_millis());
        let told = match &mut self.warden.stdin {
            Some(input) => input.write_all(line.as_bytes()).await.is_ok(),
            None => false,
        };
        if !told {
            self.warden = warden(&self.program, self.target, self.grace)?;
        }
        Ok(())
    }

    /// Tells the warden that there is nothing left to end.
    pub(crate) async fn dismiss(mut self) {
        if let Some(mut input) = self.warden.stdin.take() {
            let _ = input.write_all(DONE.as_bytes()).await;
        }
        let _ = tokio::time::timeout(DISMISSAL, self.warden.wait()).await;
    }
}

/// Starts the warden of a command. It has a process group of its own, so that what is meant for the command or for the
/// terminal does not end it.
fn warden(program: &Path, target: Target, grace: Duration) -> Result<Process, Fault> {
    let mut start = Command::new(program);
    start.arg("__warden").arg(target.process.as_raw_nonzero().to_string());
    start.arg("--grace").arg(format!("{}ms", grace.as_millis())).arg("--mark").arg(target.mark.to_string());
    if target.group {
        start.arg("--group");
    }
    start.env_remove(MARK).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
    start.spawn().map_err(|error| failed("the warden of the command", &error))
}

fn failed(what: &str, error: &std::io::Error) -> Fault {
    Fault::new(Exit::NOT_EXECUTABLE, format!("cannot start {what}: {error}"))
}

/// Becomes the command, in the process that was started for it. Returns only if it cannot.
pub(crate) fn exec(parent: i32, command: &[OsString]) -> Fault {
    // The kernel kills the command when `lockctl` is killed. The setting survives `exec`.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // `lockctl` was killed before that.
    if rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        return Fault::new(Exit::LOST, "lockctl ended before the command began");
    }
    let [program, arguments @ ..] = command else { return Fault::usage("no command") };
    let error = std::process::Command::new(program).args(arguments).exec();
    let exit = if error.kind() == ErrorKind::NotFound { Exit::NOT_FOUND } else { Exit::NOT_EXECUTABLE };
    Fault::new(exit, format!("{}: {error}", program.to_string_lossy().escape_debug()))
}

/// Returns the exit code of a command: its own one, or 128 and the signal that has ended it.
pub(crate) fn code(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => Exit::of_signal(signal),
        (None, None) => Exit::NOT_EXECUTABLE,
    }
}
