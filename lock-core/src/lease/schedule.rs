//! Defines the schedule of one renewal loop. The loop and the code that adds leases share it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tokio::runtime::Id;

use super::due::Due;
use super::due_queue::{DueQueue, Filed};
use super::lease::Lease;
use crate::clock::Moment;
use crate::sync::{Mutex, Notify};

/// The leases of one renewal loop, ordered by due time.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// The runtime of the loop.
    runtime: Id,
    /// Only weak references are made, cloned and dropped under the mutex. The drop of the last reference to a lease
    /// ends a span of the application.
    queue: Mutex<DueQueue<Lease>>,
    /// When the loop wakes next. Code that adds an earlier lease must wake the loop.
    wakes_at: AtomicI64,
    wake: Notify,
    closing: AtomicBool,
}

impl Schedule {
    /// Makes the schedule for a loop on `runtime`.
    pub(super) fn new(runtime: Id) -> Arc<Self> {
        Arc::new(Self {
            runtime,
            queue: Mutex::new(DueQueue::new()),
            // The loop checks the queue before its first sleep, so no wake-up is needed until then.
            wakes_at: AtomicI64::new(i64::MIN),
            wake: Notify::new(),
            closing: AtomicBool::new(false),
        })
    }

    pub(crate) fn runtime(&self) -> Id {
        self.runtime
    }

    /// Adds `lease` under `due`, in place of its earlier entry.
    pub(super) fn file(&self, lease: &Arc<Lease>, due: Due) {
        self.queue.with(|queue| {
            let late = lease.next_look.swap(due.late, Ordering::AcqRel);
            queue.file(Arc::downgrade(lease), late, due);
        });
        // `wakes_at` is read after the lease was added. In `sleeps_until`, the loop does the reverse: it stores
        // `wakes_at`, and then checks the queue. So either this code wakes the loop, or the loop finds the lease.
        if due.late < self.wakes_at.load(Ordering::Acquire) {
            self.wake.notify_one();
        }
    }

    /// Removes and returns the leases that are due at `now`; see [`DueQueue::take_due`].
    pub(super) fn take_due(&self, now: Moment) -> Vec<Arc<Lease>> {
        let due = self.queue.with(|queue| queue.take_due(now));
        // A lease that was added again since then has another time, and is checked at that time.
        let is_current = |(late, lease): &(i64, Arc<Lease>)| lease.next_look.load(Ordering::Acquire) == *late;
        live(due).filter(is_current).map(|(_, lease)| lease).collect()
    }

    /// Returns every lease of the queue that has not ended, also a lease that is being added again at this moment: a
    /// report of a loss must reach every live lease. A lease that has moved to the schedule of another runtime may be
    /// in both.
    pub(crate) fn leases(&self) -> Vec<Arc<Lease>> {
        let all = self.queue.with(|queue| {
            if self.is_closing() {
                // The loop has ended and no longer removes entries.
                queue.sweep();
            }
            queue.items()
        });
        live(all).map(|(_, lease)| lease).collect()
    }

    /// Returns when the next check is due, or `None` if the queue is empty.
    pub(super) fn next(&self) -> Option<i64> {
        self.queue.with(|queue| queue.next())
    }

    /// Announces that the loop sleeps until the next check, or until `limit` if that is earlier. Returns `None` if an
    /// earlier lease was added in the meantime. In that case the loop must not sleep.
    pub(super) fn sleeps_until(&self, limit: i64) -> Option<i64> {
        let next = self.next().unwrap_or(i64::MAX).min(limit);
        self.wakes_at.store(next, Ordering::Release);
        // A lease that was added before `wakes_at` was stored did not wake the loop, so the queue is checked again.
        (self.next().unwrap_or(i64::MAX) >= next).then_some(next)
    }

    /// Completes when the loop must end, or when a lease was added that is due before the loop wakes.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Ends the loop.
    pub(super) fn close(&self) {
        // The flag is set before the wake-up. If the loop does not sleep yet, `Notify` keeps the wake-up.
        self.closing.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Records that the loop has ended and no longer checks its leases. Live leases stay in the queue.
    pub(super) fn end(&self) {
        self.close();
        self.queue.with(DueQueue::sweep);
    }

    /// Returns whether the loop has ended and left no live leases.
    pub(super) fn is_over(&self) -> bool {
        self.is_closing() && self.leases().is_empty()
    }
}

/// Returns the leases that have not ended.
fn live(filed: Vec<Filed<Lease>>) -> impl Iterator<Item = (i64, Arc<Lease>)> {
    let filed = filed.into_iter().filter_map(|(late, lease)| Some((late, lease.upgrade()?)));
    filed.filter(|(_, lease)| !lease.has_ended())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::runtime::Handle;

    use super::super::due_queue::MIN_SWEEP;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn stale_and_dead_entries_are_dropped_and_live_ones_are_not() {
        let locks = crate::manager::LockManager::in_memory();
        let guard = locks.lock("live").acquire().await.expect("it is free");
        let again = locks.lock("again").acquire().await.expect("it is free");
        let released = locks.lock("released").acquire().await.expect("it is free");
        let start = guard.lease().since;
        let due = |ms: u64| Due::exactly(start.plus(Duration::from_millis(ms)));
        let queue = Schedule::new(Handle::current().id());
        queue.file(guard.lease(), due(5_000));
        queue.file(released.lease(), due(5_000));
        // Another reference may keep the lease alive, for example a handle.
        let _kept = Arc::clone(released.lease());
        drop(released);
        for ms in 0..10_000 {
            queue.file(again.lease(), due(10_000 - ms));
        }
        let filed = queue.queue.with(|queue| queue.len());
        assert!(filed <= 2 * MIN_SWEEP, "{filed} entries for two leases");
        assert_eq!(queue.leases().len(), 2);
        assert_eq!(
            queue.take_due(start.plus(Duration::from_millis(4_999))).len(),
            1,
            "the last filing counts"
        );
        assert_eq!(queue.take_due(start.plus(Duration::from_millis(6_000))).len(), 1);
        assert_eq!(queue.take_due(start.plus(Duration::from_secs(60))).len(), 0);
        assert_eq!(queue.next(), None);
    }

    /// A report of a loss that came while a renewal was answered would otherwise miss the lease.
    #[tokio::test]
    async fn a_lease_that_is_added_again_at_this_moment_is_listed() {
        let locks = crate::manager::LockManager::in_memory();
        let guard = locks.lock("k").acquire().await.expect("it is free");
        let (lease, queue) = (Arc::clone(guard.lease()), Schedule::new(Handle::current().id()));
        queue.file(&lease, Due::exactly(lease.since));
        let (again, done) = (Arc::clone(&queue), Arc::new(AtomicBool::new(false)));
        let is_done = Arc::clone(&done);
        let files = std::thread::spawn(move || {
            for ms in (0..1_000).cycle().take_while(|_| !is_done.load(Ordering::Acquire)) {
                again.file(&lease, Due::exactly(lease.since.plus(Duration::from_millis(ms))));
            }
        });
        let missed = (0..100_000).filter(|_| queue.leases().len() != 1).count();
        done.store(true, Ordering::Release);
        files.join().expect("no panic");
        assert_eq!(missed, 0);
    }
}
