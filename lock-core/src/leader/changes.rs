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

/// The shortest pause between two requests to the store that can be set.
const SHORTEST: Duration = Duration::from_millis(10);
/// The shortest pause that is derived from a ttl.
const SHORTEST_BY_TTL: Duration = Duration::from_millis(200);
/// The longest pause that is derived from a ttl.
const LONGEST_BY_TTL: Duration = Duration::from_secs(2);

/// Returns the pause between two requests for a lease of `ttl`: a third of the ttl, which is how often a leader renews.
fn pause(ttl: Duration) -> Duration {
    (ttl / 3).clamp(SHORTEST_BY_TTL, LONGEST_BY_TTL)
}

/// The changes of the leader since the call of [`LeaderElection::changes`].
///
/// The stream contains states, not a history. A late reader misses the states in between, and a leadership that is
/// shorter than the pause between two requests is not seen. Each item differs from the previous one, and the last item
/// is the current state.
///
/// - [`Elected`](LeaderChange::Elected), [`Lost`](LeaderChange::Lost) and [`Resigned`](LeaderChange::Resigned) are
///   about this candidate. They are reported at once, on every store.
/// - [`Other`](LeaderChange::Other) and [`Vacant`](LeaderChange::Vacant) are read from the store. They are reported up
///   to one pause late. A store that cannot list its holders never reports them; see
///   [`sees_others`](Self::sees_others). While the store cannot be reached, changes of other leaders are not reported,
///   and the log warns once.
///
/// The stream sends one request per pause. It sends none while this candidate leads, or while [`next`](Self::next) is
/// not called. No store notifies an observer of a new leader: a watch on a key is for candidates, and the store would
/// count an observer as one.
pub struct LeaderChanges {
    election: LeaderElection,
    terms: watch::Receiver<Terms>,
    told: Told,
    every: Duration,
    /// The time of the next request to the store.
    due: Moment,
    /// Whether the last request failed. The log has then reported the failure.
    failing: bool,
}

impl LeaderElection {
    /// Follows the leader from now on. The first item is the current leader.
    ///
    /// The candidate's own elections and losses are reported at once, without I/O. While this candidate does not lead,
    /// the stream reads the current leader from the store. It does so three times in a ttl, and at least every 2 s;
    /// [`LeaderChanges::every`] sets another pause.
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

    /// Sets the pause between two requests to the store. The minimum is 10 ms. Default: a third of the ttl, between 200
    /// ms and 2 s.
    #[must_use]
    pub fn every(mut self, pause: Duration) -> Self {
        self.every = pause.max(SHORTEST);
        self
    }

    /// Returns whether the store can show another leader. Otherwise only this candidate's own changes are reported.
    #[must_use]
    pub fn sees_others(&self) -> bool {
        self.engine().capability.lists
    }

    /// Returns the next change, or `None` after the manager was shut down.
    ///
    /// # Cancel safety
    /// Cancel safe: no change is lost. If a caller cancels each call before the store has answered, it never learns of
    /// other leaders.
    pub async fn next(&mut self) -> Option<LeaderChange> {
        let engine = Arc::clone(self.election.engine());
        // A caller outside of tokio needs the library's thread. If the thread cannot be started, the stream ends.
        engine.cleanup.inside(self.next_change()).await.ok().flatten()
    }

    async fn next_change(&mut self) -> Option<LeaderChange> {
        loop {
            let held = self.terms.borrow_and_update().held().cloned();
            if let Some(change) = self.told.own_news(held.as_ref()) {
                // After it has reported the candidate's own change, the stream reads the new leader at once.
                self.due = self.engine().clock.now();
                return Some(change);
            }
            if self.engine().check_open().is_err() {
                return None;
            }
            let waited = match &self.told {
                Told::Own(term) => {
                    let (handle, every) = (term.handle.clone(), self.every);
                    // If its body resigns early, that is not a loss, and causes no wake-up. So the leadership is
                    // checked after each pause, in this process and not in the store.
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
            // The time is set before the request. So a reader that drops the future again and again does not cause more
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

    /// Waits for `event`. Returns `None` if this candidate's term or the manager's state changes first.
    async fn unless_changed<T>(&mut self, event: impl Future<Output = T>) -> Option<T> {
        let engine = self.election.engine();
        tokio::select! {
            biased;
            _ = self.terms.changed() => None,
            () = closed(engine) => None,
            event = event => Some(event),
        }
    }

    /// Handles the answer of the store.
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
    loop {
        let mut changed = std::pin::pin!(engine.changed.notified());
        // The waiter registers before the check. Otherwise it would miss a shutdown between the two steps.
        changed.as_mut().enable();
        if engine.check_open().is_err() {
            return;
        }
        changed.await;
    }
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
