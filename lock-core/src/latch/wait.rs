//! Waits for a latch to open.

use std::time::Duration;

use super::retry::{LogThrottle, SHORTEST_PAUSE};
use crate::backend::{LatchState, LatchStep, WAITER_LEASE};
use crate::backoff::Pauses;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::{LockError, LockErrorKind, Result};
use crate::key::Key;

/// Returns the interval between the requests of a wait. A wait sends several requests per lease, because each request
/// extends the lease. The interval is short, so that a lost notification causes only a short delay.
pub(super) fn heartbeat(ttl: Duration) -> Duration {
    ttl.min(WAITER_LEASE) / 3
}

/// The state of the latch according to the last answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The count has reached zero.
    Open,
    /// The latch is closed. The field is the remaining count.
    Closed(u32),
    /// The latch is not set yet.
    Unset,
    /// An earlier request of this wait found the latch set, and it is no longer set.
    Forgotten,
}

fn verdict(seen: bool, state: LatchState) -> Verdict {
    match state {
        LatchState::Set { left: 0, .. } => Verdict::Open,
        LatchState::Set { left, .. } => Verdict::Closed(left),
        LatchState::Unset if seen => Verdict::Forgotten,
        LatchState::Unset => Verdict::Unset,
    }
}

/// A wait for a latch.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    engine: &'a Engine,
    key: &'a Key,
    step: LatchStep,
    limit: Option<Duration>,
    started: Moment,
    heartbeat: Duration,
    /// Whether an answer during this wait has shown that the latch is set.
    seen: bool,
    pauses: Pauses,
    outage: LogThrottle,
    unset: LogThrottle,
}

impl<'a> Wait<'a> {
    pub(super) fn new(engine: &'a Engine, key: &'a Key, ttl: Duration, limit: Option<Duration>) -> Self {
        let (started, heartbeat) = (engine.clock.now(), heartbeat(ttl));
        Self {
            engine,
            key,
            step: LatchStep::Wait { process: engine.owners.process(), ttl },
            limit,
            started,
            heartbeat,
            seen: false,
            pauses: Pauses::new(SHORTEST_PAUSE, heartbeat),
            outage: LogThrottle::at_once(),
            unset: LogThrottle::later(started),
        }
    }

    pub(super) async fn run(mut self) -> Result<()> {
        // The waiter subscribes before the first request, because the latch may open during that request.
        let waiter = self.engine.latches.join(self.key);
        loop {
            // This future is created before the request, so that no notification is missed between the answer and the
            // pause.
            let opened = waiter.notified();
            self.engine.check_open()?;
            let answer = self.engine.store.latch(self.key, &self.step).await;
            let Some(pause) = self.next(answer)? else { return Ok(()) };
            tokio::select! {
                // `biased` keeps the simulation deterministic.
                biased;
                () = opened => {}
                slept = self.engine.sleep(pause) => slept?,
            }
        }
    }

    /// Returns the pause before the next request, or `None` if the latch is open.
    fn next(&mut self, answer: Result<LatchState>) -> Result<Option<Duration>> {
        let state = match answer {
            Ok(state) => state,
            Err(error) => return self.failed(error).map(Some),
        };
        // Each outage begins with short pauses.
        self.pauses.reset();
        let detail = match verdict(self.seen, state) {
            Verdict::Open => return Ok(None),
            // The latch expired. Whether it opened before cannot be determined.
            Verdict::Forgotten => return Err(self.forgotten()),
            Verdict::Closed(left) => {
                // From now on, a latch that is not set must have expired.
                self.seen = true;
                format!("{left} have yet to count the latch down")
            }
            Verdict::Unset => {
                if self.unset.is_due(self.engine.clock.now()) {
                    let key = self.engine.observer.redact_key(self.key, None);
                    tracing::warn!(lock.key = %key, "the latch is not set yet; still waiting for it");
                }
                "nobody has set the latch: `set` says how many have to count down".to_owned()
            }
        };
        let timed_out = || LockError::new(LockErrorKind::TimedOut, detail);
        self.pause(self.heartbeat, timed_out).map(Some)
    }

    /// Returns the pause before the next request after the store has failed, or the error if a retry cannot help.
    fn failed(&mut self, error: LockError) -> Result<Duration> {
        // A shutdown closes the connections of waits, and so causes failures. Report the shutdown instead of such a
        // failure.
        self.engine.check_open()?;
        if !error.is_temporary() {
            return Err(error.with_waited(self.waited()));
        }
        if self.outage.is_due(self.engine.clock.now()) {
            let observer = &self.engine.observer;
            let (key, error) = (observer.redact_key(self.key, None), observer.redact_error(&error));
            tracing::warn!(lock.key = %key, %error, "the store fails; still waiting for the latch");
        }
        let pause = self.pauses.next();
        self.pause(pause, || error)
    }

    /// Returns `pause`, shortened to the rest of the limit. If the limit is over, returns the error `over`.
    fn pause(&self, pause: Duration, over: impl FnOnce() -> LockError) -> Result<Duration> {
        let waited = self.waited();
        match self.limit.map(|limit| limit.saturating_sub(waited)) {
            None => Ok(pause),
            // The previous pause ended at the limit, so the last request has already been sent.
            Some(left) if left.is_zero() => Err(over().with_waited(waited)),
            Some(left) => Ok(pause.min(left)),
        }
    }

    fn waited(&self) -> Duration {
        self.engine.clock.now().since(self.started)
    }

    fn forgotten(&self) -> LockError {
        let detail = "the latch was set and is not any more: its lease ran out while the store could not be reached. \
                      It is not known whether it had opened; set it again, with a ttl longer than such an outage";
        LockError::new(LockErrorKind::Lost, detail).with_waited(self.waited())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn what_an_answer_means() {
        let set = |left| LatchState::Set { left, by_us: false, sent: Clock::Suspend.now() };
        for (seen, state, expected) in [
            (false, set(0), Verdict::Open),
            (true, set(0), Verdict::Open),
            (false, set(2), Verdict::Closed(2)),
            (true, set(u32::MAX), Verdict::Closed(u32::MAX)),
            (false, LatchState::Unset, Verdict::Unset),
            (true, LatchState::Unset, Verdict::Forgotten),
        ] {
            assert_eq!(verdict(seen, state), expected, "seen {seen}, {state:?}");
        }
    }

    #[test]
    fn a_wait_asks_three_times_in_a_lease_and_three_times_in_two_seconds() {
        for (ttl, expected) in [(30, 10), (600, 200), (2_000, 666), (3_600_000, 666)] {
            assert_eq!(heartbeat(Duration::from_millis(ttl)).as_millis(), expected, "ttl of {ttl} ms");
        }
    }
}
