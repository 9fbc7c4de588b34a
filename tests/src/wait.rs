//! Bounded waiting for conditions that cannot be awaited.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use lock_core::{LockError, LockGuard};

/// The longest wait of a test for an event that must happen. It is far longer than any measured time, even on a machine
/// with five times as much work as it can do. It is shorter than the leases of a minute that many tests use, so that
/// the end of a lease is not mistaken for a release.
pub const PATIENCE: Duration = Duration::from_secs(50);

/// The time limit for the tests' own servers. No lease limits this time.
pub const START_WITHIN: Duration = Duration::from_secs(180);

/// The pause before the second check. It grows with the wait, because a check may start a process.
const LOOK_SOON: Duration = Duration::from_millis(2);
const LOOK_AT_LEAST: Duration = Duration::from_millis(50);

/// Polls `condition` until it is true.
///
/// The bound is measured in real time, even on a runtime whose clock is paused.
///
/// # Panics
/// When `bound` has passed. The text names `what` the test waited for.
pub async fn wait_until(what: &str, bound: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let bound = Bound::new(bound);
    while !condition().await {
        bound.check(what);
        tokio::time::sleep(bound.pause()).await;
    }
}

/// Polls `condition` with a `report` of the actual state. Otherwise like [`wait_until`].
///
/// # Panics
/// When `bound` has passed. The text contains the report, which is created at that time.
pub async fn wait_until_or(
    what: &str,
    bound: Duration,
    mut condition: impl AsyncFnMut() -> bool,
    report: impl FnOnce() -> String,
) {
    let bound = Bound::new(bound);
    while !condition().await {
        if bound.elapsed() >= bound.limit {
            panic!("waited {:?} in vain: {what}\n{}", bound.limit, report());
        }
        tokio::time::sleep(bound.pause()).await;
    }
}

/// Repeats `acquire` and the release of its lock until both succeed.
///
/// # Panics
/// When [`PATIENCE`] has passed. The text contains the last error.
pub async fn until_locked_again(mut acquire: impl AsyncFnMut() -> Result<LockGuard, LockError>) {
    let last = Mutex::new(None);
    let cycle = async || {
        let answer = match acquire().await {
            Ok(guard) => guard.release().await.map(drop),
            Err(error) => Err(error),
        };
        let done = answer.is_ok();
        *last.lock().expect("no panic") = answer.err();
        done
    };
    let report = || format!("the last error: {:?}", last.lock().expect("no panic"));
    wait_until_or("locks can be taken again", PATIENCE, cycle, report).await;
}

/// Repeats simultaneous measurements at most ten times, until the minimum of each is below `limit`. A busy machine may
/// be late many times, but a step that takes too long is always late.
///
/// # Panics
/// When the minimum of one of the measurements is not below `limit` after ten rounds.
pub async fn soon_in_one_of_ten<const N: usize>(
    limit: Duration,
    mut measure: impl AsyncFnMut() -> [Duration; N],
) {
    let mut least = [Duration::MAX; N];
    for _ in 0..10 {
        for (least, took) in least.iter_mut().zip(measure().await) {
            *least = took.min(*least);
        }
        if least.iter().all(|least| *least < limit) {
            return;
        }
    }
    panic!("the least of ten goes are {least:?}, where {limit:?} are allowed");
}

/// Returns the time of `CLOCK_MONOTONIC`, which is the same clock in every process of this machine.
#[must_use]
pub fn monotonic() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(
        u64::try_from(now.tv_sec).expect("BUG: it counts from the start of the machine"),
        u32::try_from(now.tv_nsec).expect("BUG: nanoseconds are below a thousand million"),
    )
}

/// A time limit in real time.
#[derive(Debug)]
pub struct Bound {
    since: Instant,
    limit: Duration,
}

impl Bound {
    /// Starts the time limit now.
    #[allow(
        clippy::disallowed_methods,
        reason = "the rig measures real time, apart from the clock under test"
    )]
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self { since: Instant::now(), limit }
    }

    /// Returns the real time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Returns the pause before the next check of the condition.
    fn pause(&self) -> Duration {
        (self.elapsed() / 16).clamp(LOOK_SOON, LOOK_AT_LEAST)
    }

    /// Checks that the limit has not passed.
    ///
    /// # Panics
    /// When the limit has passed. The text names `what` and the limit.
    pub fn check(&self, what: &str) {
        assert!(self.elapsed() < self.limit, "waited {:?} in vain: {what}", self.limit);
    }

    /// Polls `condition` on this thread until it is true.
    ///
    /// # Panics
    /// When the conditions of [`check`](Self::check) apply.
    pub(crate) fn block_until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        while !condition() {
            self.check(what);
            std::thread::sleep(self.pause());
        }
    }
}
