//! A second process under the control of the test.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use tokio::sync::mpsc;

use crate::process::Process;
use crate::wait::PATIENCE;

/// The program `worker` as a child process. It receives arguments, and lines on its input. It answers in lines.
///
/// The worker shares the standard error of the test. Start it with `Worker::start(env!("CARGO_BIN_EXE_worker"), ..)`.
#[derive(Debug)]
pub struct Worker {
    process: Process,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Worker {
    /// Starts `program`.
    ///
    /// # Panics
    /// When the program cannot be started.
    #[must_use]
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        Self::start_with(program, arguments, &[])
    }

    /// Starts `program` with further environment variables. Otherwise like [`start`](Self::start).
    ///
    /// # Panics
    /// When the program cannot be started.
    #[must_use]
    pub fn start_with(program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::spawn(&mut command, None)
            .unwrap_or_else(|error| panic!("cannot start {program}: {error}"));
        let output = process.child_mut().stdout.take().expect("BUG: the output was asked for");
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { process, lines }
    }

    /// Returns the next line of the output, or `None` at its end.
    ///
    /// # Panics
    /// When the wait takes longer than [`PATIENCE`].
    pub async fn line(&mut self) -> Option<String> {
        let line = tokio::time::timeout(PATIENCE, self.lines.recv()).await;
        line.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain for a line of the worker"))
    }

    /// Waits for a line that starts with `word`, and returns the rest of the line.
    ///
    /// # Panics
    /// When the next line starts differently, or there is no next line.
    pub async fn expect(&mut self, word: &str) -> String {
        let line = self.line().await.unwrap_or_else(|| panic!("the worker ended instead of printing {word}"));
        let rest =
            line.strip_prefix(word).unwrap_or_else(|| panic!("expected {word}, the worker printed: {line}"));
        rest.trim().to_owned()
    }

    /// Sends a line to the worker.
    ///
    /// # Panics
    /// When the worker has ended.
    pub fn tell(&mut self, line: &str) {
        let input = self.process.child_mut().stdin.as_mut().expect("the worker's input is open");
        writeln!(input, "{line}").expect("the worker has ended");
    }

    /// Waits until the worker ends, and returns the lines that were not read yet.
    ///
    /// # Panics
    /// When the worker fails, or runs for longer than [`PATIENCE`].
    pub async fn finish(mut self) -> Vec<String> {
        drop(self.process.child_mut().stdin.take());
        let mut rest = Vec::new();
        while let Some(line) = self.line().await {
            rest.push(line);
        }
        let mut status = None;
        crate::wait_until("the worker ends", PATIENCE, async || {
            status = self.process.exited();
            status.is_some()
        })
        .await;
        assert!(
            status.is_some_and(|status| status.success()),
            "the worker failed ({status:?}) after {rest:?}"
        );
        rest
    }

    /// Kills the worker with SIGKILL, even if it is stopped, and returns the lines that were not read yet. The last
    /// line may be incomplete.
    ///
    /// # Panics
    /// When the output continues for longer than [`PATIENCE`].
    pub async fn kill9(mut self) -> Vec<String> {
        self.process.kill9();
        let mut rest = Vec::new();
        while let Some(line) = self.line().await {
            rest.push(line);
        }
        rest
    }

    /// Returns the number of output lines that were not read yet.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.lines.len()
    }

    /// Returns the process of the worker, to stop, continue and kill it.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}
