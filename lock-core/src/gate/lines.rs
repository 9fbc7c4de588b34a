//! The lines of all keys.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::hints::Hints;
use super::line::Line;
use super::seat::Seat;
use super::turn::Turn;
use super::waiter::Waiter;
use crate::acquire::InFlight;
use crate::clock::Clock;
use crate::key::Key;

const SHARDS: usize = 32;

type Shard = HashMap<Key, Line>;

/// All lines of one manager.
#[derive(Debug)]
pub(crate) struct Gate {
    shards: [Mutex<Shard>; SHARDS],
    hasher: std::hash::RandomState,
    /// How many lines there are; while it is zero, nothing need be looked up.
    lines: AtomicUsize,
    hints: Hints,
    /// Whether the store tells when somebody waits elsewhere; where it does not, somebody always may.
    told: bool,
    clock: Clock,
}

impl Gate {
    pub(crate) fn new(told: bool, clock: Clock) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        let hasher = std::hash::RandomState::new();
        Self { shards, hasher, lines: AtomicUsize::new(0), hints: Hints::default(), told, clock }
    }

    fn shard(&self, key: &str) -> MutexGuard<'_, Shard> {
        #[allow(clippy::cast_possible_truncation, reason = "the low bits choose the shard")]
        let index = self.hasher.hash_one(key) as usize % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the line of `key`, if there is one, and removes it when nobody needs it any more.
    fn with<T>(&self, key: &str, change: impl FnOnce(&mut Line) -> T) -> Option<T> {
        if self.lines.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut shard = self.shard(key);
        let line = shard.get_mut(key)?;
        let answer = change(line);
        if line.is_idle() {
            shard.remove(key);
            self.lines.fetch_sub(1, Ordering::AcqRel);
        }
        Some(answer)
    }

    /// How many tasks of this process wait for `key`.
    pub(crate) fn waiters(&self, key: &Key) -> usize {
        self.with(key.as_str(), |line| line.waiting()).unwrap_or(0)
    }

    /// Whether somebody of this process waits for `key`, or holds it and had to wait.
    pub(crate) fn is_busy(&self, key: &Key) -> bool {
        self.with(key.as_str(), |_| ()).is_some()
    }

    /// Joins the line for `key`, behind those who wait already; `Err` says how many they are, if they are `max` or more.
    pub(crate) fn join<'a>(&'a self, key: &Key, max: usize, ttl: Duration) -> Result<Waiter<'a>, usize> {
        let mut shard = self.shard(key.as_str());
        let waiting = shard.get(key.as_str()).map_or(0, Line::waiting);
        if waiting >= max {
            return Err(waiting);
        }
        let line = shard.entry(key.clone()).or_insert_with(|| {
            self.lines.fetch_add(1, Ordering::AcqRel);
            Line::default()
        });
        let seat = line.join(ttl, self.clock.now());
        drop(shard);
        Ok(Waiter::new(self, key.clone(), seat))
    }

    /// Gives the grant of a holder that releases `key` to the next in line. `false` where nobody waits, where others have
    /// waited elsewhere for long enough, or where there is no `turn` to give: then the grant belongs to the store.
    ///
    /// `turn` makes it for one who asks for such a lease, and must not use the gate.
    pub(crate) fn hand_over(&self, key: &Key, turn: impl FnOnce(Duration) -> Option<Turn>) -> bool {
        if self.lines.load(Ordering::Acquire) == 0 {
            return false;
        }
        let now = self.clock.now();
        let next = self.with(key.as_str(), |line| {
            if !self.told {
                line.contend(now);
            }
            line.hand_over(turn, now)
        });
        match next.flatten() {
            Some(seat) => {
                seat.ring();
                true
            }
            None => false,
        }
    }

    /// A guard of this process gave `key` back to the store, or lost it: the head may ask.
    pub(crate) fn freed(&self, key: &Key) {
        if let Some(head) = self.with(key.as_str(), Line::freed).flatten() {
            head.ring();
        }
    }

    /// Somebody waits elsewhere for `key`, which this process holds.
    pub(crate) fn contended(&self, key: &str) {
        let now = self.clock.now();
        self.with(key, |line| line.contend(now));
    }

    /// Whether somebody is known to wait elsewhere.
    #[cfg(test)]
    pub(super) fn is_contended(&self, key: &Key) -> bool {
        self.with(key.as_str(), |line| line.is_contended()).unwrap_or(false)
    }

    /// Takes a turn back from a waiter that is not polled.
    pub(super) fn nudge(&self, key: &Key) {
        let now = self.clock.now();
        if let Some(next) = self.with(key.as_str(), |line| line.nudge(now)).flatten() {
            next.ring();
        }
    }

    pub(super) fn granted(&self, key: &Key, seat: &Arc<Seat>, contended: bool) {
        let now = self.clock.now();
        let contended = contended || !self.told;
        // What is dropped here may ask the store, and must not do so under the lock.
        drop(self.with(key.as_str(), |line| line.granted(seat, contended, now)));
    }

    pub(super) fn leave(&self, key: &Key, seat: &Arc<Seat>, place: Option<InFlight>) {
        let mut place = Some(place);
        let left = self.with(key.as_str(), |line| line.leave(seat, place.take().flatten()));
        if let Some((unused, head)) = left {
            if let Some(head) = head {
                head.ring();
            }
            drop(unused);
        }
        drop(place);
    }

    pub(super) fn is_head(&self, key: &Key, seat: &Arc<Seat>) -> bool {
        self.with(key.as_str(), |line| line.is_head(seat)).unwrap_or(false)
    }

    /// Whether `key` was held when it was last tried.
    pub(crate) fn is_hot(&self, key: &Key) -> bool {
        self.hints.has(self.hasher.hash_one(key.as_str()))
    }

    /// Remembers whether `key` was held.
    pub(crate) fn found(&self, key: &Key, held: bool) {
        self.hints.set(self.hasher.hash_one(key.as_str()), held);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lines.load(Ordering::Acquire) == 0
            && self.shards.iter().all(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).is_empty())
    }
}
