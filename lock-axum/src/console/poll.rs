//! Polls the store once for all open pages, and not at all while no page is open. A poll, which the code calls a look,
//! is a ping and a list of the locks.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::clock::{Clock, Moment, wall};
use lock_core::{Listed, LockError, LockErrorKind, LockEvents, LockManager, Ping};
use tokio::sync::{Notify, watch};

use super::journal::{Journal, SPAN, millis};
use crate::service::caught;

/// The pause between two polls. The page shows a change within a second, including the poll and the work of the
/// browser.
const PAUSE: Duration = Duration::from_millis(750);
/// The pause is this many times as long as the previous poll, but at least [`PAUSE`], and at most [`LONGEST_PAUSE`]
/// (after an error [`LONGEST_PAUSE_AWAY`]). A poll may be costly: on Redis, a list scans all keys of the server.
const PAUSE_PER_LOOK: u32 = 9;
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The longest pause while the store does not answer. The pause is short, so that the page soon shows that the store
/// answers again.
const LONGEST_PAUSE_AWAY: Duration = Duration::from_secs(10);
/// The interval at which the task checks, while there are no followers, whether the console is still mounted.
const ALONE: Duration = Duration::from_secs(10);

/// The result of a poll.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The last list. The list is old while the store does not answer.
    pub(super) listed: Arc<Listed>,
    /// The time of the last list, in milliseconds since the Unix epoch. `None` if there is no list yet.
    pub(super) listed_ms: Option<u64>,
    /// Whether the store cannot list its locks.
    pub(super) is_unlisted: bool,
    pub(super) ping: Option<Ping>,
    pub(super) error: Option<String>,
    /// The duration of the poll.
    pub(super) took: Duration,
}

/// A receiver of the results of the polls, for one viewer. The value is `None` until the first poll.
pub(super) type Follower = watch::Receiver<Option<Arc<Seen>>>;

/// Polls the store while there are followers, and keeps the journal for some time after the last follower has left.
pub(super) struct Poll {
    locks: LockManager,
    seen: watch::Sender<Option<Arc<Seen>>>,
    /// Whether the task runs. This mutex must be locked to subscribe a follower and to end the task. So no follower
    /// subscribes to a task that is about to end.
    running: Mutex<bool>,
    arrived: Notify,
    hurry: Notify,
    journal: Mutex<(Moment, Journal)>,
}

impl fmt::Debug for Poll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poll").field("locks", &self.locks).finish_non_exhaustive()
    }
}

impl Poll {
    pub(super) fn new(locks: LockManager) -> Self {
        Self {
            locks,
            seen: watch::Sender::new(None),
            running: Mutex::new(false),
            arrived: Notify::new(),
            hurry: Notify::new(),
            journal: Mutex::new((Clock::Tokio.now(), Journal::default())),
        }
    }

    pub(super) fn locks(&self) -> &LockManager {
        &self.locks
    }

    /// Returns a new follower, and starts the task if it does not run.
    pub(super) fn follow(self: &Arc<Self>) -> Follower {
        let (mut follower, was_running) = {
            let mut running = lock(&self.running);
            (self.seen.subscribe(), std::mem::replace(&mut *running, true))
        };
        // The follower must also receive the last result.
        follower.mark_changed();
        if !was_running {
            let task = Task { poll: Arc::clone(self), has_ended: false };
            let journal = Journal::new(millis(wall()), self.locks.namespace());
            *lock(&self.journal) = (Clock::Tokio.now(), journal);
            tokio::spawn(task.run(self.locks.events()));
        }
        self.arrived.notify_one();
        follower
    }

    /// Returns the result of the last poll, or `None` if there are no followers.
    pub(super) fn last(&self) -> Option<Arc<Seen>> {
        self.seen.borrow().clone()
    }

