//! Defines the stream of changes of the leader.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::candidate::Terms;
use super::change::{LeaderChange, Told};
use super::election::LeaderElection;
use super::leader::Leader;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::Result;

/// The shortest pause between two requests to the store that `every` can set.
const SHORTEST: Duration = Duration::from_millis(10);
/// The shortest pause that is derived from a ttl.
const SHORTEST_BY_TTL: Duration = Duration::from_millis(200);
/// The longest pause that is derived from a ttl.
const LONGEST_BY_TTL: Duration = Duration::from_secs(2);

/// Returns the pause between two requests for a lease of `ttl`. It is a third of the ttl, like the interval between
/// renewals, within the limits above.
fn pause(ttl: Duration) -> Duration {
    (ttl / 3).clamp(SHORTEST_BY_TTL, LONGEST_BY_TTL)
}

/// The changes of the leader since the call of [`LeaderElection::changes`].
///
/// The stream contains states, not a complete history. A slow reader misses states, and a leadership that is shorter
/// than the pause between two requests may be missed too. Each item differs from the previous item, and the last item
/// is the latest known state.
///
/// - [`Elected`](LeaderChange::Elected), [`Lost`](LeaderChange::Lost) and [`Resigned`](LeaderChange::Resigned) are
///   about this candidate. They are reported at once, on every store, except for the end of a leadership by an [early
///   release](crate::LockHandle::release_early), which is reported up to one pause late.
/// - [`Other`](LeaderChange::Other) and [`Vacant`](LeaderChange::Vacant) are read from the store. They are reported up
///   to one pause late. They are never reported if the store cannot list its holders; see
///   [`sees_others`](Self::sees_others). While the store cannot be reached, changes of other leaders are not reported,
///   and the log warns once.
///
/// The stream sends one request per pause. It sends no requests while this candidate leads, or while
/// [`next`](Self::next) is not called. The stream has to poll, because a store notifies only a waiter when the key is
/// free, and an observer that waits would count as a candidate.
pub struct LeaderChanges {
    election: LeaderElection,
    terms: watch::Receiver<Terms>,
    told: Told,
    every: Duration,
    /// The time of the next request to the store.
    due: Moment,
    /// Whether the last request failed. The log reports only the first failure in a row.
    failing: bool,
}

impl LeaderElection {
    /// Returns a stream of the changes of the leader from now on. The first item is the current state.
    ///
    /// The candidate's own elections and losses are reported at once, without I/O. While this candidate does not lead,
    /// the stream reads the current leader from the store: three times per ttl, but at least every 2 s and at most
    /// every 200 ms. [`LeaderChanges::every`] sets another pause.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::LockManager;
    /// use lock_core::leader::LeaderChange;
    ///
    /// let locks = LockManager::in_memory();
    /// let election = locks.leader("scheduler");
    /// let mut changes = election.changes();
    /// assert!(matches!(changes.next().await, Some(LeaderChange::Vacant)));
    /// let leadership = election.campaign().await?;
    /// assert!(matches!(changes.next().await, Some(LeaderChange::Elected { .. })));
    /// leadership.resign().await?;
    /// assert!(matches!(changes.next().await, Some(LeaderChange::Resigned)));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn changes(&self) -> LeaderChanges {
        LeaderChanges::new(self.clone())
    }
}

impl LeaderChanges {
    fn new(election: LeaderElection) -> Self {
        let terms = election.candidate.watch_terms();
        let (every, due) = (pause(election.ttl_of_grant()), election.engine().clock.now());
        Self { election, terms, told: Told::Nothing, every, due, failing: false }
    }

    /// Sets the pause between two requests to the store. The minimum is 10 ms. Default: a third of the ttl, but at
    /// least 200 ms and at most 2 s.
    #[must_use]
    pub fn every(mut self, pause: Duration) -> Self {
        self.every = pause.max(SHORTEST);
        self
    }

    /// Returns whether the store can list another leader. If not, only this candidate's own changes are reported.
    #[must_use]
    pub fn sees_others(&self) -> bool {
        self.engine().capability.lists
    }

