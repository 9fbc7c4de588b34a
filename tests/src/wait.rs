//! Bounded waiting for conditions that cannot be awaited.

use std::time::{Duration, Instant};

/// How long the rig waits for anything: far longer than any measured time, also on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The pause between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Polls `condition` until it is true.
///
/// The bound is measured in real time, also on a runtime whose clock is paused.
///
/// # Panics
/// When `bound` has passed. The text names `what` was waited for.
pub async fn wait_until(what: &str, bound: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let bound = Bound::new(bound);
    while !condition().await {
        bound.check(what);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Like [`wait_until`], with a `report` of the actual state.
///
/// # Panics
/// When `bound` has passed, with the report, which is made at that time.
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
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Measures several times at once, and again, three times at most, until the least of each is below `limit`. A busy machine
/// may be late once, but a step that takes too long does so every time.
///
/// # Panics
/// When the least of one of them is not below `limit` after three goes.
pub async fn soon_in_one_of_three<const N: usize>(
    limit: Duration,
    mut measure: impl AsyncFnMut() -> [Duration; N],
) {
    let mut least = [Duration::MAX; N];
    for _ in 0..3 {
        for (least, took) in least.iter_mut().zip(measure().await) {
            *least = took.min(*least);
        }
        if least.iter().all(|least| *least < limit) {
            return;
        }
    }
    panic!("the least of three goes are {least:?}, where {limit:?} are allowed");
}

/// Returns the time of `CLOCK_MONOTONIC`, the same clock in every process of this machine.
#[must_use]
pub fn monotonic() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(
        u64::try_from(now.tv_sec).expect("BUG: it counts from the start of the machine"),
        u32::try_from(now.tv_nsec).expect("BUG: nanoseconds are below a thousand million"),
    )
}

/// A limit of real time.
#[derive(Debug)]
pub struct Bound {
    since: Instant,
    limit: Duration,
}

impl Bound {
    /// Starts now.
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
    /// As [`check`](Self::check).
    pub(crate) fn block_until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        while !condition() {
            self.check(what);
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
