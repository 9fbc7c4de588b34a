//! The warden of a command, as `lockctl` sees it.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child as Process, Command};
use tokio::time::timeout;

use crate::child;
use crate::exit::Fault;
use crate::target::{MARK, Target};
use crate::watch::{DONE, since_boot};

/// How long a warden may take to read a line. A stopped one never reads it.
const READS: Duration = Duration::from_millis(50);
/// How long a warden may take to end.
const ENDS: Duration = Duration::from_secs(1);

/// A process that ends the command if `lockctl` is killed or stopped.
#[derive(Debug)]
pub(crate) struct Warden {
    process: Process,
    target: Target,
    grace: Duration,
    /// Whether it has ended the command.
    acted: bool,
}

impl Warden {
    /// Starts the warden of a command that may work for as long as `allowed`.
    pub(crate) fn start(target: Target, grace: Duration, allowed: Duration) -> Result<Self, Fault> {
        // This name hides the warden from a `pkill -f lockctl`.
        let mut start = Command::from(child::own_program("lock-warden")?);
        start.arg("__warden").arg(target.process.to_string());
        start
            .arg("--grace")
            .arg(format!("{}ms", grace.as_millis()))
            .arg("--mark")
            .arg(target.mark.to_string());
        start.arg("--session").arg(target.session.to_string()).arg("--until").arg(until(allowed).to_string());
        if target.group {
            start.arg("--group");
        }
        start.env_remove(MARK).stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = start.spawn().map_err(|error| child::failed("the warden of the command", &error))?;
        Ok(Self { process, target, grace, acted: false })
    }

    /// Tells the warden for how long the command may work on without further news. Replaces a warden that does not read.
    pub(crate) async fn allow(&mut self, allowed: Duration) -> Result<(), Fault> {
        if self.acted || self.tell(&format!("{}\n", until(allowed))).await {
            return Ok(());
        }
        // A stopped warden would end the command as soon as it continues.
        let _ = self.process.start_kill();
        if self.has_acted().await {
            return Ok(());
        }
        *self = Self::start(self.target, self.grace, allowed)?;
        Ok(())
    }

    /// Tells the warden that there is nothing left to end. Returns whether it has ended the command before.
    pub(crate) async fn dismiss(&mut self) -> bool {
        self.tell(DONE).await;
        drop(self.process.stdin.take());
        let acted = self.has_acted().await;
        let _ = timeout(ENDS, self.process.wait()).await;
        acted
    }

    async fn tell(&mut self, line: &str) -> bool {
        match &mut self.process.stdin {
            Some(input) => matches!(timeout(READS, input.write_all(line.as_bytes())).await, Ok(Ok(()))),
            None => false,
        }
    }

    /// Returns whether the warden has ended the command. It writes a line before it does so, and otherwise exits
    /// without one.
    async fn has_acted(&mut self) -> bool {
        if let Some(output) = &mut self.process.stdout {
            self.acted |= matches!(timeout(ENDS, output.read(&mut [0; 1])).await, Ok(Ok(1)));
        }
        self.acted
    }
}

/// Returns the end of `allowed` as the warden reads it: in milliseconds since the start of the machine.
fn until(allowed: Duration) -> u128 {
    (since_boot() + allowed).as_millis()
}
