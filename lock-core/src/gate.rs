//! The waiters of one process on one key: only their head asks the store.
//!
//! A waiter of a barging claim joins the gate of its key after a first try in vain. The waiters line up in order of
//! arrival; the head alone tries again, when a guard of this process gives the key back or when its strategy says so.
//! So a hot key costs the store one waiter per process, not one per task.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedMutexGuard};

use crate::backend::BoxFuture;
use crate::key::Key;

const SHARDS: usize = 32;

/// All gates of one manager.
#[derive(Debug)]
pub(crate) struct Gate {
    shards: [Mutex<HashMap<Key, Arc<Line>>>; SHARDS],
    hasher: std::hash::RandomState,
    /// Waiters on all keys; while it is zero, a release need not look anything up.
    waiting: AtomicUsize,
}

impl Default for Gate {
    fn default() -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self { shards, hasher: std::hash::RandomState::new(), waiting: AtomicUsize::new(0) }
    }
}

/// The waiters of one key.
#[derive(Debug, Default)]
struct Line {
    /// Whose turn it is; tokio's mutex is fair, and leaving it is safe at any point.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// A guard of this process gave the key back. Keeps one permit, so that nothing is missed between two turns.
    freed: Notify,
    waiting: AtomicUsize,
}

impl Gate {
    fn shard(&self, key: &Key) -> MutexGuard<'_, HashMap<Key, Arc<Line>>> {
        #[allow(clippy::cast_possible_truncation, reason = "the low bits choose the shard")]
        let index = self.hasher.hash_one(key) as usize % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many tasks of this process wait for `key`.
    pub(crate) fn waiters(&self, key: &Key) -> usize {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return 0;
        }
        self.shard(key).get(key).map_or(0, |line| line.waiting.load(Ordering::Acquire))
    }

    /// A guard of this process gave `key` back, or lost it: the head may try.
    pub(crate) fn freed(&self, key: &Key) {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return;
        }
        if let Some(line) = self.shard(key).get(key) {
            line.freed.notify_one();
        }
    }

    /// Joins the line for `key`, behind those who wait already; `Err` says how many they are, if they are `max` or more.
    pub(crate) fn join<'a>(&'a self, key: &Key, max: usize) -> Result<Waiter<'a>, usize> {
        let line = {
            let mut shard = self.shard(key);
            let waiting = shard.get(key).map_or(0, |line| line.waiting.load(Ordering::Acquire));
            if waiting >= max {
                return Err(waiting);
            }
            self.waiting.fetch_add(1, Ordering::AcqRel);
            let line = shard.entry(key.clone()).or_default();
            line.waiting.fetch_add(1, Ordering::AcqRel);
            Arc::clone(line)
        };
        let turn = match Arc::clone(&line.turn).try_lock_owned() {
            Ok(turn) => Turn::Head(turn),
            Err(_) => Turn::Coming(Box::pin(Arc::clone(&line.turn).lock_owned())),
        };
        Ok(Waiter { gate: self, key: key.clone(), line, turn, granted: false })
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
            && self.shards.iter().all(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).is_empty())
    }
}

/// Whether it is a waiter's turn. The future is kept between two waits: dropping it would cost the place in the line.
enum Turn {
    Coming(BoxFuture<'static, OwnedMutexGuard<()>>),
    Head(#[allow(dead_code, reason = "held for its drop")] OwnedMutexGuard<()>),
    Over,
}

/// A place in the line; dropping it leaves.
pub(crate) struct Waiter<'a> {
    gate: &'a Gate,
    key: Key,
    line: Arc<Line>,
    turn: Turn,
    granted: bool,
}

impl Waiter<'_> {
    /// Whether it is this waiter's turn to ask the store.
    pub(crate) fn is_head(&self) -> bool {
        matches!(self.turn, Turn::Head(_))
    }

    /// Gives up the place and goes on counting: this waiter has its place in the store's queue.
    pub(crate) fn only_counts(mut self) -> Self {
        self.turn = Turn::Over;
        self
    }

    /// Others in the line.
    pub(crate) fn others(&self) -> usize {
        self.line.waiting.load(Ordering::Acquire).saturating_sub(1)
    }

    /// The head waits for the key to be given back; everybody else first waits to be the head.
    ///
    /// Cancel safe: a waiter that is dropped here, or returns without the key, passes the news on.
    pub(crate) async fn news(&mut self) {
        if let Turn::Coming(turn) = &mut self.turn {
            self.turn = Turn::Head(turn.await);
        }
        self.line.freed.notified().await;
    }

    /// The key is ours: the next head waits for its release instead of asking at once.
    pub(crate) fn granted(&mut self) {
        self.granted = true;
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let turn = std::mem::replace(&mut self.turn, Turn::Over);
        if matches!(turn, Turn::Head(_)) && !self.granted {
            // This waiter may have taken the news with it, so the next head asks the store.
            self.line.freed.notify_one();
        }
        drop(turn);
        let mut shard = self.gate.shard(&self.key);
        if self.line.waiting.fetch_sub(1, Ordering::AcqRel) == 1 {
            shard.remove(&self.key);
        }
        drop(shard);
        self.gate.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key() -> Key {
        Key::new("order:1").unwrap()
    }

    async fn is_pending(waiter: &mut Waiter<'_>) -> bool {
        tokio::time::timeout(Duration::from_millis(1), waiter.news()).await.is_err()
    }

    #[test]
    fn a_full_line_is_not_joined() {
        let gate = Gate::default();
        let first = gate.join(&key(), 1).unwrap();
        assert_eq!(gate.join(&key(), 1).err(), Some(1));
        assert_eq!(gate.join(&key(), 0).err(), Some(1));
        drop(first);
        assert!(gate.join(&key(), 1).is_ok() && gate.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_wakes_the_head_alone() {
        let gate = Gate::default();
        let (mut first, mut second) = (gate.join(&key(), 9).unwrap(), gate.join(&key(), 9).unwrap());
        assert!(is_pending(&mut first).await && is_pending(&mut second).await);
        gate.freed(&key());
        first.news().await;
        assert!(is_pending(&mut second).await);
        assert_eq!(gate.waiters(&key()), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_leaves_in_vain_passes_the_news_on() {
        let gate = Gate::default();
        let (mut first, mut second) = (gate.join(&key(), 9).unwrap(), gate.join(&key(), 9).unwrap());
        assert!(is_pending(&mut first).await);
        gate.freed(&key());
        first.news().await;
        drop(first);
        second.news().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_with_the_key_leaves_the_next_waiting_for_its_release() {
        let gate = Gate::default();
        let (mut first, mut second) = (gate.join(&key(), 9).unwrap(), gate.join(&key(), 9).unwrap());
        assert!(is_pending(&mut first).await);
        gate.freed(&key());
        first.news().await;
        first.granted();
        drop(first);
        assert!(is_pending(&mut second).await);
        gate.freed(&key());
        second.news().await;
        drop(second);
        assert!(gate.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_stay_are_told_when_others_leave() {
        let gate = Gate::default();
        let (mut first, mut second) = (gate.join(&key(), 9).unwrap(), gate.join(&key(), 9).unwrap());
        assert!(is_pending(&mut first).await && is_pending(&mut second).await);
        assert_eq!((gate.waiters(&key()), first.others()), (2, 1));
        drop(second);
        assert_eq!((gate.waiters(&key()), first.others()), (1, 0));
        assert!(is_pending(&mut first).await, "one that was not the head took no news along");
        gate.freed(&key());
        first.news().await;
        drop(first);
        assert_eq!(gate.waiters(&key()), 0);
        assert!(gate.is_empty());
    }
}
