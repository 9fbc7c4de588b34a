//! Starts the warden of a command, and sends messages to it. The warden itself is in `watch`.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child as Process, Command};
use tokio::time::timeout;

use crate::child;
use crate::exit::Fault;
use crate::target::{MARK, Target};
use crate::watch::{DONE, since_boot};

/// The longest time that a warden takes to read a line. If a warden takes longer, it counts as stopped.
const READS: Duration = Duration::from_millis(50);
/// The longest time that a warden takes to end.
const ENDS: Duration = Duration::from_secs(1);

/// The process that ends the command if `lockctl` is killed or stopped.
#[derive(Debug)]
pub(crate) struct Warden {
    process: Process,
    target: Target,
    grace: Duration,
    /// Whether the warden has ended the command.
    acted: bool,
}

impl Warden {
    /// Starts the warden of a command that may run for the time `allowed`.
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

    /// Sends the warden the time for which the command may run before the next message. Replaces a warden that does not
    /// read its messages.
    pub(crate) async fn allow(&mut self, allowed: Duration) -> Result<(), Fault> {
        if self.acted || self.tell(&format!("{}\n", until(allowed))).await {
            return Ok(());
        }
        // Kills the old warden. A warden that is only stopped would end the command when it continues.
        let _ = self.process.start_kill();
        if self.has_acted().await {
            return Ok(());
        }
        *self = Self::start(self.target, self.grace, allowed)?;
        Ok(())
    }

    /// Ends the warden, because the command has ended. Returns whether it was the warden that ended the command.
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

    /// Returns whether the warden has ended the command. The warden writes a line only before it ends a command.
    async fn has_acted(&mut self) -> bool {
        if let Some(output) = &mut self.process.stdout {
            self.acted |= matches!(timeout(ENDS, output.read(&mut [0; 1])).await, Ok(Ok(1)));
        }
        self.acted
    }
}

/// Returns the moment at which `allowed` ends, in milliseconds since the start of the machine. The warden reads times
/// in this form.
fn until(allowed: Duration) -> u128 {
    (since_boot() + allowed).as_millis()
}
