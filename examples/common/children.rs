//! This program, started again as a worker; and ways to stop it that no program can prepare for.

use std::io::{Read, Result};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::sync::oneshot;

/// A process of this program. It ends with the one that started it, because its input ends then.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    id: u32,
}

impl Worker {
    /// Starts this program with `arguments`, and with its tables at `place`.
    pub(crate) fn start(arguments: &[String], place: &str) -> Result<Self> {
        let child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .env("DATABASE_URL", place)
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let id = child.id().ok_or_else(|| std::io::Error::other("it has ended already"))?;
        Ok(Self { child, id })
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Kills the process as `kill -9` does: it runs no further instruction. Returns when it is gone.
    pub(crate) async fn kill9(mut self) -> Result<()> {
        self.child.kill().await
    }

    /// Stops the process, as a debugger or a crowded host does, and continues it after `time`. Returns then.
    pub(crate) async fn pause(&self, time: Duration) -> Result<()> {
        Command::from(pause(self.id, time)).status().await.map(drop)
    }

    /// Returns whether the process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks the process to end, and waits for its end. Returns whether it ended well.
    pub(crate) async fn stop(mut self) -> Result<bool> {
        drop(self.child.stdin.take());
        Ok(self.child.wait().await?.success())
    }

    /// Waits until the process ends. Returns whether it ended well.
    pub(crate) async fn ended(&mut self) -> Result<bool> {
        // `wait` would close the input, which asks it to end.
        let input = self.child.stdin.take();
        let status = self.child.wait().await;
        drop(input);
        Ok(status?.success())
    }
}

/// Returns a command that stops a process and continues it after `time`, whatever happens to its parent meanwhile. The
/// process may be killed before that: then the command does nothing.
pub(crate) fn pause(id: u32, time: Duration) -> std::process::Command {
    let commands = "{ kill -STOP $1 && sleep $2 && kill -CONT $1; } 2>/dev/null";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", commands, "pause", &id.to_string(), &time.as_secs_f64().to_string()]);
    shell
}

/// In a worker: waits until it is asked to end.
pub(crate) async fn told_to_end() {
    let (tell, told) = oneshot::channel();
    // This is a separate thread, which does not keep the process from ending, as a read on a thread of the runtime
    // would.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = tell.send(());
    });
    let _ = told.await;
}
