//! A step that counts: asked for until it is answered, and done once.

use std::time::Duration;

use crate::backend::{LatchState, LatchStep};
use crate::backoff::Pauses;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::Result;
use crate::key::Key;

/// The shortest pause after a failure of the store; less where the ttl leaves no room for it.
pub(super) const SHORTEST_PAUSE: Duration = Duration::from_millis(25);

/// The longest: a store that is back is asked soon.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How often something that goes on for long says so in the log.
const EVERY: Duration = Duration::from_secs(30);

/// Takes a step, and repeats it for less than `ttl` while the store fails. The owner in `step` is the same each time,
/// so an answer that was lost is asked for again, and nothing is done twice.
pub(super) async fn retry(engine: &Engine, key: &Key, step: &LatchStep, ttl: Duration) -> Result<LatchState> {
    // Counted before it looks, so that a shutdown waits for the answer.
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
        // Once its lease may have run out, a latch that the lost request set would be set a second time, and one that it
        // counted down would be counted down in its next round.
        if waited.saturating_add(pause) >= ttl {
            return Err(error.with_waited(waited));
        }
        if throttle.is_due(now) {
            let (key, error) = (engine.observer.redact_key(key, None), engine.observer.redact_error(&error));
            tracing::warn!(lock.key = %key, %error, "the store fails, a step of the latch is tried again");
        }
        if let Err(closing) = engine.sleep(pause).await {
            return Err(closing.with_waited(waited).with_source(error));
        }
        // The process may have stood still for longer than it was to sleep.
        let waited = engine.clock.now().since(started);
        if waited >= ttl {
            return Err(error.with_waited(waited));
        }
    }
}

/// Says how often the log is told.
#[derive(Debug)]
pub(super) struct LogThrottle {
    last: Option<Moment>,
}

impl LogThrottle {
    /// The first time at once.
    pub(super) fn at_once() -> Self {
        Self { last: None }
    }

    /// The first time when it has gone on for a while.
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
    fn the_log_is_told_every_30_s() {
        let start = Clock::Suspend.now();
        let at = |secs| start.plus(Duration::from_secs(secs));
        let mut throttle = LogThrottle::at_once();
        let told: Vec<_> = (0..70).filter(|secs| throttle.is_due(at(*secs))).collect();
        assert_eq!(told, [0, 30, 60]);
        let mut throttle = LogThrottle::later(start);
        let told: Vec<_> = (0..70).filter(|secs| throttle.is_due(at(*secs))).collect();
        assert_eq!(told, [30, 60]);
    }
}
