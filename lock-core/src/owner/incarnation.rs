//! Which run of a process made a record, and whether that run is over.
//!
//! A process id alone says little: it is reused, and each container and each machine has its own. So the record of a
//! named owner also has the boot of the kernel, the namespace of the process ids, and the start of the process. Where
//! the reader has the same kernel and the same namespace, the kernel knows whether that process is there. Anywhere else
//! nothing is known, and nothing is assumed.

use std::fmt;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use sha2::{Digest, Sha256};

/// What the kernel of this process says about the process of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Liveness {
    /// It has ended, and so have all of its threads. It never runs again.
    Dead,
    /// It is there. It may be stopped, or a zombie.
    Alive,
    /// It is on another machine or in another container, or the record or the system does not tell.
    Unknown,
}

/// One run of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Incarnation {
    /// A digest of the id that the kernel drew when it started.
    boot: String,
    /// The namespaces of process ids and of time. Numbers are used again only when a namespace is gone with all of its
    /// processes.
    namespaces: (u64, u64),
    /// When the process started, in ticks since the boot.
    start: u64,
}

impl Incarnation {
    /// Returns the incarnation of the calling process; `None` where the system does not tell: without a `/proc` of its
    /// own namespace, which only Linux has.
    ///
    /// It is read each time: a forked child must not have that of its parent.
    pub(crate) fn of_this_process() -> Option<Self> {
        let own = std::process::id();
        // The `/proc` of another namespace, as a container may be given, tells of other processes.
        let shown = std::fs::read_link("/proc/self").ok()?;
        if shown.to_str()?.parse() != Ok(own) {
            return None;
        }
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let digest = Sha256::digest(boot.trim());
        Some(Self {
            boot: digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect(),
            namespaces: (namespace("pid")?, namespace("time").unwrap_or(0)),
            start: start_of(own)?,
        })
    }

    /// Returns what is known of the process `pid` of this incarnation.
    pub(crate) fn liveness(&self, pid: u32) -> Liveness {
        let Some(own) = Self::of_this_process() else { return Liveness::Unknown };
        decide(self, &own, || look(pid))
    }

    /// Reads what [`Display`](fmt::Display) writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let boot = parts.next().filter(|boot| boot.len() == 32)?.to_owned();
        let mut number = || parts.next()?.parse().ok();
        let parsed = Self { boot, namespaces: (number()?, number()?), start: number()? };
        parts.next().is_none().then_some(parsed)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", self.boot, self.namespaces.0, self.namespaces.1, self.start)
    }
}

/// What the kernel shows of a process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Nobody,
    /// There is one, which started then; `None` where it may not be read.
    Since(Option<u64>),
    /// The question was not answered.
    Nothing,
}

fn decide(other: &Incarnation, own: &Incarnation, look: impl FnOnce() -> Shown) -> Liveness {
    if other.boot != own.boot || other.namespaces != own.namespaces {
        return Liveness::Unknown;
    }
    match look() {
        Shown::Nobody => Liveness::Dead,
        // The id was given to another process.
        Shown::Since(Some(start)) if start != other.start => Liveness::Dead,
        Shown::Since(Some(_)) => Liveness::Alive,
        Shown::Since(None) | Shown::Nothing => Liveness::Unknown,
    }
}

/// Asks by a signal that is never sent: `/proc` may be mounted so that it hides the processes of other users.
fn look(pid: u32) -> Shown {
    let Some(id) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Shown::Nothing };
    match test_kill_process(id) {
        Err(Errno::SRCH) => Shown::Nobody,
        Ok(()) | Err(Errno::PERM) => Shown::Since(start_of(pid)),
        Err(_) => Shown::Nothing,
    }
}

fn namespace(kind: &str) -> Option<u64> {
    let link = std::fs::read_link(format!("/proc/self/ns/{kind}")).ok()?;
    link.to_str()?.strip_prefix(kind)?.strip_prefix(":[")?.strip_suffix(']')?.parse().ok()
}

fn start_of(pid: u32) -> Option<u64> {
    started(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads the 22nd field of `/proc/<pid>/stat`. The second is the name of the program in parentheses, which may have
/// spaces and parentheses itself.
fn started(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incarnation(boot: char, pid_namespace: u64, time_namespace: u64, start: u64) -> Incarnation {
        Incarnation { boot: boot.to_string().repeat(32), namespaces: (pid_namespace, time_namespace), start }
    }

    #[test]
    fn only_a_kernel_that_must_know_says_that_a_process_is_dead() {
        let own = incarnation('a', 1, 2, 700);
        let other = incarnation('a', 1, 2, 500);
        for (other, shown, expected) in [
            (other.clone(), Shown::Nobody, Liveness::Dead),
            (other.clone(), Shown::Since(Some(501)), Liveness::Dead),
            (other.clone(), Shown::Since(Some(500)), Liveness::Alive),
            (other.clone(), Shown::Since(None), Liveness::Unknown),
            (other, Shown::Nothing, Liveness::Unknown),
            (incarnation('b', 1, 2, 500), Shown::Nobody, Liveness::Unknown),
            (incarnation('a', 9, 2, 500), Shown::Nobody, Liveness::Unknown),
            (incarnation('a', 1, 9, 500), Shown::Since(Some(501)), Liveness::Unknown),
        ] {
            assert_eq!(decide(&other, &own, || shown), expected, "{other}, {shown:?}");
        }
    }

    #[test]
    fn an_incarnation_survives_the_store() {
        let own = incarnation('a', 4_026_531_836, 0, 123);
        assert_eq!(Incarnation::parse(&own.to_string()), Some(own));
        for bad in ["", "a.1.2.3", &format!("{}.1.2", "a".repeat(32)), &format!("{}.1.2.3.4", "a".repeat(32))]
        {
            assert_eq!(Incarnation::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_program_may_have_any_name() {
        let fields: Vec<_> = (4..=52).map(|number: u32| number.to_string()).collect();
        for name in ["cat", "a b", "a) R 1 (b", ")"] {
            assert_eq!(started(&format!("7 ({name}) S {}", fields.join(" "))), Some(22), "{name}");
        }
        assert_eq!(started("7 (cat) S 1"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_alive_until_it_was_waited_for() {
        let own = Incarnation::of_this_process().expect("/proc is mounted");
        assert_eq!(own.liveness(std::process::id()), Liveness::Alive);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep is installed");
        let of_child = Incarnation { start: start_of(child.id()).expect("it runs"), ..own.clone() };
        assert_eq!(of_child.liveness(child.id()), Liveness::Alive);
        child.kill().expect("it runs");
        // A zombie may have threads that still run.
        assert_ne!(of_child.liveness(child.id()), Liveness::Dead);
        child.wait().expect("it has ended");
        assert_eq!(of_child.liveness(child.id()), Liveness::Dead);
        // The process that has an id now is not the one that had it.
        let before = Incarnation { start: own.start - 1, ..own };
        assert_eq!(before.liveness(std::process::id()), Liveness::Dead);
    }
}
