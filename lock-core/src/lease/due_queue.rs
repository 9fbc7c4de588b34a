//! Defines the queue of one renewal loop: items ordered by due time, without a mutex and without a clock.

use std::collections::BTreeMap;
use std::sync::Weak;

use super::due::{Due, MAX_SLACK, instant};
use crate::clock::Moment;

/// An item, and the latest time of its check (`late`) when the item was added.
pub(super) type Filed<T> = (i64, Weak<T>);

/// The items, ordered by due time. Each item has at most one entry. Ended items stay until they are due, and dropped
/// items until a sweep removes them. So a release does not touch the queue.
#[derive(Debug)]
pub(super) struct DueQueue<T> {
    /// The earliest time and the item, by the latest time and the address of the item. An entry keeps the memory of its
    /// item, so no two items of the queue have the same address.
    entries: BTreeMap<(i64, usize), (i64, Weak<T>)>,
    /// The number of entries at which the next sweep removes dropped items.
    sweep_at: usize,
}

/// A queue with fewer entries is never swept. The number is small, because the memory of a released lease is reused
/// only after a sweep. Memory that is freed in small portions is still in the processor's cache when it is reused.
pub(super) const MIN_SWEEP: usize = 8;

impl<T> DueQueue<T> {
    pub(super) fn new() -> Self {
        Self { entries: BTreeMap::new(), sweep_at: 0 }
    }

    /// Returns the number of entries, including the entries of ended items.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds `item` under `due`. If the item has an entry, `late` is the latest time of that entry, which is removed.
    pub(super) fn file(&mut self, item: Weak<T>, late: i64, due: Due) {
        let address = item.as_ptr().addr();
        self.entries.remove(&(late, address));
        self.entries.insert((due.late, address), (due.early, item));
        if self.entries.len() >= self.sweep_at.max(MIN_SWEEP) {
            self.sweep();
        }
    }

    /// Removes the entries of dropped items.
    pub(super) fn sweep(&mut self) {
        self.entries.retain(|_, (_, item)| item.strong_count() > 0);
        self.sweep_at = self.entries.len() * 2;
    }

    /// Removes and returns all items that are due at `now`, and all items that may already be renewed in the same
    /// batch.
    pub(super) fn take_due(&mut self, now: Moment) -> Vec<Filed<T>> {
        let now = instant(now);
        // An item is checked at most `MAX_SLACK` before its latest time (`late`). So no item after the horizon is due.
        let horizon = now.saturating_add(MAX_SLACK);
        let upto = self.entries.range(..=(horizon, usize::MAX));
        let due: Vec<_> = upto.filter(|(_, (early, _))| *early <= now).map(|(at, _)| *at).collect();
        due.into_iter().filter_map(|at| self.entries.remove(&at).map(|(_, item)| (at.0, item))).collect()
    }

    /// Returns when the next check is due, or `None` if the queue is empty.
    pub(super) fn next(&self) -> Option<i64> {
        // The first item may have ended and cause a needless wake-up. This costs less than a search for the first live
        // item.
        self.entries.first_key_value().map(|((late, _), _)| *late)
    }

    /// Returns every item.
    pub(super) fn items(&self) -> Vec<Filed<T>> {
        self.entries.iter().map(|((late, _), (_, item))| (*late, Weak::clone(item))).collect()
    }
}
