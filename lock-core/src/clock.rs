//! Reads the clocks. No other module reads a clock.
//!
//! A grant is valid until a local deadline, even if the network fails. So the clock for the deadline must not stop
//! while the machine is suspended, and must not jump when the wall clock is set. On Linux, no single clock guarantees
//! both on every kernel and virtual machine. So two clocks are read: `CLOCK_BOOTTIME`, which runs during suspend, and
//! `CLOCK_MONOTONIC`, which stops. The *smaller remaining time* of the two is used.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use once_cell::sync::Lazy;

use crate::simulation;

/// The clock with which a manager measures its leases.
///
/// The leases of a store in another process are measured with [`Clock::Suspend`]. The leases of the memory store, which
/// is in this process, are measured with [`Clock::Tokio`], so that a test with a paused tokio clock controls their
/// expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clock {
    /// Both `CLOCK_BOOTTIME` and `CLOCK_MONOTONIC`. The clock with less remaining time determines the result.
    Suspend,
    /// tokio's clock, which a test can pause and advance.
    Tokio,
    /// [`Suspend`](Self::Suspend), with a machine that a test can suspend.
    #[cfg(test)]
    Suspended(&'static Suspended),
}

/// The total time for which a test has suspended the machine, in nanoseconds.
#[cfg(test)]
#[derive(Debug, Default)]
pub struct Suspended(std::sync::atomic::AtomicI64);

#[cfg(test)]
impl Suspended {
    /// Creates a machine for one test.
    pub(crate) fn machine() -> &'static Self {
        Box::leak(Box::default())
    }

    pub(crate) fn suspend(&self, time: Duration) {
        self.0.fetch_add(nanos(time), std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(test)]
thread_local! {
    static REMOTE: std::cell::Cell<Clock> = const { std::cell::Cell::new(Clock::Suspend) };
}

/// Returns the clock for remote stores of managers that this thread creates.
#[cfg(test)]
pub(crate) fn of_remote() -> Clock {
    REMOTE.get()
}

/// Calls `make`. Managers that it creates measure the leases of remote stores with `clock`.
#[cfg(test)]
pub(crate) fn with_clock<T>(clock: Clock, make: impl FnOnce() -> T) -> T {
    REMOTE.set(clock);
    let made = make();
    REMOTE.set(Clock::Suspend);
    made
}

#[cfg(test)]
impl PartialEq for Suspended {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

#[cfg(test)]
impl Eq for Suspended {}

/// A point in time of one [`Clock`], in nanoseconds since an arbitrary start.
///
/// Moments of different clocks must not be compared. A manager uses only one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    mono: i64,
    boot: i64,
}

static START: Lazy<std::time::Instant> = Lazy::new(std_now);

#[allow(clippy::disallowed_methods, reason = "the clock module is where time is read")]
fn std_now() -> std::time::Instant {
    std::time::Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "the clock module is where time is read")]
fn tokio_now() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}

/// Returns the time since the Unix epoch by the wall clock. Use it for owner records, random waits and output for
/// users, but never to decide whether a lock is held.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the clock module is where time is read")]
pub fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A time since the Unix epoch, which is displayed like `2026-11-20T20:53:20Z`.
pub(crate) struct Date(pub(crate) Duration);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const YEAR_10000: Duration = Duration::from_secs(253_402_300_800);
        match UNIX_EPOCH.checked_add(self.0).filter(|_| self.0 < YEAR_10000) {
            Some(time) => humantime::format_rfc3339_seconds(time).fmt(f),
            // This happens only if the clock is wrong.
            None => f.write_str("a time after the year 9999"),
        }
    }
}

impl Clock {
    /// Reads the clock.
    #[must_use]
    pub fn now(self) -> Moment {
        if let Some(now) = simulation::now() {
            return Moment { mono: now, boot: now };
        }
        match self {
            Self::Suspend => Moment { mono: monotonic(), boot: boottime() },
            Self::Tokio => {
                let now = since_start(tokio_now());
                Moment { mono: now, boot: now }
            }
            #[cfg(test)]
            Self::Suspended(Suspended(time)) => {
                let ahead = time.load(std::sync::atomic::Ordering::SeqCst);
                Moment { mono: monotonic(), boot: boottime() + ahead }
            }
        }
    }
}

fn since_start(at: std::time::Instant) -> i64 {
    match at.checked_duration_since(*START) {
        Some(after) => nanos(after),
        None => -nanos(START.saturating_duration_since(at)),
    }
}

