//! Counts how many requests per second find a key held, for strategies that use this rate.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock::Moment;
use crate::sync::Mutex;

/// The time over which a rate is measured.
const SECOND: Duration = Duration::from_secs(1);

/// Keys without recent requests are removed only if there are at least this many keys.
const SWEEP_AT: usize = 64;

/// Counts, for each key, the requests of one process that found the key held. Only requests whose strategy uses the
/// rate are counted, so other requests cause no cost.
#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<ByKey>);

#[derive(Debug, Default)]
struct ByKey {
    windows: HashMap<Box<str>, Window>,
    /// The number of keys at which old keys are removed next. This is twice the number that remained after the last
    /// removal, so that the average cost per request is constant.
    sweep_at: usize,
}

impl Rates {
    /// Counts a request for `key`, and returns the rate, including this request.
    pub(crate) fn arrived(&self, key: &str, now: Moment) -> f64 {
        let mut rates = self.0.lock();
        if let Some(window) = rates.windows.get_mut(key) {
            return window.arrived(now);
        }
        if rates.windows.len() >= rates.sweep_at.max(SWEEP_AT) {
            rates.windows.retain(|_, window| !window.is_over(now));
            rates.sweep_at = 2 * rates.windows.len();
        }
        rates.windows.entry(key.into()).or_insert_with(|| Window::new(now)).arrived(now)
    }
}

/// The requests of the current second and of the second before. The rate is the number of current requests plus a part
/// of the earlier requests. That part is estimated as if the earlier requests were spread evenly over their second.
#[derive(Debug)]
struct Window {
    began: Moment,
    before: u32,
    current: u32,
}

impl Window {
    fn new(now: Moment) -> Self {
        Self { began: now, before: 0, current: 0 }
    }

    fn arrived(&mut self, now: Moment) -> f64 {
        let past = now.since(self.began);
        if past >= 2 * SECOND {
            *self = Self::new(now);
        } else if past >= SECOND {
            (self.before, self.current) = (self.current, 0);
            self.began = self.began.plus(SECOND);
        }
        self.current = self.current.saturating_add(1);
        let covered = SECOND.saturating_sub(now.since(self.began)).as_secs_f64();
        f64::from(self.before) * covered + f64::from(self.current)
    }

    /// Returns whether all requests in the window are too old to count.
    fn is_over(&self, now: Moment) -> bool {
        now.since(self.began) >= 2 * SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn the_rate_is_that_of_the_last_second() {
        let start = Clock::Suspend.now();
        // Each row contains the times of the requests in milliseconds, and the rate that the last request returns.
        for (requests, rate) in [
            (&[0][..], 1.0),
            (&[0, 0, 0, 900], 4.0),
            (&[0, 0, 0, 0, 1_000], 5.0),
            (&[0, 0, 0, 0, 1_250], 4.0),
            (&[0, 0, 0, 0, 1_750], 2.0),
            (&[0, 0, 0, 0, 2_000], 1.0),
            (&[0, 0, 1_500, 2_500], 1.5),
        ] {
            let rates = Rates::default();
            let found = requests.iter().map(|at| rates.arrived("k", start.plus(Duration::from_millis(*at))));
            assert_eq!(found.last(), Some(rate), "{requests:?}");
        }
    }

    #[test]
    fn each_key_has_its_rate_and_old_ones_are_forgotten() {
        let (rates, start) = (Rates::default(), Clock::Suspend.now());
        for key in 0..10_000_u64 {
            let at = start.plus(Duration::from_millis(10 * key));
            assert_eq!(rates.arrived(&key.to_string(), at).to_bits(), 1.0_f64.to_bits());
        }
        assert!(rates.0.lock().windows.len() <= 400, "two seconds have 200 keys");
    }
}
