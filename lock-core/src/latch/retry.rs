//! Repeats a step of a latch, such as a count-down, until the store answers. The store counts the step only once.

use std::time::Duration;

use crate::backend::{LatchState, LatchStep};
use crate::backoff::Pauses;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::Result;
use crate::key::Key;

/// The first pause after a failure of the store. With a short ttl, the pause is shorter.
pub(super) const SHORTEST_PAUSE: Duration = Duration::from_millis(25);

/// The longest pause. This pause is short, so that a retry soon follows when the store is available again.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The interval between two warnings about the same state.
const EVERY: Duration = Duration::from_secs(30);

/// Sends a step to the store. While the store fails, repeats the step for less than `ttl`. The owner in `step` stays
/// the same, so that the store recognizes a step that it has already executed.
pub(super) async fn retry(engine: &Engine, key: &Key, step: &LatchStep, ttl: Duration) -> Result<LatchState> {
    // The step is registered before the check, so that a shutdown waits for the answer.
    let _under_way = engine.begin_acquiring();
    engine.check_open()?;
    let started = engine.clock.now();
    let mut pauses = Pauses::new(SHORTEST_PAUSE.min(ttl / 8), LONGEST_PAUSE);
    let mut throttle = LogThrottle::at_once();
    loop {
        let error = match engine.store.latch(key, step).await {
            Err(error) if error.is_temporary() => error,
            answer => return answer,
        };
        let now = engine.clock.now();
        let (pause, waited) = (pauses.next(), now.since(started));
        // After the ttl, the lease may have expired. A retry could then set a latch a second time, or count down a
        // latch that was set again.
        if waited.saturating_add(pause) >= ttl {
            return Err(error.with_waited(waited));
        }
        if throttle.is_due(now) {
            let (key, error) = (engine.observer.redact_key(key, None), engine.observer.redact_error(&error));
            tracing::warn!(lock.key = %key, %error, "the store fails; a step of the latch is retried");
        }
        if let Err(closing) = engine.sleep(pause).await {
            return Err(closing.with_waited(waited).with_source(error));
        }
        // The process may have been stopped for longer than the pause, so the time is checked again.
        let waited = engine.clock.now().since(started);
        if waited >= ttl {
            return Err(error.with_waited(waited));
        }
    }
}

/// Limits a warning to one per [`EVERY`].
#[derive(Debug)]
pub(super) struct LogThrottle {
    last: Option<Moment>,
}

impl LogThrottle {
    /// Creates a throttle that allows the first warning at once.
    pub(super) fn at_once() -> Self {
        Self { last: None }
    }

    /// Creates a throttle that allows the first warning only after [`EVERY`].
    pub(super) fn later(now: Moment) -> Self {
        Self { last: Some(now) }
    }

    pub(super) fn is_due(&mut self, now: Moment) -> bool {
        let due = self.last.is_none_or(|last| now.since(last) >= EVERY);
        if due {
            self.last = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn a_warning_is_due_every_30_s() {
        let start = Clock::Suspend.now();
        let at = |secs| start.plus(Duration::from_secs(secs));
        let mut throttle = LogThrottle::at_once();
        let due: Vec<_> = (0..70).filter(|secs| throttle.is_due(at(*secs))).collect();
        assert_eq!(due, [0, 30, 60]);
        let mut throttle = LogThrottle::later(start);
        let due: Vec<_> = (0..70).filter(|secs| throttle.is_due(at(*secs))).collect();
        assert_eq!(due, [30, 60]);
    }
}
