//! Finds the processes of a command, and sends signals to them.

use std::fs;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, kill_process, kill_process_group, test_kill_process, test_kill_process_group,
};

/// The environment variable that marks a command and its children. Its value has the marks of all `lockctl run`
/// processes around the command. The mark of the innermost one is the last.
pub(crate) const MARK: &str = "LOCKCTL_RUN";

/// A command and its children. Children that have left the process group are found by their environment. A child is not
/// found if it has left the group and has cleared its environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) process: Pid,
    /// Whether the command has its own process group. If there is a terminal, the command stays in the group of
    /// `lockctl`. So it stays in the foreground, can read the terminal, and gets Ctrl-C.
    pub(crate) group: bool,
    /// The mark of this command in the value of [`MARK`].
    pub(crate) mark: u64,
    /// The session in which the command was started.
    pub(crate) session: i32,
}

/// A process of the command that has not ended.
struct Member {
    process: Pid,
    in_group: bool,
    /// Whether a nested `lockctl run` has started the process, and forwards signals to it.
    nested: bool,
}

impl Target {
    /// Returns the value of [`MARK`] for a command. `outer` is the value that this process has.
    pub(crate) fn marks(mark: u64, outer: &str) -> String {
        if outer.is_empty() { format!("{mark:x}") } else { format!("{outer}:{mark:x}") }
    }

    /// Sends signals to the command and to its children. Returns whether there are such processes. A nested `lockctl`
    /// itself forwards signals to its command. But KILL cannot be forwarded, so this function also sends KILL to the
    /// command of a nested `lockctl`.
    pub(crate) fn send(self, signals: &[Signal]) -> bool {
        // The group gets the signals first, because on a busy machine it takes long to check all processes.
        let at_once = self.leads_its_group();
        if at_once {
            self.signal_group(signals);
        }
        let Some(members) = self.members() else { return self.send_blindly(signals) };
        if !at_once && members.iter().any(|member| member.in_group) {
            self.signal_group(signals);
        }
        for &signal in signals {
            let others = members.iter().filter(|member| !member.in_group);
            for member in others.filter(|member| !member.nested || signal == Signal::KILL) {
                let _ = kill_process(member.process, signal);
            }
        }
        !members.is_empty()
    }

    /// Returns whether the command still runs and has its own process group.
    fn leads_its_group(self) -> bool {
        let own = (self.process.as_raw_pid(), self.session);
        self.group && group_and_session(self.process) == Some(own)
    }

    /// Sends signals to the process group. The kernel signals all processes of a group in one step, so no process
    /// escapes by a fork.
    fn signal_group(self, signals: &[Signal]) {
        for &signal in signals {
            let _ = kill_process_group(self.process, signal);
        }
    }

    /// Sends a signal to the process group of the command. If the command has no group, sends the signal to the command
    /// and to its children.
    pub(crate) fn forward(self, signal: Signal) {
        if self.group {
            let _ = kill_process_group(self.process, signal);
        } else {
            self.send(&[signal]);
        }
    }

    /// Returns whether a process of the command still runs. A zombie does not count.
    pub(crate) fn is_alive(self) -> bool {
        self.send(&[])
    }

    /// Sends signals like [`send`](Self::send), on systems without `/proc`.
    fn send_blindly(self, signals: &[Signal]) -> bool {
        for &signal in signals {
            let _ = match self.group {
                true => kill_process_group(self.process, signal),
                false => kill_process(self.process, signal),
            };
        }
        let tested =
            if self.group { test_kill_process_group(self.process) } else { test_kill_process(self.process) };
        // A process that this user may not signal is alive as well.
        tested != Err(Errno::SRCH)
    }

