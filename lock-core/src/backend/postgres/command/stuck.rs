//! Limits the calls for a key whose row is locked by another session.
//!
//! A call for such a key waits on the server for half a second. All later calls of its runtime also wait, because they
//! share the connection. So only a few calls for one key may run at the same time. After one of these calls has timed
//! out, further calls for the key fail here for a while, without being sent. After this pause, a single call checks
//! whether the row is free again.
//!
//! The limit does not slow down many waiters: all waiting requests for a key are sent in one call; see
//! [`together`](super::together).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::unsent::UnsentRequests;
use crate::backend::postgres::error::{Failure, Reaction};
use crate::clock::{Clock, Moment};
use crate::sync::Mutex;

/// The maximum number of calls for one key that run at the same time over one connection. Together, these calls wait
/// for at most a second.
const AT_ONCE: usize = 2;
/// How long calls for a key fail here after the first time-out. The time doubles with each further time-out. The first
/// pause is short, because the row may be free again soon, and a waiter keeps its place only if its next heartbeat is
/// in time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest time for which calls for a key fail here. With this pause, waiting for the row uses a fifth of the
/// connection's time.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// If more keys than this are remembered, the unused keys are removed.
const REMEMBERED: usize = 64;

/// The keys with calls in progress, and the keys whose row is locked.
#[derive(Debug, Default)]
pub(super) struct StuckKeys {
    keys: Mutex<HashMap<Name, Calls>>,
}

/// The name of an entry: the runtime whose connection the calls use, and the key.
pub(super) type Name = (Id, String);

#[derive(Debug)]
pub(super) struct Calls {
    turns: Arc<Semaphore>,
    row: Row,
    /// The requests that wait for the next call.
    pub(super) unsent: UnsentRequests,
}

/// The state of the row of a key.
#[derive(Debug, Default)]
struct Row {
    /// The time when a call for the row last timed out.
    locked_at: Option<Moment>,
    /// How long calls fail here after `locked_at`.
    pause: Duration,
    /// Whether a call is checking if the row is free.
    asked: bool,
}

impl Row {
    /// Returns whether a call may be sent.
    fn admits(&mut self, now: Moment) -> bool {
        match self.locked_at {
            None => true,
            Some(since) if !self.asked && now.since(since) >= self.pause => {
                self.asked = true;
                true
            }
            Some(_) => false,
        }
    }

    fn answered(&mut self, locked: bool, now: Moment) {
        // If two calls that ran at the same time both time out, this counts as one time-out.
        let pause = if self.asked { (self.pause * 2).min(LONGEST_PAUSE) } else { FIRST_PAUSE };
        *self = match locked {
            true => Self { locked_at: Some(now), pause, asked: false },
            false => Self::default(),
        };
    }
}

/// The entry of a key in [`StuckKeys`]. The entry exists as long as a caller needs it.
#[derive(Debug)]
pub(super) struct Entry {
    of: Arc<StuckKeys>,
    name: Name,
    turns: Option<Arc<Semaphore>>,
}

/// A call that may be sent. The call counts as in progress until it is answered.
#[derive(Debug)]
pub(super) struct Turn {
    entry: Entry,
    permit: Option<OwnedSemaphorePermit>,
    /// Whether this call checks if the row is free.
    finds_out: bool,
}

impl StuckKeys {
    /// Returns the entry of a key, for the connection of this runtime.
    pub(super) fn entry(self: &Arc<Self>, key: String) -> Entry {
        let name = (Handle::current().id(), key);
        let mut keys = self.keys.lock();
        let calls = keys.entry(name.clone()).or_insert_with(|| Calls {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            row: Row::default(),
            unsent: UnsentRequests::default(),
        });
        let turns = Some(Arc::clone(&calls.turns));
        drop(keys);
        Entry { of: Arc::clone(self), name, turns }
    }
}

