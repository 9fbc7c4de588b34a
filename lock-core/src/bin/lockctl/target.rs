//! The processes of a command.

use rustix::process::{
    Pid, Signal, kill_process, kill_process_group, test_kill_process, test_kill_process_group,
};

/// The variable that marks a command and its children.
pub(crate) const MARK: &str = "LOCKCTL_RUN";

/// What a signal is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) process: Pid,
    /// Whether the command has a process group of its own. On a terminal it has none: it stays in the foreground, reads the
    /// terminal, and gets Ctrl-C from it. Its children are then found by their mark.
    pub(crate) group: bool,
    /// The value of [`MARK`].
    pub(crate) mark: u64,
}

impl Target {
    /// Sends a signal to the command and to its children.
    pub(crate) fn send(self, signal: Signal) {
        if self.group {
            let _ = kill_process_group(self.process, signal);
            return;
        }
        let _ = kill_process(self.process, signal);
        self.marked().into_iter().filter(|process| *process != self.process).for_each(|process| {
            let _ = kill_process(process, signal);
        });
    }

    /// Returns whether a process is left.
    pub(crate) fn is_alive(self) -> bool {
        match self.group {
            true => test_kill_process_group(self.process).is_ok(),
            false => test_kill_process(self.process).is_ok() || !self.marked().is_empty(),
        }
    }

    /// Returns the processes with the mark in their environment. Empty where there is no `/proc`.
    fn marked(self) -> Vec<Pid> {
        let mark = format!("{MARK}={:x}", self.mark);
        let has_mark = |process: &Pid| {
            let environment = std::fs::read(format!("/proc/{}/environ", process.as_raw_nonzero()));
            environment.is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == mark.as_bytes()))
        };
        let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
        let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter_map(Pid::from_raw).filter(has_mark).collect()
    }
}
