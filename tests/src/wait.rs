//! Waiting for something that cannot be awaited, with a bound and a clear end.

use std::time::{Duration, Instant};

/// How long the rig waits for anything before it gives up: far above every figure seen, also on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Polls `condition` until it is true.
///
/// The bound counts real time, also on a runtime whose clock is paused.
///
/// # Panics
/// When `bound` is over, naming `what` was waited for.
pub async fn wait_until(what: &str, bound: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let bound = Bound::new(bound);
    while !condition().await {
        bound.check(what);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// As [`wait_until`], with a `report` of what is there instead.
///
/// # Panics
/// When `bound` is over, with the report, which is made then.
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

/// Now, by `CLOCK_MONOTONIC`: the same clock in every process of this machine.
#[must_use]
pub fn monotonic() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(
        u64::try_from(now.tv_sec).expect("BUG: it counts from the start of the machine"),
        u32::try_from(now.tv_nsec).expect("BUG: nanoseconds are below a thousand million"),
    )
}

/// A span of real time that must not run out.
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

    /// Real time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Panics when the limit is over.
    ///
    /// # Panics
    /// With a text that names `what` and the limit.
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