impl Entry {
    /// Waits until a call may be sent. Fails if the row is locked.
    pub(super) async fn turn(&self) -> Result<Turn, Failure> {
        let permit = match &self.turns {
            Some(turns) => Arc::clone(turns).acquire_owned().await.ok(),
            None => None,
        };
        let entry = Self { of: Arc::clone(&self.of), name: self.name.clone(), turns: self.turns.clone() };
        // The record of the row is read after the wait, because another call may have found the row locked meanwhile.
        let mut turn = Turn { entry, permit, finds_out: false };
        let (admitted, finds_out) = turn.entry.with(|calls| {
            let admitted = calls.row.admits(Clock::Suspend.now());
            (admitted, calls.row.asked)
        });
        turn.finds_out = admitted && finds_out;
        if admitted { Ok(turn) } else { Err(Failure::locked()) }
    }

    /// Runs `change` while the map of all keys is locked. `change` must not call or drop values of the application,
    /// such as a waker.
    pub(super) fn with<T: Default>(&self, change: impl FnOnce(&mut Calls) -> T) -> T {
        self.of.keys.lock().get_mut(&self.name).map(change).unwrap_or_default()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.turns = None;
        let mut keys = self.of.keys.lock();
        let in_use = |calls: &Calls| Arc::strong_count(&calls.turns) > 1;
        if keys.get(&self.name).is_some_and(|calls| !in_use(calls) && calls.row.locked_at.is_none()) {
            keys.remove(&self.name);
        }
        if keys.len() > REMEMBERED {
            let now = Clock::Suspend.now();
            keys.retain(|_, calls| {
                in_use(calls) || calls.row.locked_at.is_some_and(|since| now.since(since) < LONGEST_PAUSE)
            });
        }
    }
}

impl Turn {
    pub(super) fn finds_out(&self) -> bool {
        self.finds_out
    }

    /// Records the answer. If the call failed for another reason than a locked row, such as a lost connection, the row
    /// counts as free.
    pub(super) fn settle(self, failure: Option<&Failure>) {
        let locked = failure.is_some_and(|failure| failure.reaction == Reaction::Locked);
        self.entry.with(|calls| calls.row.answered(locked, Clock::Suspend.now()));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // The permit is dropped before the entry, because the drop of the entry checks whether the key is still in use.
        self.permit = None;
        if self.finds_out {
            self.entry.with(|calls| calls.row.asked = false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locked() -> Failure {
        Failure::locked().with_reaction(Reaction::Locked)
    }

    #[test]
    fn one_call_finds_out_after_a_pause() {
        let start = Clock::Suspend.now();
        let mut row = Row::default();
        assert!(row.admits(start) && row.admits(start), "nothing is known");
        let mut now = start;
        for pause in [250, 500, 1_000, 2_000, 2_000].map(Duration::from_millis) {
            row.answered(true, now);
            assert!(!row.admits(now.plus(pause / 2)), "it was locked a moment ago: {pause:?}");
            now = now.plus(pause);
            assert!(row.admits(now) && !row.admits(now), "one of them: {pause:?}");
        }
        row.answered(false, now);
        assert!(row.admits(now), "free again");
        row.answered(true, now);
        row.answered(true, now);
        assert!(row.admits(now.plus(FIRST_PAUSE)), "two have waited at the same time");
    }

    #[tokio::test]
    async fn few_calls_for_a_key_are_under_way_and_none_once_it_is_stuck() {
        let keys = Arc::<StuckKeys>::default();
        let entry = keys.entry("k".to_owned());
        let mut turns = Vec::new();
        for _ in 0..AT_ONCE {
            turns.push(entry.turn().await.expect("nothing is known"));
        }
        let other = keys.entry("other".to_owned()).turn().await.expect("another key");
        other.settle(None);
        let next = tokio::spawn({
            let entry = keys.entry("k".to_owned());
            async move { entry.turn().await.map(|_| ()) }
        });
        tokio::task::yield_now().await;
        assert!(!next.is_finished(), "it waits for its turn");
        turns.pop().expect("a turn").settle(Some(&locked()));
        let failure = next.await.expect("no panic").expect_err("it is stuck");
        assert!(failure.text().contains("keeps a row"), "{failure:?}");
        turns.pop().expect("a turn").settle(None);
        drop((turns, entry));
        assert!(keys.keys.lock().is_empty(), "nothing is remembered of a key that is free");
    }
}
