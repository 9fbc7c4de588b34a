//! Lets the claims of this process enter the queue of a key in their order of arrival.
//!
//! etcd executes the concurrent requests of a connection in any order. So while a claim that may wait is requesting its
//! entry, the claims that arrive at the same key gather. Then a task adds them to the queue in their order: one
//! transaction creates the entries of all claims that must wait. If no other claim is entering, an arriving claim
//! starts no task. Readers may enter concurrently.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::oneshot;

use super::error::Failure;
use super::plan::Plan;
use crate::backend::{Ask, Claim, Mode};
use crate::clock::Moment;
use crate::sync::{Mutex, Notify, survives};

/// The entering claims of all keys.
#[derive(Default)]
pub(super) struct Entering(Mutex<State>);

#[derive(Default)]
struct State {
    entrances: HashMap<Vec<u8>, Entrance>,
    /// The number of the last turn or task.
    last: u64,
}

/// The entering claims of one key.
#[derive(Default)]
struct Entrance {
    /// The turns of the readers and of the other claims that are requesting their entries themselves.
    readers: HashSet<u64>,
    others: HashSet<u64>,
    /// The claims that have gathered since the task last collected them.
    gathered: Vec<Gathered>,
    /// The number of the task that adds the gathered claims to the queue, and how often this task has collected claims.
    task: Option<(u64, u64)>,
    /// Notified when the last turn has ended, or when the task stops waiting for the turns.
    over: Arc<Notify>,
}

/// The message of the task to a gathered claim: its next step. The message contains a turn if the claim requests its
/// entry itself.
pub(super) type Word = Result<(Plan, Option<Turn>), Failure>;

/// A claim that may wait for its key, with the data that the task needs.
pub(super) struct Wanted {
    pub(super) claim: Claim,
    pub(super) ask: Ask,
    pub(super) began: Moment,
    state: AtomicU8,
}

/// The states of a gathered claim.
const WAITING: u8 = 0;
/// A request may contain the claim.
const TAKEN: u8 = 1;
/// The claim was dropped.
const GONE: u8 = 2;

pub(super) struct Gathered {
    pub(super) wanted: Arc<Wanted>,
    told: Option<oneshot::Sender<Word>>,
}

/// The way in which a claim enters.
pub(super) enum Arrival {
    /// The claim requests its entry itself, at once.
    Enters(Turn),
    /// The claim waits until the task of its key adds it to the queue. If `starts_task` is set, there is no such task
    /// yet, and the claim starts it.
    Gathers { place: Place, starts_task: bool },
}

/// The turn of a claim that requests its entry itself. The turn ends when this value is dropped.
pub(super) struct Turn {
    entering: Arc<Entering>,
    line: Vec<u8>,
    number: u64,
}

pub(super) struct Place {
    /// The number of the task that adds the claim to the queue.
    pub(super) task: u64,
    wanted: Arc<Wanted>,
    told: oneshot::Receiver<Word>,
}

impl Entering {
    pub(super) fn arrive(
        self: &Arc<Self>,
        line: &[u8],
        mode: Mode,
        wanted: impl FnOnce() -> Wanted,
    ) -> Arrival {
        let mut state = self.0.lock();
        let State { entrances, last } = &mut *state;
        let entrance = entrances.entry(line.to_vec()).or_default();
        let may_enter = entrance.others.is_empty() && (mode == Mode::Shared || entrance.readers.is_empty());
        if may_enter && entrance.task.is_none() {
            return Arrival::Enters(self.turn(entrance, last, line, mode));
        }
        let (told, answer) = oneshot::channel();
        let wanted = Arc::new(wanted());
        entrance.gathered.push(Gathered { wanted: Arc::clone(&wanted), told: Some(told) });
        let starts_task = entrance.task.is_none();
        let (task, _) = *entrance.task.get_or_insert_with(|| {
            *last += 1;
            (*last, 0)
        });
        Arrival::Gathers { place: Place { task, wanted, told: answer }, starts_task }
    }

    fn turn(self: &Arc<Self>, entrance: &mut Entrance, last: &mut u64, line: &[u8], mode: Mode) -> Turn {
        *last += 1;
        let turns = if mode == Mode::Shared { &mut entrance.readers } else { &mut entrance.others };
        turns.insert(*last);
        Turn { entering: Arc::clone(self), line: line.to_vec(), number: *last }
    }

    /// Returns a turn for a gathered claim that is about to request its entry itself.
    pub(super) fn turn_of(self: &Arc<Self>, line: &[u8], mode: Mode) -> Option<Turn> {
        let mut state = self.0.lock();
        let State { entrances, last } = &mut *state;
        Some(self.turn(entrances.get_mut(line)?, last, line, mode))
    }

