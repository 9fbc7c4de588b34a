//! The claims of this process that enter the queues of keys, in their order of arrival.
//!
//! etcd executes the concurrent requests of a connection in any order. So of the claims that may wait for one key, only
//! one at a time requests its entry. The claims that arrive meanwhile gather. A task then has all of them enter in
//! their order: one transaction adds the entries of those that have to wait. A claim that arrives while no other one is
//! entering starts no task. Readers hold a key together, so they enter beside each other.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::error::Failure;
use super::plan::Plan;
use crate::backend::{Ask, Claim, Mode};
use crate::clock::Moment;
use crate::sync::{Mutex, Notify, survives};

/// The entering claims of all keys.
#[derive(Default)]
pub(super) struct Entering(Mutex<HashMap<Vec<u8>, Entrance>>);

/// The entering claims of one key.
struct Entrance {
    /// The claims that are requesting their entries themselves.
    inside: Inside,
    gathered: VecDeque<Gathered>,
    /// The number of the last claim that has gathered.
    last: u64,
    /// Whether a task has the gathered claims enter.
    has_task: bool,
    /// This is notified when nobody is inside any more.
    left: Arc<Notify>,
}

#[derive(Clone, Copy, Default)]
struct Inside {
    /// Grows when the claims inside are no longer waited for.
    round: u64,
    readers: usize,
    others: usize,
}

/// What a gathered claim is told: its next step, with its turn if it requests its entry itself.
pub(super) type Word = Result<(Plan, Option<Turn>), Failure>;

/// A claim that may wait for its key, as the task needs it.
pub(super) struct Wanted {
    pub(super) claim: Claim,
    pub(super) ask: Ask,
    pub(super) began: Moment,
}

pub(super) struct Gathered {
    pub(super) number: u64,
    pub(super) wanted: Arc<Wanted>,
    told: oneshot::Sender<Word>,
}

/// The way in which a claim enters.
pub(super) enum Arrival {
    /// The claim requests its entry itself, at once.
    Enters(Turn),
    /// The claim has gathered behind others. If `starts_task` is set, it starts the task.
    Gathers { place: Place, starts_task: bool },
}

/// The turn of a claim that requests its entry itself. It ends when this value is dropped.
pub(super) struct Turn {
    entering: Arc<Entering>,
    line: Vec<u8>,
    round: u64,
    is_reader: bool,
}

/// The place of a gathered claim.
pub(super) struct Place {
    entering: Arc<Entering>,
    line: Vec<u8>,
    number: u64,
    told: oneshot::Receiver<Word>,
}

impl Entering {
    pub(super) fn arrive(
        self: &Arc<Self>,
        line: &[u8],
        mode: Mode,
        wanted: impl FnOnce() -> Wanted,
    ) -> Arrival {
        let mut all = self.0.lock();
        let entrance = all.entry(line.to_vec()).or_insert_with(Entrance::new);
        let is_reader = mode == Mode::Shared;
        let is_free = entrance.inside.others == 0 && (is_reader || entrance.inside.readers == 0);
        if is_free && !entrance.has_task {
            return Arrival::Enters(self.turn(entrance, line, is_reader));
        }
        let (told, answer) = oneshot::channel();
        entrance.last += 1;
        let (number, starts_task) = (entrance.last, !entrance.has_task);
        entrance.has_task = true;
        entrance.gathered.push_back(Gathered { number, wanted: Arc::new(wanted()), told });
        let place = Place { entering: Arc::clone(self), line: line.to_vec(), number, told: answer };
        Arrival::Gathers { place, starts_task }
    }

    fn turn(self: &Arc<Self>, entrance: &mut Entrance, line: &[u8], is_reader: bool) -> Turn {
        *entrance.inside.count(is_reader) += 1;
        Turn { entering: Arc::clone(self), line: line.to_vec(), round: entrance.inside.round, is_reader }
    }

    /// Returns what is notified when nobody is inside any more; `None` if nobody is inside.
    pub(super) fn inside(&self, line: &[u8]) -> Option<Arc<Notify>> {
        let all = self.0.lock();
        let entrance = all.get(line).filter(|entrance| !entrance.inside.is_empty())?;
        Some(Arc::clone(&entrance.left))
    }

    /// Waits no longer for the claims that are inside, whose runtime may have stopped.
    pub(super) fn forget_inside(&self, line: &[u8]) {
        if let Some(entrance) = self.0.lock().get_mut(line) {
            entrance.inside = Inside { round: entrance.inside.round + 1, ..Inside::default() };
        }
    }

