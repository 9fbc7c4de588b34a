//! Latches with planted bugs.

use std::collections::HashMap;
use std::time::Duration;

use lock_core::Result;
use lock_core::backend::{LatchState, LatchStep};
use lock_core::clock::{Clock, Moment};
use lock_core::key::Key;

use super::Fault;

/// The effect of a bug on a step.
pub(super) enum Step {
    /// The step goes to the store.
    Take(Key, LatchStep),
    /// The step is answered without the store.
    Answer(LatchState),
}

#[derive(Debug, Default)]
pub(super) struct Latches {
    /// The end of each latch's lease, as set by the last step.
    ends: HashMap<String, Moment>,
    sets: HashMap<String, u32>,
}

impl Latches {
    pub(super) fn read(&mut self, fault: Fault, key: &Key, step: &LatchStep) -> Result<Step> {
        let (mut key, mut step) = (key.clone(), step.clone());
        let now = Clock::Tokio.now();
        match (fault, &mut step) {
            (Fault::LatchOfEachOwner, LatchStep::Set { owner, .. }) => {
                key = Key::new(&format!("{key}:{}", owner.token().as_str()))?;
            }
            (Fault::LatchCountsAgain, LatchStep::CountDown { owner, .. }) => {
                *owner = lock_core::testkit::Claims::new()?.owner();
            }
            (Fault::LatchShuts, LatchStep::Set { count, .. }) => {
                let sets = self.sets.entry(key.as_str().to_owned()).or_default();
                *sets += 1;
                if *sets > 1 {
                    return Ok(Step::Answer(LatchState::Set { left: *count, by_us: true, sent: now }));
                }
            }
            (Fault::LatchForEver, LatchStep::Set { ttl, .. } | LatchStep::CountDown { ttl, .. }) => {
                *ttl *= 1_000
            }
            (Fault::LatchNotKept, LatchStep::CountDown { ttl, .. } | LatchStep::Wait { ttl, .. }) => {
                *ttl = Duration::ZERO;
            }
            (Fault::LatchShortens, step) => {
                let end = self.ends.get(key.as_str());
                if end.is_some_and(|end| end.is_past(now)) {
                    return Ok(Step::Answer(LatchState::Unset));
                }
                if let LatchStep::Set { ttl, .. }
                | LatchStep::CountDown { ttl, .. }
                | LatchStep::Wait { ttl, .. } = step
                {
                    self.ends.insert(key.as_str().to_owned(), now.plus(*ttl));
                }
            }
            (Fault::LatchFromNothing, step) => {
                if let LatchStep::CountDown { owner, ttl } = *step {
                    *step = LatchStep::Set { count: 1, owner, ttl };
                }
            }
            (Fault::LatchBesideLock, _) => key = Key::new(&format!("{key}:latch"))?,
            _ => {}
        }
        Ok(Step::Take(key, step))
    }
}
