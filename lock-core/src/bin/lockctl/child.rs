//! Runs a command, and its warden, which ends the command if `lockctl` cannot.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::process::Child as Process;
use tokio::time::{Instant, sleep};

use crate::exit::{Exit, Fault};
use crate::target::{self, MARK, Target};
use crate::warden::Warden;

/// The pause between two checks whether processes of a command still run.
const LOOK: Duration = Duration::from_millis(20);

/// A command that runs, and its warden.
#[derive(Debug)]
pub(crate) struct Child {
    process: Process,
    target: Target,
    warden: Warden,
}

impl Child {
    /// Starts a command with these variables. `grace` is the time from TERM to KILL. `allowed` is the time for which
    /// the command may run before the next message about its lease.
    pub(crate) fn start(
        command: &[OsString],
        variables: &[(&str, String)],
        grace: Duration,
        allowed: Duration,
    ) -> Result<Self, Fault> {
        let mark = fastrand::u64(..);
        let group = terminal().is_none();
        let mut start = own_program("lockctl")?;
        start.arg("__exec").arg(std::process::id().to_string()).arg("--").args(command);
        start.envs(variables.iter().map(|(name, value)| (name, value)));
        start.env(MARK, Target::marks(mark, &std::env::var(MARK).unwrap_or_default()));
        if group {
            start.process_group(0);
        }
        let process = tokio::process::Command::from(start).spawn();
        let process = process.map_err(|error| failed("the command", &error))?;
        let pid = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let Some(pid) = pid else {
            return Err(Fault::new(Exit::NOT_EXECUTABLE, "the command has no process id"));
        };
        let target = Target { process: pid, group, mark, session: target::own_session() };
        match Warden::start(target, grace, allowed) {
            Ok(warden) => Ok(Self { process, target, warden }),
            Err(fault) => {
                target.send(&[Signal::KILL]);
                Err(fault)
            }
        }
    }

    /// Sends TERM. Also sends CONT, because a stopped command could not end.
    pub(crate) fn stop(&self) {
        self.target.send(&[Signal::TERM, Signal::CONT]);
    }

    /// Sends KILL. Returns whether a process of the command still ran.
    pub(crate) fn kill(&self) -> bool {
        self.target.send(&[Signal::KILL])
    }

    /// Forwards a signal to the command.
    pub(crate) fn forward(&self, signal: Signal) {
        // INT and QUIT are not forwarded in the foreground, because the terminal itself sends them to all processes
        // there.
        if self.target.group || !is_foreground() || !matches!(signal, Signal::INT | Signal::QUIT) {
            self.target.forward(signal);
        }
        if self.target.group {
            // A command in the background that waits for the terminal is stopped, and could not end without CONT.
            self.target.forward(Signal::CONT);
        }
    }

    /// Waits until the command has ended.
    pub(crate) async fn ended(&mut self) -> std::io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Waits for the end of all processes of the command, as long as `may_wait` returns true. Then sends KILL
    /// repeatedly, for at most `kill`.
    pub(crate) async fn end_rest(&self, may_wait: impl Fn() -> bool, kill: Duration) {
        while may_wait() && self.target.is_alive() {
            sleep(LOOK).await;
        }
        let since = Instant::now();
        while self.kill() && since.elapsed() < kill {
            sleep(LOOK).await;
        }
    }

    /// Sends the warden the time for which the command may run before the next message.
    pub(crate) async fn may_work(&mut self, allowed: Duration) -> Result<(), Fault> {
        self.warden.allow(allowed).await
    }

    /// Ends the warden, because the command has ended. Returns whether it was the warden that ended the command.
    pub(crate) async fn dismiss(&mut self) -> bool {
        self.warden.dismiss().await
    }
}

/// Returns the terminal that controls this process.
fn terminal() -> Option<File> {
    File::open("/dev/tty").ok()
}

/// Returns whether this process is in the foreground, and so gets the signals of its terminal.
fn is_foreground() -> bool {
    let foreground = terminal().and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok());
    foreground.is_some_and(|group| group.as_raw_pid() == target::own_group())
}

/// Returns a command that starts this program again, under another name.
pub(crate) fn own_program(name: &str) -> Result<Command, Fault> {
    // The path of this program is not used. After an upgrade, the path names another version, or no file.
    #[cfg(target_os = "linux")]
    let program: Result<_, Error> = Ok("/proc/self/exe");
    #[cfg(not(target_os = "linux"))]
    let program = std::env::current_exe();
    let mut command = Command::new(program.map_err(|error| failed("this program", &error))?);
    command.arg0(name);
    Ok(command)
}

pub(crate) fn failed(what: &str, error: &Error) -> Fault {
    Fault::new(Exit::NOT_EXECUTABLE, format!("cannot start {what}: {error}"))
}

/// Replaces this process by the command. Returns only if this fails.
pub(crate) fn exec(parent: i32, command: &[OsString]) -> Fault {
    // With this setting, the kernel kills the command when `lockctl` is killed. The setting survives `exec`.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // If the parent is another process, `lockctl` was killed before the setting took effect.
    if rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        return Fault::new(Exit::LOST, "lockctl ended before the command began");
    }
    let [program, arguments @ ..] = command else { return Fault::usage("no command") };
    let error = Command::new(program).args(arguments).exec();
    let exit = if error.kind() == ErrorKind::NotFound { Exit::NOT_FOUND } else { Exit::NOT_EXECUTABLE };
    Fault::new(exit, format!("{}: {error}", program.to_string_lossy().escape_debug()))
}

/// Returns the exit code of a command: its own code, or 128 plus the signal that has ended it.
pub(crate) fn code(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => Exit::of_signal(signal),
        (None, None) => Exit::NOT_EXECUTABLE,
    }
}