    /// Starts the next poll at once. It is called after an operator has released a lock by force, so that the page
    /// shows the change.
    pub(super) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Runs `read` on the journal, with the time since the journal began.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Journal, Duration) -> T) -> T {
        let journal = lock(&self.journal);
        read(&journal.1, Clock::Tokio.now().since(journal.0))
    }

    async fn keep_journal(&self, mut events: LockEvents) {
        while let Some(event) = events.next().await {
            let (began, journal) = &mut *lock(&self.journal);
            journal.add(Clock::Tokio.now().since(*began), event);
        }
        // The manager has shut down. The task continues, because the viewers must see this.
        std::future::pending().await
    }

    /// Polls the store while there are followers. Returns some time after the last follower has left, when the journal
    /// is no longer needed.
    async fn look_on(self: &Arc<Self>) {
        let mut watched = Clock::Tokio.now();
        // The result is kept while there are no viewers, because the next viewer may open the page while the store does
        // not answer.
        let mut last = Arc::new(Seen::default());
        loop {
            if self.rests() {
                let left = SPAN.saturating_sub(Clock::Tokio.now().since(watched));
                // If the router is dropped, there can be no further follower, and this task must not keep the manager
                // alive.
                let is_alone = Arc::strong_count(self) == 1;
                if (left.is_zero() || is_alone) && self.ends() {
                    return;
                }
                tokio::select! {
                    () = self.arrived.notified() => {}
                    () = tokio::time::sleep(left.min(ALONE)) => {}
                }
                continue;
            }
            last = Arc::new(self.look(&last).await);
            watched = Clock::Tokio.now();
            self.seen.send_replace(Some(Arc::clone(&last)));
            tokio::select! {
                () = self.hurry.notified() => {}
                () = tokio::time::sleep(pause(&last)) => {}
            }
        }
    }

    async fn look(&self, before: &Seen) -> Seen {
        let began = Clock::Tokio.now();
        let looked = caught(async { tokio::join!(self.locks.ping(), self.locks.locks()) }).await;
        let took = Clock::Tokio.now().since(began);
        let old =
            Seen { listed: Arc::clone(&before.listed), listed_ms: before.listed_ms, took, ..Seen::default() };
        let Ok((ping, listed)) = looked else {
            return Seen { error: Some("the code of the store has panicked".to_owned()), ..old };
        };
        let is_unlisted = listed.as_ref().is_err_and(is_unsupported);
        let errors = [ping.as_ref().err(), listed.as_ref().err()];
        let error = errors.into_iter().flatten().find(|error| !is_unsupported(error));
        let seen = Seen { is_unlisted, error: error.map(ToString::to_string), ping: ping.ok(), ..old };
        match listed {
            Ok(listed) => Seen { listed: Arc::new(listed), listed_ms: Some(millis(wall())), ..seen },
            Err(_) => seen,
        }
    }

    /// Returns whether there are no followers. In this case, clears the result, so that the next follower waits for a
    /// new poll.
    fn rests(&self) -> bool {
        let _running = lock(&self.running);
        let rests = self.seen.receiver_count() == 0;
        if rests {
            self.seen.send_replace(None);
        }
        rests
    }

    /// Returns whether the task may end, because there are no followers. If so, records that the task does not run.
    fn ends(&self) -> bool {
        let mut running = lock(&self.running);
        let ends = self.seen.receiver_count() == 0;
        *running = !ends;
        ends
    }
}

fn is_unsupported(error: &LockError) -> bool {
    error.kind() == LockErrorKind::Unsupported
}

fn pause(seen: &Seen) -> Duration {
    let longest = if seen.error.is_some() { LONGEST_PAUSE_AWAY } else { LONGEST_PAUSE };
    (seen.took * PAUSE_PER_LOOK).clamp(PAUSE, longest)
}

struct Task {
    poll: Arc<Poll>,
    has_ended: bool,
}

impl Task {
    async fn run(mut self, events: LockEvents) {
        let ended = async {
            tokio::select! {
                () = self.poll.keep_journal(events) => {}
                () = self.poll.look_on() => {}
            }
        };
        ended.await;
        self.has_ended = true;
    }
}

/// A runtime that ends drops its tasks. This `Drop` records that the task does not run, so that the next follower, on
/// another runtime, starts a new task.
impl Drop for Task {
    fn drop(&mut self) {
        if !self.has_ended {
            *lock(&self.poll.running) = false;
        }
    }
}

/// Locks a mutex. No code of the application runs under these mutexes, so the data are valid even after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_list_is_made_less_often() {
        for (took_ms, error, expected_ms) in [
            (0, false, 750),
            (80, false, 750),
            (500, false, 4_500),
            (600_000, false, 60_000),
            (0, true, 750),
            (500, true, 4_500),
            (20_000, true, 10_000),
        ] {
            let took = Duration::from_millis(took_ms);
            let seen = Seen { took, error: error.then(String::new), ..Seen::default() };
            assert_eq!(pause(&seen), Duration::from_millis(expected_ms), "{took_ms} {error}");
        }
    }
}
