//! Child processes that do not outlive the test process.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};

use crate::wait::Bound;

/// The time in which a process may end on its own.
const GRACE: Duration = Duration::from_secs(5);

/// A child process, which is killed by its id on drop.
///
/// A guardian process runs next to it: a shell that waits for the end of its input and then kills the child. The input
/// ends however this process ends. The child and the guardian have their own process groups, so an interrupt from the
/// terminal reaches only the test process, and the guardian kills the child.
#[derive(Debug)]
pub struct Process {
    child: Child,
    guardian: Child,
    /// Whether processes that the child has started are killed with it.
    with_children: bool,
}

impl Process {
    /// Starts `command`. The guardian also removes `directory`, if there is one.
    ///
    /// # Errors
    /// When the program cannot be started. The error is `NotFound` when the program is not installed.
    pub fn spawn(command: &mut Command, directory: Option<&Path>) -> io::Result<Self> {
        Self::start(command, directory, false)
    }

    /// Starts a program whose own children must not outlive it, by killing its process group. Otherwise like
    /// [`spawn`](Self::spawn).
    ///
    /// # Errors
    /// When the conditions of [`spawn`](Self::spawn) apply.
    pub fn spawn_with_children(command: &mut Command, directory: Option<&Path>) -> io::Result<Self> {
        Self::start(command, directory, true)
    }

    fn start(command: &mut Command, directory: Option<&Path>, with_children: bool) -> io::Result<Self> {
        let mut child = command.process_group(0).spawn()?;
        let killed = format!("{}{}", if with_children { "-" } else { "" }, child.id());
        let guardian = Command::new("sh")
            .args(["-c", "read -r _; kill -s KILL -- \"$1\"; rm -rf \"$2\"", "guardian", &killed])
            .arg(directory.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        match guardian {
            Ok(guardian) => Ok(Self { child, guardian, with_children }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Returns the process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the child process, for access to its pipes.
    pub fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Returns the exit status of the process, or `None` while it runs.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Stops the process with SIGSTOP, and returns when it has stopped.
    ///
    /// # Panics
    /// When the process has ended.
    pub fn stop(&self) {
        self.signal(Signal::STOP).expect("cannot stop a process that has ended");
        let (_, status) = waitpid(Some(self.pid()), WaitOptions::UNTRACED)
            .expect("cannot wait for a child to stop")
            .expect("BUG: a blocking wait has a result");
        assert!(status.stopped(), "the process ended instead of stopping");
    }

    /// Continues the process after [`stop`](Self::stop).
    ///
    /// # Panics
    /// When the process has ended.
    pub fn cont(&self) {
        self.signal(Signal::CONT).expect("cannot continue a process that has ended");
    }

    /// Kills the process with SIGKILL, even if it is stopped. Returns when it has ended.
    pub fn kill9(&mut self) {
        // The guardian is killed first, so that it cannot kill another process to which the system has given the id.
        let _ = self.guardian.kill();
        let _ = self.guardian.wait();
        if self.with_children {
            let _ = kill_process_group(self.pid(), Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends SIGQUIT, so that the process ends at once. Kills the process if it does not end.
    pub fn quit(&mut self) {
        let bound = Bound::new(GRACE);
        if self.signal(Signal::QUIT).is_ok() {
            while self.exited().is_none() && bound.elapsed() < GRACE {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        self.kill9();
    }

    fn signal(&self, signal: Signal) -> rustix::io::Result<()> {
        kill_process(self.pid(), signal)
    }

    fn pid(&self) -> Pid {
        let id = i32::try_from(self.child.id()).expect("BUG: process ids are positive and below 2^22");
        Pid::from_raw(id).expect("BUG: no child has the id 0")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill9();
    }
}