    /// Returns the gathered claims in their order. If there are none, the task has ended.
    pub(super) fn gathered(&self, line: &[u8]) -> Vec<(u64, Arc<Wanted>)> {
        self.change(line, |entrance| {
            let all: Vec<_> =
                entrance.gathered.iter().map(|one| (one.number, Arc::clone(&one.wanted))).collect();
            entrance.has_task = !all.is_empty();
            all
        })
        .unwrap_or_default()
    }

    /// Removes and returns the claims with these numbers that have not been dropped. Runs `take` for each of them, so
    /// that a claim that is dropped later finds what `take` has done.
    pub(super) fn take(&self, line: &[u8], numbers: &[u64], mut take: impl FnMut(&Wanted)) -> Vec<Gathered> {
        self.change(line, |entrance| {
            let all = std::mem::take(&mut entrance.gathered).into_iter();
            let (taken, left): (Vec<_>, Vec<_>) = all.partition(|one| numbers.contains(&one.number));
            entrance.gathered = left.into();
            taken.iter().for_each(|one| take(&one.wanted));
            taken
        })
        .unwrap_or_default()
    }

    /// Puts claims back before all others.
    pub(super) fn put_back(&self, line: &[u8], taken: Vec<Gathered>) {
        let (dropped, still): (Vec<_>, Vec<_>) = taken.into_iter().partition(|one| one.told.is_closed());
        drop(dropped);
        self.change(line, |entrance| {
            still.into_iter().rev().for_each(|one| entrance.gathered.push_front(one))
        });
    }

    /// Returns the turn of a claim that was [taken](Self::take).
    pub(super) fn turn_of(self: &Arc<Self>, line: &[u8], mode: Mode) -> Option<Turn> {
        let mut all = self.0.lock();
        Some(self.turn(all.get_mut(line)?, line, mode == Mode::Shared))
    }

    /// Ends the task. The claims that have gathered go on by themselves.
    pub(super) fn end_task(&self, line: &[u8]) {
        let left = self.change(line, |entrance| {
            entrance.has_task = false;
            std::mem::take(&mut entrance.gathered)
        });
        for one in left.into_iter().flatten() {
            // This wakes the claim, and the waker may belong to the application.
            survives(|| drop(one));
        }
    }

    /// Changes an entrance, and removes it if nobody uses it any more.
    fn change<T>(&self, line: &[u8], change: impl FnOnce(&mut Entrance) -> T) -> Option<T> {
        let mut all = self.0.lock();
        let entrance = all.get_mut(line)?;
        let changed = change(entrance);
        if entrance.inside.is_empty() && !entrance.has_task {
            all.remove(line);
        }
        Some(changed)
    }
}

impl Entrance {
    fn new() -> Self {
        Self {
            inside: Inside::default(),
            gathered: VecDeque::new(),
            last: 0,
            has_task: false,
            left: Arc::new(Notify::new()),
        }
    }
}

impl Inside {
    fn is_empty(self) -> bool {
        self.readers == 0 && self.others == 0
    }

    fn count(&mut self, is_reader: bool) -> &mut usize {
        if is_reader { &mut self.readers } else { &mut self.others }
    }
}

impl Gathered {
    pub(super) fn tell(self, word: Word) {
        // This wakes the claim, and the waker may belong to the application.
        survives(|| drop(self.told.send(word)));
    }
}

impl Place {
    /// Waits for what the task tells the claim. Returns `None` if the task has ended with its runtime.
    pub(super) async fn told(&mut self) -> Option<Word> {
        (&mut self.told).await.ok()
    }

    /// Removes the claim. Returns whether it was still gathered, so that no request contains it.
    pub(super) fn withdraw(&mut self) -> bool {
        let (line, number) = (&self.line, self.number);
        let withdrawn = self.entering.change(line, |entrance| {
            let at = entrance.gathered.iter().position(|one| one.number == number)?;
            entrance.gathered.remove(at)
        });
        withdrawn.flatten().is_some()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let left = self.entering.change(&self.line, |entrance| {
            if entrance.inside.round == self.round {
                *entrance.inside.count(self.is_reader) -= 1;
            }
            entrance.inside.is_empty().then(|| Arc::clone(&entrance.left))
        });
        if let Some(left) = left.flatten() {
            left.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