    /// Returns the signal for the end of the last turn at a queue; `None` if no claim has a turn.
    pub(super) fn turns(&self, line: &[u8]) -> Option<Arc<Notify>> {
        let state = self.0.lock();
        let entrance = state.entrances.get(line).filter(|entrance| entrance.has_turns())?;
        Some(Arc::clone(&entrance.over))
    }

    /// Returns the claims that have gathered since the last call by a task. If no claim has gathered and the task `has`
    /// none left, this ends the task. A task that was forgotten gets no more claims.
    pub(super) fn gathered(&self, line: &[u8], task: u64, has: bool) -> Vec<Gathered> {
        let gathered = self.change(line, |entrance| {
            let Some((_, looks)) = entrance.task.as_mut().filter(|(number, _)| *number == task) else {
                return Vec::new();
            };
            *looks += 1;
            let gathered = std::mem::take(&mut entrance.gathered);
            if gathered.is_empty() && !has {
                entrance.task = None;
            }
            gathered
        });
        gathered.unwrap_or_default()
    }

    /// Returns how many times the task has collected claims, or `None` if it is no longer the task of this queue.
    pub(super) fn looks(&self, line: &[u8], task: u64) -> Option<u64> {
        let state = self.0.lock();
        let (number, looks) = state.entrances.get(line)?.task?;
        (number == task).then_some(looks)
    }

    /// Ends the wait for the claims that have a turn, because their runtime may have stopped.
    pub(super) fn forget_turns(&self, line: &[u8]) {
        let over = self.change(line, |entrance| {
            entrance.readers.clear();
            entrance.others.clear();
            Arc::clone(&entrance.over)
        });
        if let Some(over) = over {
            over.notify_waiters();
        }
    }

    /// Ends the wait for a task that has ended or makes no progress. The gathered claims then send their own requests.
    pub(super) fn forget_task(&self, line: &[u8], task: u64) {
        let gathered = self.change(line, |entrance| {
            let is_it = entrance.task.is_some_and(|(number, _)| number == task);
            is_it.then(|| {
                entrance.task = None;
                std::mem::take(&mut entrance.gathered)
            })
        });
        drop(gathered);
    }

    /// Changes the entrance of a queue. Then removes the entrance if it has neither turns nor a task.
    fn change<T>(&self, line: &[u8], change: impl FnOnce(&mut Entrance) -> T) -> Option<T> {
        let mut state = self.0.lock();
        let entrance = state.entrances.get_mut(line)?;
        let changed = change(entrance);
        if !entrance.has_turns() && entrance.task.is_none() {
            state.entrances.remove(line);
        }
        Some(changed)
    }
}

impl Entrance {
    fn has_turns(&self) -> bool {
        !self.readers.is_empty() || !self.others.is_empty()
    }
}

impl Wanted {
    pub(super) fn new(claim: Claim, ask: Ask, began: Moment) -> Self {
        Self { claim, ask, began, state: AtomicU8::new(WAITING) }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.state.load(Ordering::Acquire) == GONE
    }

    /// Marks that a request is about to contain the claim, whose entry is already recorded. Returns `false` if the
    /// claim was dropped.
    pub(super) fn take(&self) -> bool {
        self.state.compare_exchange(WAITING, TAKEN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Marks that the request was not executed. Returns `false` if the claim was dropped.
    pub(super) fn put_back(&self) -> bool {
        self.state.compare_exchange(TAKEN, WAITING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Gathered {
    pub(super) fn tell(mut self, word: Word) {
        if let Some(told) = self.told.take() {
            // This calls the waker of the claim, which may belong to the application and may panic.
            survives(|| drop(told.send(word)));
        }
    }
}

impl Drop for Gathered {
    /// Wakes a claim that got no message. The claim then sends its own request.
    fn drop(&mut self) {
        if let Some(told) = self.told.take() {
            survives(|| drop(told));
        }
    }
}

impl Place {
    /// Waits for the message of the task. Returns `None` if the claim must send its own request.
    pub(super) async fn told(&mut self) -> Option<Word> {
        (&mut self.told).await.ok()
    }

    /// Withdraws the claim, except if a request may already contain it. Returns whether the claim was withdrawn.
    pub(super) fn withdraw(&self) -> bool {
        self.wanted.state.compare_exchange(WAITING, GONE, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Withdraws the claim in any case. Returns whether it is certain that no request contains the claim.
    pub(super) fn leave(&self) -> bool {
        self.wanted.state.swap(GONE, Ordering::AcqRel) == WAITING
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let over = self.entering.change(&self.line, |entrance| {
            let was_waited_for =
                entrance.readers.remove(&self.number) || entrance.others.remove(&self.number);
            (was_waited_for && !entrance.has_turns()).then(|| Arc::clone(&entrance.over))
        });
        if let Some(over) = over.flatten() {
            over.notify_waiters();
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
