//! Reads the CPU time of a process.

use std::time::Duration;

/// Returns the CPU time of this process so far, of all its threads and of the kernel on its behalf.
pub(crate) fn own() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the CPU time of the process `pid`, in steps of 10 ms; `None` if the system does not report it.
pub(crate) fn of(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The process name may contain anything, so parsing begins after it. Fields 14 and 15 are the times in ticks of 10
    // ms.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (ticks()? + ticks()?)))
}
