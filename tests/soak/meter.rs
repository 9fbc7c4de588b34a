//! The resources that the process uses, and the table.

use std::fmt;
use std::time::Duration;

/// The measurements of one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Duration,
    /// The memory of the process, in KiB.
    pub(crate) memory: usize,
    pub(crate) descriptors: usize,
    /// The number of entries on the server.
    pub(crate) left: usize,
    /// The size of the server's data.
    pub(crate) bytes: usize,
    /// The number of keys in use so far.
    pub(crate) keys: usize,
    pub(crate) holds: usize,
}

/// The first line of the table.
pub(crate) const HEAD: &str = "| store | tokens | at | keys | holds | memory KiB | descriptors | left | server KiB |\n|---|---|---|---|---|---|---|---|---|";

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, memory, descriptors, left, bytes, keys, holds } = self;
        let size = bytes / 1024;
        write!(f, "{:.0} s | {keys} | {holds} | {memory} | {descriptors} | {left} | {size}", at.as_secs_f64())
    }
}

/// Returns the memory of this process, in KiB.
pub(crate) fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
}

/// Returns the number of open file descriptors of this process.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux").count()
}
