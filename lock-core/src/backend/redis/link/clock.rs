//! Estimates the server's clock.

use std::sync::atomic::{AtomicI64, Ordering};

use ::redis::Value;

use super::probe::parsed;
use crate::backend::redis::error::Failure;
use crate::clock::Moment;

/// An estimate of how far the server's clock is ahead of the clock of this process, in us.
#[derive(Debug)]
pub(crate) struct ServerClock(AtomicI64);

impl ServerClock {
    pub(crate) fn new(now: i64, sent: Moment) -> Self {
        Self(AtomicI64::new(now.saturating_sub(micros(sent))))
    }

    /// Updates the estimate: the server's clock showed `now` (in us) at a moment between `sent` and `received`.
    ///
    /// The known difference is kept if it is consistent with this answer. So the quickest answer determines the
    /// estimate, and slow answers do not change it. If the difference is inconsistent with this answer, the answer is
    /// more precise than earlier answers, or the server's clock was set. Then the difference is computed from `sent`.
    /// Such an estimate can only be too high, so the server never refuses a request too early because of it.
    pub(crate) fn learn(&self, now: i64, sent: Moment, received: Moment) {
        // The server read its clock between the two moments, so the difference is between these bounds.
        let (least, most) = (now.saturating_sub(micros(received)), now.saturating_sub(micros(sent)));
        if !(least..=most).contains(&self.0.load(Ordering::Relaxed)) {
            self.0.store(most, Ordering::Relaxed);
        }
    }

    /// Returns the estimate of the server's clock at `moment`, in us.
    pub(crate) fn estimate_at(&self, moment: Moment) -> i64 {
        micros(moment).saturating_add(self.0.load(Ordering::Relaxed))
    }
}

/// Returns a moment in us, by a clock that continues during suspend, as the server's clock does.
pub(crate) fn micros(moment: Moment) -> i64 {
    moment.parts().1 / 1_000
}

/// Reads the answer to `TIME`, in us.
pub(crate) fn server_time(answer: &Value) -> Result<i64, Failure> {
    let (seconds, micros): (i64, i64) = parsed(answer)?;
    Ok(seconds.saturating_mul(1_000_000).saturating_add(micros))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn the_time_of_the_server_is_read() {
        let answer = Value::Array(vec![bulk("1763672000"), bulk("123456")]);
        assert_eq!(server_time(&answer).expect("a time"), 1_763_672_000_123_456);
        for answer in [Value::Nil, Value::Array(vec![bulk("x"), bulk("1")]), Value::Array(vec![bulk("1")])] {
            assert!(server_time(&answer).is_err());
        }
    }

    #[test]
    fn the_clock_of_the_server_is_followed() {
        let sent = Moment::from_parts((0, 5_000_000));
        let clock = ServerClock::new(1_000_000, sent);
        assert_eq!(clock.estimate_at(sent), 1_000_000);
        assert_eq!(clock.estimate_at(sent.plus(Duration::from_millis(250))), 1_250_000);
        // Another answer took 40 ms. It is consistent with the estimate, and less precise.
        let later = |ms| sent.plus(Duration::from_millis(ms));
        clock.learn(1_140_000, later(100), later(140));
        assert_eq!(clock.estimate_at(sent), 1_000_000);
        // An answer that took 1 ms shows that the server read its clock 30 ms after the first request was sent.
        clock.learn(1_170_000, later(200), later(201));
        assert_eq!(clock.estimate_at(sent), 970_000);
        // The server's clock was set back by an hour, and then forward by a second.
        clock.learn(970_000 - 3_600_000_000, sent, later(2));
        assert_eq!(clock.estimate_at(sent), 970_000 - 3_600_000_000);
        clock.learn(1_970_000, sent, later(2));
        assert_eq!(clock.estimate_at(sent), 1_970_000);
    }
}