    /// Returns the next change, or `None` after the manager was shut down.
    ///
    /// # Cancel safety
    /// Cancel safe: no change is lost. However, if each call is cancelled before the store has answered, changes of
    /// other leaders are never returned.
    pub async fn next(&mut self) -> Option<LeaderChange> {
        let engine = Arc::clone(self.election.engine());
        // Outside of a tokio runtime, the call uses the runtime of the library's thread. If that thread cannot be
        // started, the stream ends.
        engine.inside(async { Ok(self.next_change().await) }).await.ok().flatten()
    }

    async fn next_change(&mut self) -> Option<LeaderChange> {
        loop {
            let held = self.terms.borrow_and_update().held().cloned();
            if let Some(change) = self.told.own_news(held.as_ref()) {
                // After the candidate's own change, the stream reads the new leader without a pause.
                self.due = self.engine().clock.now();
                return Some(change);
            }
            if self.engine().check_open().is_err() {
                return None;
            }
            let waited = match &self.told {
                Told::Own(term) => {
                    let (handle, every) = (term.handle.clone(), self.every);
                    // If the body releases the lock early, this is not a loss, and `lost` does not complete. So the
                    // local state is checked again after each pause, without a request to the store.
                    self.unless_changed(async move {
                        let _ = tokio::time::timeout(every, handle.lost()).await;
                    })
                    .await
                }
                _ if !self.sees_others() => self.unless_changed(std::future::pending::<()>()).await,
                _ => {
                    let left = self.due.remaining(self.engine().clock.now());
                    self.unless_changed(tokio::time::sleep(left)).await
                }
            };
            if waited.is_none() || matches!(self.told, Told::Own(_)) {
                continue;
            }
            // The time is set before the request, so that a reader that repeatedly drops the future does not cause more
            // requests.
            self.due = self.engine().clock.now().plus(self.every);
            let election = self.election.clone();
            if let Some(answer) = self.unless_changed(async move { election.current().await }).await
                && let Some(change) = self.hears(answer)
            {
                return Some(change);
            }
        }
    }

    /// Waits for `event`. Returns `None` if this candidate's term changes or the manager shuts down first.
    async fn unless_changed<T>(&mut self, event: impl Future<Output = T>) -> Option<T> {
        let engine = self.election.engine();
        tokio::select! {
            biased;
            _ = self.terms.changed() => None,
            () = closed(engine) => None,
            event = event => Some(event),
        }
    }

    /// Handles the answer of the store, and returns the change to report, if any.
    fn hears(&mut self, answer: Result<Option<Leader>>) -> Option<LeaderChange> {
        let leader = match answer {
            Ok(leader) => leader,
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    let error = self.engine().observer.redact_error(&error);
                    tracing::warn!(%error, "it is not known who leads; the store is asked again");
                }
                return None;
            }
        };
        self.failing = false;
        let (ttl, now) = (self.election.ttl_of_grant(), self.engine().clock.now());
        let terms = self.election.candidate.terms();
        let left_over = |leader: &Leader| {
            leader.record.as_ref().is_some_and(|record| terms.is_left_over(record, ttl, now))
        };
        let leader = leader.filter(|leader| !left_over(leader));
        self.told.news_of(leader)
    }

    fn engine(&self) -> &Engine {
        self.election.engine()
    }
}

/// Completes when the manager shuts down.
async fn closed(engine: &Engine) {
    engine.changed.until(|| engine.check_open().err()).await;
}

impl fmt::Debug for LeaderChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderChanges")
            .field("election", &self.election)
            .field("every", &self.every)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_follows_from_the_ttl() {
        for (ttl, expected) in [(100, 200), (600, 200), (1_500, 500), (6_000, 2_000), (3_600_000, 2_000)] {
            assert_eq!(pause(Duration::from_millis(ttl)).as_millis(), expected, "ttl of {ttl} ms");
        }
    }
}