    /// Returns the processes that have the mark of the command in their environment, or belong to its group. Returns
    /// `None` on systems without `/proc`. A foreign process that has got the id of an ended process is not returned.
    fn members(self) -> Option<Vec<Member>> {
        let own = format!("{:x}", self.mark);
        fs::metadata("/proc/self/stat").ok()?;
        let names =
            fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let processes = names.filter_map(|name| Pid::from_raw(name.parse().ok()?));
        Some(processes.filter_map(|process| self.member(process, &own)).collect())
    }

    fn member(self, process: Pid, own: &str) -> Option<Member> {
        let (its_group, its_session) = group_and_session(process)?;
        let is_near = its_session == self.session;
        let in_group = self.group && is_near && its_group == self.process.as_raw_pid();
        // The command itself needs no mark, because it may have cleared its environment, as with `env -i`.
        if in_group || is_near && process == self.process {
            return Some(Member { process, in_group, nested: false });
        }
        let marks = marks(process)?;
        let is_marked = marks.split(':').any(|mark| mark == own);
        let nested = marks.rsplit(':').next() != Some(own);
        is_marked.then_some(Member { process, in_group, nested })
    }
}

/// Returns the session of this process. Returns 0 if its leader is outside of the container, or if there is no `/proc`.
pub(crate) fn own_session() -> i32 {
    // `getsid` of `rustix` is not used, because the kernel returns 0 for such a leader, which `rustix` cannot
    // represent.
    group_and_session(rustix::process::getpid()).map_or(0, |(_, session)| session)
}

/// Returns the process group of this process, or 0 if its leader is outside of the container.
pub(crate) fn own_group() -> i32 {
    match group_and_session(rustix::process::getpid()) {
        Some((group, _)) => group,
        #[expect(clippy::disallowed_methods, reason = "a system without `/proc` has no such containers")]
        None => rustix::process::getpgrp().as_raw_pid(),
    }
}

/// Returns the process group and the session of a process that has not ended. Each of them is 0 if its leader is
/// outside of the container. Both are 0 for a process of the kernel.
fn group_and_session(process: Pid) -> Option<(i32, i32)> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The text is `id (name) state parent group session ..`. The name may contain any characters.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    let mut number = |skipped: usize| fields.nth(skipped)?.parse().ok();
    Some((number(1)?, number(0)?))
}

/// Returns the marks of a process that has not ended.
fn marks(process: Pid) -> Option<String> {
    let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
    let environment = String::from_utf8_lossy(&environment);
    let value = environment.split('\0').find_map(|one| one.strip_prefix(MARK)?.strip_prefix('='))?;
    Some(value.to_owned())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;

    #[test]
    fn marks_are_appended() {
        assert_eq!(Target::marks(255, ""), "ff");
        assert_eq!(Target::marks(255, "1:2"), "1:2:ff");
    }

    #[test]
    fn a_process_that_got_the_id_of_one_that_has_ended_is_let_alone() {
        // This process is foreign: it has another session and another mark.
        let mut other =
            std::process::Command::new("setsid").args(["sleep", "600"]).spawn().expect("it starts");
        let process = Pid::from_child(&other);
        // The process has its own session when `setsid` has become `sleep`.
        while fs::read_to_string(format!("/proc/{process}/comm")).expect("it runs") != "sleep\n" {
            std::thread::yield_now();
        }
        let session = own_session();
        for group in [false, true] {
            let target = Target { process, group, mark: fastrand::u64(..), session };
            assert!(!target.is_alive());
            target.send(&[Signal::KILL]);
        }
        assert!(other.try_wait().expect("it can be asked").is_none(), "it runs");
        other.kill().expect("it ends");
        other.wait().expect("it has ended");
    }

    #[test]
    fn a_process_that_has_ended_is_not_alive() {
        let mut child = std::process::Command::new("true").process_group(0).spawn().expect("it starts");
        let session = own_session();
        let target = Target { process: Pid::from_child(&child), group: true, mark: 1, session };
        while group_and_session(target.process).is_some() {
            std::thread::yield_now();
        }
        assert!(!target.is_alive());
        child.wait().expect("it has ended");
    }
}
