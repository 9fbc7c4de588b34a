//! The batches of a connection that are not answered: who joins them, and who has waited too long.
//!
//! The tasks wait without timers of their own: one [watch](Batches::watch) has the deadlines of all steps. It is a task of
//! its own, because the one that sends a batch may be stuck behind a task that blocks its thread, and no step may wait
//! for longer than its deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::step::{Outcome, Step};
use crate::clock::{Clock, Moment};
use crate::sync::Mutex;

/// The requests of a connection for one lock each: the number of those that are under way, and the batches.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    under_way: AtomicUsize,
    state: Mutex<State>,
    /// Wakes the watch before its time.
    sooner: Notify,
}

/// Counts one request until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted(Arc<Batches>);

impl Counted {
    /// Returns the number of requests that are under way, with this one.
    pub(crate) fn under_way(&self) -> usize {
        self.0.under_way.load(Ordering::Relaxed)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct State {
    /// The batch that others can join.
    open: Option<Arc<Batch>>,
    /// Whether a task will send it.
    is_awaited: bool,
    /// All batches that are not answered, with the open one.
    unanswered: Vec<Arc<Batch>>,
    watch: Watch,
}

#[derive(Clone, Copy, Debug, Default)]
enum Watch {
    /// There is none, and it is not needed before there is a batch.
    #[default]
    Idle,
    /// It looks at the batches at this moment.
    Until(Moment),
    /// The runtime has ended.
    Ended,
}

/// Steps that leave together.
#[derive(Debug)]
pub(super) struct Batch {
    /// Before its first step was added. The deadlines of the steps count from here, and so do their leases.
    pub(super) opened: Moment,
    pub(super) steps: Mutex<Vec<Waiting>>,
}

/// A step, and the task that waits for its outcome.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) step: Step,
    pub(super) deadline: Duration,
    /// `None` once the task was told.
    pub(super) told: Option<oneshot::Sender<Outcome>>,
}

impl Waiting {
    pub(super) fn tell(&mut self, outcome: Outcome) {
        // A task that was dropped need not be told.
        let _ = self.told.take().map(|told| told.send(outcome));
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.told.as_ref().is_some_and(|told| !told.is_closed())
    }
}

/// What is to be done after a step was added.
#[derive(Debug)]
pub(super) struct Added {
    /// When its batch was opened.
    pub(super) opened: Moment,
    pub(super) next: Next,
    /// Whether the watch has to be started.
    pub(super) starts_watch: bool,
}

#[derive(Debug)]
pub(super) enum Next {
    Nothing,
    /// Send the open batch once the tasks that are ready have run.
    SendLater,
    Send(Arc<Batch>),
}

impl Batches {
    pub(crate) fn count(self: &Arc<Self>) -> Counted {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(self))
    }

    /// Adds a step to a batch that leaves with `full` steps. Returns `None`, and forgets the step, once the runtime has
    /// ended.
    pub(super) fn add(&self, step: Waiting, full: usize) -> Option<Added> {
        let mut state = self.state.lock();
        if matches!(state.watch, Watch::Ended) {
            return None;
        }
        let batch = match &state.open {
            Some(batch) => Arc::clone(batch),
            None => state.begin(),
        };
        let (opened, due) = (batch.opened, batch.opened.plus(step.deadline));
        let starts_watch = match state.watch {
            Watch::Until(look) if due.remaining(opened) < look.remaining(opened) => {
                state.watch = Watch::Until(due);
                self.sooner.notify_one();
                false
            }
            Watch::Idle => {
                state.watch = Watch::Until(due);
                true
            }
            Watch::Until(_) | Watch::Ended => false,
        };
        let is_full = {
            let mut steps = batch.steps.lock();
            steps.push(step);
            steps.len() >= full
        };
        let next = if is_full {
            state.open = None;
            Next::Send(batch)
        } else if std::mem::replace(&mut state.is_awaited, true) {
            // The task may have been asked for by an earlier batch, which was full before. Then it sends this one sooner,
            // and the server has more to do meanwhile.
            Next::Nothing
        } else {
            Next::SendLater
        };
        Some(Added { opened, next, starts_watch })
    }

    /// Closes the open batch, and returns it to be sent.
    pub(super) fn close(&self) -> Option<Arc<Batch>> {
        let mut state = self.state.lock();
        state.is_awaited = false;
        state.open.take()
    }

    /// Forgets a batch whose tasks were told.
    pub(super) fn answered(&self, batch: &Arc<Batch>) {
        self.state.lock().unanswered.retain(|other| !Arc::ptr_eq(other, batch));
    }

    /// Tells each step whose deadline has passed, as long as there are batches that are not answered. If the runtime
    /// ends meanwhile, all steps are told, and no other can be added.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut end = End(Some(Arc::clone(&self)));
        while let Some(next) = self.look(Clock::Suspend.now()) {
            tokio::select! {
                // `biased` keeps the simulation deterministic.
                biased;
                () = tokio::time::sleep(next) => {}
                () = self.sooner.notified() => {}
            }
        }
        // Nothing is left, so the runtime goes on.
        end.0 = None;
    }

    /// Tells the steps that are late at `now`. Returns the time until the next one is, or `None` where nothing is left
    /// to watch.
    fn look(&self, now: Moment) -> Option<Duration> {
        let mut state = self.state.lock();
        let left = state.unanswered.iter().filter_map(|batch| batch.look(now)).min();
        state.watch = left.map_or(Watch::Idle, |left| Watch::Until(now.plus(left)));
        left
    }
}

impl State {
    fn begin(&mut self) -> Arc<Batch> {
        let batch = Arc::new(Batch { opened: Clock::Suspend.now(), steps: Mutex::default() });
        self.unanswered.push(Arc::clone(&batch));
        self.open = Some(Arc::clone(&batch));
        batch
    }
}

impl Batch {
    /// Tells the steps that are late at `now`. Returns the time until the next one is.
    fn look(&self, now: Moment) -> Option<Duration> {
        let (mut next, opened) = (None, self.opened);
        for step in self.steps.lock().iter_mut().filter(|step| step.told.is_some()) {
            match opened.plus(step.deadline).remaining(now) {
                Duration::ZERO => step.tell(Outcome::Late),
                left => next = Some(next.map_or(left, |next: Duration| next.min(left))),
            }
        }
        next
    }
}

/// Ends the batches when the runtime drops the watch.
struct End(Option<Arc<Batches>>);

impl Drop for End {
    fn drop(&mut self) {
        let Some(ended) = &self.0 else { return };
        let mut state = ended.state.lock();
        state.watch = Watch::Ended;
        let batches = std::mem::take(&mut state.unanswered);
        state.open = None;
        drop(state);
        // A task may be on another runtime, or on none. Without a sender it waits no longer.
        batches.iter().for_each(|batch| batch.steps.lock().clear());
    }
}

#[cfg(test)]
mod tests;
