//! The batches of a connection that are not answered: who joins them, and who has waited too long.
//!
//! The tasks wait without timers of their own. One task [looks](Batches::look) at all steps every [`LOOK`]: it tells those
//! whose deadline has passed, and sends a batch that should have left, because the task that was to send it may be stuck
//! behind one that blocks its thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use super::step::{Outcome, Step};
use crate::clock::{Clock, Moment};
use crate::sync::Mutex;

/// How often the batches are looked at while there are any. A step may be told this much after its deadline, and a batch
/// is open for twice as long at most.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// The requests of a connection for one lock each: the number of those that are under way, and the batches.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    under_way: AtomicUsize,
    state: Mutex<State>,
}

/// Counts one request until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted<'a>(&'a AtomicUsize);

impl Counted<'_> {
    /// Returns the number of requests that are under way, with this one.
    pub(crate) fn under_way(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct State {
    /// The batch that others can join.
    open: Option<Arc<Batch>>,
    /// Whether a task will send it once the tasks that are ready have run.
    is_scheduled: bool,
    /// All batches that are not answered, with the open one.
    unanswered: Vec<Arc<Batch>>,
    watch: Watch,
}

/// The task that looks at the batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Watch {
    /// There is none, and no batch.
    #[default]
    Idle,
    Running,
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
        if let Some(told) = self.told.take() {
            tell(told, outcome);
        }
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.told.as_ref().is_some_and(|told| !told.is_closed())
    }
}

/// Tells a task what came of its step. Its waker may be the application's, and a panic there must not keep the others
/// waiting.
fn tell(told: oneshot::Sender<Outcome>, outcome: Outcome) {
    // A task that was dropped need not be told.
    let _ = catch_unwind(AssertUnwindSafe(|| told.send(outcome)));
}

/// What is to be done after a step was added.
#[derive(Debug)]
pub(super) struct Added {
    /// When its batch was opened.
    pub(super) opened: Moment,
    pub(super) next: Next,
    /// Whether a task has to be started that looks at the batches.
    pub(super) starts_watch: bool,
}

#[derive(Debug)]
pub(super) enum Next {
    Nothing,
    /// Send the open batch once the tasks that are ready have run.
    SendLater,
    Send(Arc<Batch>),
}

/// What a look at the batches has found.
#[derive(Debug)]
pub(super) struct Look {
    /// A batch that should have left. It is closed.
    pub(super) overdue: Option<Arc<Batch>>,
    /// Whether nothing is left to look at.
    pub(super) is_over: bool,
}

impl Batches {
    pub(crate) fn count(&self) -> Counted<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        Counted(&self.under_way)
    }

    /// Adds a step to a batch that leaves with `full` steps. Returns `None`, and forgets the step, once the runtime has
    /// ended.
    pub(super) fn add(&self, step: Waiting, full: usize) -> Option<Added> {
        let mut state = self.state.lock();
        if state.watch == Watch::Ended {
            return None;
        }
        let batch = match &state.open {
            Some(batch) => Arc::clone(batch),
            None => state.begin(),
        };
        let is_full = {
            let mut steps = batch.steps.lock();
            steps.push(step);
            steps.len() >= full
        };
        let opened = batch.opened;
        let next = if is_full {
            state.open = None;
            Next::Send(batch)
        } else if std::mem::replace(&mut state.is_scheduled, true) {
            // The task may have been asked for by an earlier batch, which was full before. Then it sends this one sooner,
            // and the server has more to do meanwhile.
            Next::Nothing
        } else {
            Next::SendLater
        };
        let starts_watch = std::mem::replace(&mut state.watch, Watch::Running) == Watch::Idle;
        Some(Added { opened, next, starts_watch })
    }

    /// Closes the open batch, and returns it to be sent.
    pub(super) fn close(&self) -> Option<Arc<Batch>> {
        let mut state = self.state.lock();
        state.is_scheduled = false;
        state.open.take()
    }

    /// Forgets a batch whose tasks were told.
    pub(super) fn answered(&self, batch: &Arc<Batch>) {
        self.state.lock().unanswered.retain(|other| !Arc::ptr_eq(other, batch));
    }

    /// Tells each step whose deadline has passed at `now`, and closes a batch that should have left.
    pub(super) fn look(&self, now: Moment) -> Look {
        let mut state = self.state.lock();
        let late: Vec<_> = state.unanswered.iter().flat_map(|batch| batch.late(now)).collect();
        let overdue = state.open.take_if(|open| now.since(open.opened) >= LOOK);
        // Its own task may be stuck, so the next batch gets another one.
        state.is_scheduled &= overdue.is_none();
        let is_over = state.unanswered.is_empty();
        if is_over {
            state.watch = Watch::Idle;
        }
        drop(state);
        // Not under the lock: it wakes tasks, whose wakers are not ours.
        late.into_iter().for_each(|told| tell(told, Outcome::Late));
        Look { overdue, is_over }
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
    /// Returns whom to tell that their deadline has passed at `now`.
    fn late(&self, now: Moment) -> Vec<oneshot::Sender<Outcome>> {
        let passed = now.since(self.opened);
        let mut steps = self.steps.lock();
        let late = steps.iter_mut().filter(|step| step.deadline <= passed);
        late.filter_map(|step| step.told.take()).collect()
    }
}

/// Ends the batches of a runtime that drops the task which looks at them.
#[derive(Debug)]
pub(super) struct End(Option<Arc<Batches>>);

impl End {
    pub(super) fn new(batches: &Arc<Batches>) -> Self {
        Self(Some(Arc::clone(batches)))
    }

    /// Nothing is left to look at, and the runtime goes on.
    pub(super) fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let Some(batches) = self.0.take() else { return };
        let mut state = batches.state.lock();
        state.watch = Watch::Ended;
        state.open = None;
        let unanswered = std::mem::take(&mut state.unanswered);
        drop(state);
        // A task may be on another runtime, or on none. Without a sender it waits no longer.
        for batch in unanswered {
            let steps = std::mem::take(&mut *batch.steps.lock());
            drop(steps);
        }
    }
}

/// Forgets a batch when its task ends, in whichever way.
#[derive(Debug)]
pub(super) struct Sending<'a>(pub(super) &'a Batches, pub(super) &'a Arc<Batch>);

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.0.answered(self.1);
    }
}

#[cfg(test)]
mod tests;
