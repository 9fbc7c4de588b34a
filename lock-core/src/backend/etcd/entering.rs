//! The claims of this process that enter the queues of keys, in their order of arrival.
//!
//! etcd executes the concurrent requests of a connection in any order. So while a claim that may wait is requesting its
//! entry, the claims that arrive at the same key gather. Then a task has them enter in their order: one transaction
//! adds the entries of those that have to wait. A claim that arrives while no other one is entering starts no task.
//! Claims that hold a key together may enter beside each other.

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
    /// The claims that have gathered since the task has last looked.
    gathered: Vec<Gathered>,
    /// The number of the task that has the gathered claims enter, and the number of times it has looked.
    task: Option<(u64, u64)>,
    /// This is notified when the last turn has ended, or the turns are no longer waited for.
    over: Arc<Notify>,
}

/// What a gathered claim is told: its next step, with its turn if it requests its entry itself.
pub(super) type Word = Result<(Plan, Option<Turn>), Failure>;

/// A claim that may wait for its key, as the task needs it.
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
    /// The claim has gathered behind others. If `starts_task` is set, it starts the task of its place.
    Gathers { place: Place, starts_task: bool },
}

/// The turn of a claim that requests its entry itself. It ends when this value is dropped.
pub(super) struct Turn {
    entering: Arc<Entering>,
    line: Vec<u8>,
    number: u64,
}

/// The place of a gathered claim.
pub(super) struct Place {
    /// The number of the task that has the claim enter.
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

    /// Returns a turn for a claim to which the task tells that it requests its entry itself.
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

    /// Returns the claims that have gathered since the last call of a task. If there are none and the task `has` none
    /// either, the task has ended. A task that is no longer waited for gets no more claims.
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

    /// Returns how often a task has looked for gathered claims; `None` if it is no longer waited for.
    pub(super) fn looks(&self, line: &[u8], task: u64) -> Option<u64> {
        let state = self.0.lock();
        let (number, looks) = state.entrances.get(line)?.task?;
        (number == task).then_some(looks)
    }

    /// Waits no longer for the claims that have a turn, whose runtime may have stopped.
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

    /// Waits no longer for a task, which has ended, or makes no progress. The claims that have gathered go on by
    /// themselves.
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

    /// Changes the entrance of a queue. Removes it if it has neither turns nor a task.
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
            // This wakes the claim, and the waker may belong to the application.
            survives(|| drop(told.send(word)));
        }
    }
}

impl Drop for Gathered {
    /// A claim that was told nothing goes on by itself.
    fn drop(&mut self) {
        if let Some(told) = self.told.take() {
            survives(|| drop(told));
        }
    }
}

impl Place {
    /// Waits for what the task tells the claim. Returns `None` if the claim is to go on by itself.
    pub(super) async fn told(&mut self) -> Option<Word> {
        (&mut self.told).await.ok()
    }

    /// Takes the claim out, if no request may contain it. Returns whether it was taken out.
    pub(super) fn withdraw(&self) -> bool {
        self.wanted.state.compare_exchange(WAITING, GONE, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Takes the claim out in any case. Returns whether no request may contain it.
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
