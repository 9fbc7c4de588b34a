//! Child processes that do not outlive the test process.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// A child process, ended by its id on drop.
///
/// Beside it runs a guardian: a shell that waits for the end of its input, which comes when this process ends in
/// whatever way, and then kills the child. Both are process groups of their own, so that an interrupt from the
/// terminal reaches the test process alone and the guardian does the rest.
#[derive(Debug)]
pub struct Process {
    child: Child,
    guardian: Child,
}

impl Process {
    /// Starts `command`. The guardian also removes `directory`, if there is one.
    ///
    /// # Errors
    /// When the program cannot be started, `NotFound` when it is not installed.
    pub fn spawn(command: &mut Command, directory: Option<&Path>) -> io::Result<Self> {
        let mut child = command.process_group(0).spawn()?;
        let guardian = Command::new("sh")
            .args(["-c", "read -r _; kill -9 \"$1\"; rm -rf \"$2\"", "guardian", &child.id().to_string()])
            .arg(directory.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        match guardian {
            Ok(guardian) => Ok(Self { child, guardian }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The child, for its pipes.
    pub fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// How it ended; `None` while it runs.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Stops it with SIGSTOP and returns when it stands still.
    ///
    /// # Panics
    /// When it has ended.
    pub fn stop(&self) {
        self.signal(Signal::STOP).expect("cannot stop a process that has ended");
        let (_, status) = waitpid(Some(self.pid()), WaitOptions::UNTRACED)
            .expect("cannot wait for a child to stop")
            .expect("BUG: a blocking wait has a result");
        assert!(status.stopped(), "the process ended instead of stopping");
    }

    /// Lets it go on after [`stop`](Self::stop).
    ///
    /// # Panics
    /// When it has ended.
    pub fn cont(&self) {
        self.signal(Signal::CONT).expect("cannot continue a process that has ended");
    }

    /// Kills it with SIGKILL, also when it is stopped, and returns when it is gone.
    pub fn kill9(&mut self) {
        // The guardian goes first: it must not kill by an id that the system has given to another process.
        let _ = self.guardian.kill();
        let _ = self.guardian.wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
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