/// Returns a duration in nanoseconds, limited to `i64::MAX`. The result has 64 bits, because every step of a lock adds
/// a duration to a moment, and 128-bit arithmetic would cost several times as much.
pub(crate) fn nanos(duration: Duration) -> i64 {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(duration.subsec_nanos()))
}

/// Reads the same clock as [`std::time::Instant`], but in half the time.
#[cfg(target_os = "linux")]
fn monotonic() -> i64 {
    read(rustix::time::ClockId::Monotonic)
}

#[cfg(target_os = "linux")]
fn boottime() -> i64 {
    read(rustix::time::ClockId::Boottime)
}

#[cfg(target_os = "linux")]
fn read(clock: rustix::time::ClockId) -> i64 {
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

#[cfg(not(target_os = "linux"))]
fn monotonic() -> i64 {
    since_start(std_now())
}

/// Reads the monotonic clock, because other systems have no second clock. Whether this clock runs during suspend
/// depends on the system.
#[cfg(not(target_os = "linux"))]
fn boottime() -> i64 {
    monotonic()
}

impl Moment {
    /// Returns the moment that is `duration` later, limited to the last possible moment.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let nanos = nanos(duration);
        Self { mono: self.mono.saturating_add(nanos), boot: self.boot.saturating_add(nanos) }
    }

    /// Returns the later reading of each of the two clocks.
    #[must_use]
    pub(crate) fn latest(self, other: Self) -> Self {
        Self { mono: self.mono.max(other.mono), boot: self.boot.max(other.boot) }
    }

    /// Returns the time from `now` to this moment, which is the smaller remaining time of the two clocks. The result is
    /// zero if either clock has passed the moment.
    #[must_use]
    pub fn remaining(self, now: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.nanos_left(now)).unwrap_or(0))
    }

    /// Returns the same as [`remaining`](Self::remaining) in nanoseconds. The result is negative if the moment has
    /// passed.
    pub(crate) fn nanos_left(self, now: Self) -> i64 {
        self.mono.saturating_sub(now.mono).min(self.boot.saturating_sub(now.boot))
    }

    /// Returns whether either clock has passed this moment at `now`.
    #[must_use]
    pub fn is_past(self, now: Self) -> bool {
        self.nanos_left(now) <= 0
    }

    /// Returns the time from `earlier` to this moment, which is the larger difference of the two clocks.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let passed = self.mono.saturating_sub(earlier.mono).max(self.boot.saturating_sub(earlier.boot));
        Duration::from_nanos(u64::try_from(passed).unwrap_or(0))
    }

    /// Returns the earlier of two moments, as seen from `now`.
    pub(crate) fn earlier(self, other: Self, now: Self) -> Self {
        if other.remaining(now) < self.remaining(now) { other } else { self }
    }

    pub(crate) fn parts(self) -> (i64, i64) {
        (self.mono, self.boot)
    }

    pub(crate) fn from_parts((mono, boot): (i64, i64)) -> Self {
        Self { mono, boot }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mono: i64, boot: i64) -> Moment {
        Moment { mono, boot }
    }

    #[test]
    fn the_smaller_remainder_counts() {
        let deadline = at(1_000, 1_000);
        assert_eq!(deadline.remaining(at(400, 400)), Duration::from_nanos(600));
        // The machine was suspended for 500 ns. The boot clock continued, and the monotonic clock stopped.
        assert_eq!(deadline.remaining(at(400, 900)), Duration::from_nanos(100));
        assert!(deadline.is_past(at(400, 1_000)));
        assert!(deadline.is_past(at(1_000, 400)));
    }

    #[test]
    fn elapsed_is_the_larger_of_both() {
        assert_eq!(at(10, 500).since(at(0, 0)), Duration::from_nanos(500));
    }

    #[test]
    fn nanoseconds_saturate() {
        let table = [
            (Duration::ZERO, 0),
            (Duration::new(3, 7), 3_000_000_007),
            (Duration::new(9_223_372_036, 854_775_807), i64::MAX),
            (Duration::new(9_223_372_036, 854_775_808), i64::MAX),
            (Duration::MAX, i64::MAX),
        ];
        for (duration, expected) in table {
            assert_eq!(nanos(duration), expected, "{duration:?}");
        }
    }

    #[test]
    fn arithmetic_saturates() {
        let end = at(i64::MAX - 1, i64::MAX - 1).plus(Duration::MAX);
        assert!(!end.is_past(at(i64::MAX - 2, i64::MAX - 2)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_tokio_clock_can_be_paused() {
        let start = Clock::Tokio.now();
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(Clock::Tokio.now().since(start), Duration::from_secs(5));
    }
}
