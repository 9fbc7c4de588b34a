//! Measures how long the requests of a layer use their keys. The `Retry-After` of a refused client depends on this
//! time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_core::clock::{Clock, Moment};

use crate::key_limit::KeyPermit;

/// A key is probably free after this many times the mean duration of a request. Most requests are shorter than this,
/// and the holder has already done a part of its work when another request is refused.
const TIMES_THE_MEAN: u32 = 3;

/// The weight of the previous mean. The last request has the weight 1, so old requests soon count little.
const WEIGHT: u64 = 7;

/// The mean duration of the last requests, in microseconds; 0 before the first request has ended. All services of a
/// layer share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct UseTimes(Arc<AtomicU64>);

impl UseTimes {
    /// Counts the keys of a request that has its lock, and measures the time of the request, until the returned value
    /// is dropped.
    pub(crate) fn begin(&self, permit: KeyPermit) -> InUse {
        InUse { times: self.clone(), since: Clock::Tokio.now(), permit }
    }

    /// Returns the time after which a key is probably free, or `None` before the first request has ended.
    pub(crate) fn probably_free_after(&self) -> Option<Duration> {
        let mean = self.0.load(Ordering::Relaxed);
        (mean > 0).then(|| Duration::from_micros(mean) * TIMES_THE_MEAN)
    }

    fn add(&self, time: Duration) {
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX / (WEIGHT + 1)).max(1);
        let mean = |mean: u64| match mean {
            0 => time,
            mean => mean.saturating_mul(WEIGHT).saturating_add(time) / (WEIGHT + 1),
        };
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |so_far| Some(mean(so_far)));
    }
}

/// A request with its lock. The keys are counted, and the time is measured, until this value is dropped.
#[derive(Debug)]
pub(crate) struct InUse {
    times: UseTimes,
    since: Moment,
    #[allow(dead_code, reason = "held for its drop")]
    permit: KeyPermit,
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.times.add(Clock::Tokio.now().since(self.since));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_what_requests_take() {
        let times = UseTimes::default();
        assert_eq!(times.probably_free_after(), None);
        times.add(Duration::from_millis(100));
        assert_eq!(times.probably_free_after(), Some(Duration::from_millis(300)));
        for _ in 0..50 {
            times.add(Duration::from_secs(2));
        }
        let after = times.probably_free_after().expect("measured");
        assert!((Duration::from_secs(5)..=Duration::from_secs(6)).contains(&after), "{after:?}");
        times.add(Duration::MAX);
        assert!(times.probably_free_after().is_some(), "no overflow");
    }
}
