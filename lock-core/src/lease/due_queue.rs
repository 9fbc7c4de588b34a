//! Defines the queue of one renewal loop: a heap ordered by due time, without a mutex and without a clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use super::due::{Due, MAX_SLACK, instant};
use crate::clock::Moment;

/// An item of a schedule.
pub(crate) trait Scheduled {
    /// Returns the time of the item's next check. Entries of the queue with a different time are stale.
    fn next_look(&self) -> &AtomicI64;

    /// Returns whether the item needs no further checks.
    fn has_ended(&self) -> bool;
}

#[derive(Debug)]
struct Entry<T> {
    due: Due,
    item: Weak<T>,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.due.late == other.due.late
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.due.late.cmp(&other.due.late)
    }
}

/// The items, ordered by due time. Ended items stay until they are due, or until a sweep removes them. So a release
/// does not touch the queue.
#[derive(Debug)]
pub(super) struct DueQueue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    /// The length of the heap at which the next sweep removes dead entries.
    sweep_at: usize,
    /// References to the items that were checked under the mutex. They are dropped outside of the mutex; see
    /// [`Self::looked_at`].
    looked_at: Vec<Arc<T>>,
}

/// A queue with fewer entries is never swept. The number is small, because the memory of a released lease is reused
/// only after a sweep. Memory that is freed in small portions is still in the processor's cache when it is reused.
pub(super) const MIN_SWEEP: usize = 8;

impl<T: Scheduled> DueQueue<T> {
    pub(super) fn new() -> Self {
        Self { heap: BinaryHeap::new(), sweep_at: 0, looked_at: Vec::new() }
    }

    /// Returns the number of entries, including the entries of ended items.
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Takes the references to the items that were checked. The caller must drop them outside of the queue's mutex. One
    /// of them may be the last reference to an item, and dropping the item ends a span of the application.
    pub(super) fn looked_at(&mut self) -> Vec<Arc<T>> {
        std::mem::take(&mut self.looked_at)
    }

    /// Adds `item` under `due`. An earlier entry of the item becomes stale.
    pub(super) fn file(&mut self, item: &Arc<T>, due: Due) {
        // The earlier entry is not removed, because this would need a search of the heap.
        item.next_look().store(due.late, Ordering::Release);
        self.heap.push(Reverse(Entry { due, item: Arc::downgrade(item) }));
        if self.heap.len() >= self.sweep_at.max(MIN_SWEEP) {
            self.sweep();
        }
    }

    /// Removes stale entries, and the entries of ended items.
    pub(super) fn sweep(&mut self) {
        let looked_at = &mut self.looked_at;
        self.heap.retain(|Reverse(entry)| entry.look(looked_at).is_some());
        self.sweep_at = self.heap.len() * 2;
    }

    /// Removes and returns all items that are due at `now`, and all items that may already be renewed in the same
    /// batch.
    pub(super) fn take_due(&mut self, now: Moment) -> Vec<Arc<T>> {
        let now = instant(now);
        // An item is checked at most `MAX_SLACK` before its latest time (`late`). So no item after the horizon is due.
        let horizon = now.saturating_add(MAX_SLACK);
        let (mut due, mut not_yet) = (Vec::new(), Vec::new());
        while self.heap.peek().is_some_and(|Reverse(entry)| entry.due.late <= horizon) {
            let Some(Reverse(entry)) = self.heap.pop() else { break };
            match entry.look(&mut self.looked_at) {
                Some(item) if entry.due.early <= now => due.push(Arc::clone(item)),
                Some(_) => not_yet.push(Reverse(entry)),
                None => {}
            }
        }
        // The entries are added again after the loop. Inside the loop they would be popped again and again.
        self.heap.extend(not_yet);
        due
    }

    /// Returns when the next check is due, or `None` if the queue is empty.
    pub(super) fn next(&self) -> Option<i64> {
        // The top entry may be stale and cause a needless wake-up. This costs less than a search for the first current
        // entry.
        self.heap.peek().map(|Reverse(entry)| entry.due.late)
    }

    /// Returns every live item.
    pub(super) fn items(&mut self) -> Vec<Arc<T>> {
        let Self { heap, looked_at, .. } = self;
        heap.iter().filter_map(|Reverse(entry)| entry.look(looked_at).map(Arc::clone)).collect()
    }
}

impl<T: Scheduled> Entry<T> {
    /// Returns the item if this entry is current and the item has not ended. The reference to the item is stored in
    /// `looked_at` in any case.
    fn look<'a>(&self, looked_at: &'a mut Vec<Arc<T>>) -> Option<&'a Arc<T>> {
        looked_at.push(self.item.upgrade()?);
        let item = looked_at.last()?;
        let filed = item.next_look().load(Ordering::Acquire);
        (filed == self.due.late && !item.has_ended()).then_some(item)
    }
}
