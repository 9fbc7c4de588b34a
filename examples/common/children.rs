//! Starts this program again as a worker, and stops it in ways that the worker cannot handle.

use std::io::{Read, Result};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::sync::oneshot;

/// A worker process of this program. Its input ends with the process that started it, and then the worker ends too.
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

    /// Kills the process as `kill -9` does, so it runs no further instruction. Returns when it has ended.
    pub(crate) async fn kill9(mut self) -> Result<()> {
        self.child.kill().await
    }

    /// Stops the process, as a debugger or an overloaded host does, and continues it after `time`. Then returns.
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
        // `wait` would close the input, and the worker would end.
        let input = self.child.stdin.take();
        let status = self.child.wait().await;
        drop(input);
        Ok(status?.success())
    }
}

/// Returns a command that stops a process and continues it after `time`, even if this process has ended by then. If the
/// process is killed before that, the command does nothing.
pub(crate) fn pause(id: u32, time: Duration) -> std::process::Command {
    let commands = "{ kill -STOP $1 && sleep $2 && kill -CONT $1; } 2>/dev/null";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", commands, "pause", &id.to_string(), &time.as_secs_f64().to_string()]);
    shell
}

/// Waits, in a worker, until the worker must end.
pub(crate) async fn told_to_end() {
    let (tell, told) = oneshot::channel();
    // The read is on a separate thread: a read on a thread of the runtime would keep the process from ending.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = tell.send(());
    });
    let _ = told.await;
}
