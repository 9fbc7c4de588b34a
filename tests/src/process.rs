//! Child processes that do not outlive the test process.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};

use crate::wait::Bound;

/// How long a process has to end by its own hand.
const GRACE: Duration = Duration::from_secs(5);

/// A child process, which is killed by its id on drop.
///
/// A guardian runs beside it: a shell that waits for the end of its input, which comes however this process ends, and
/// then kills the child. Both have a process group of their own, so that an interrupt from the terminal reaches only
/// the test process, and the guardian does the rest.
#[derive(Debug)]
pub struct Process {
    child: Child,
    guardian: Child,
    /// Whether the processes that the child started end with it.
    with_children: bool,
}

impl Process {
    /// Starts `command`. The guardian also removes `directory`, if there is one.
    ///
    /// # Errors
    /// When the program cannot be started; `NotFound` when it is not installed.
    pub fn spawn(command: &mut Command, directory: Option<&Path>) -> io::Result<Self> {
        Self::start(command, directory, false)
    }

    /// As [`spawn`](Self::spawn), for a program whose own children must not outlive it: its process group is killed.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
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

    /// Returns the child, for its pipes.
    pub fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Returns its exit status; `None` while it runs.
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

    /// Kills the process with SIGKILL, also when it is stopped, and returns when it is gone.
    pub fn kill9(&mut self) {
        // The guardian is killed first: it must not kill an id that the system has given to another process.
        let _ = self.guardian.kill();
        let _ = self.guardian.wait();
        if self.with_children {
            let _ = kill_process_group(self.pid(), Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks the process to end at once with SIGQUIT. Kills it if it does not.
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
