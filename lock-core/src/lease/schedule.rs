//! Defines the schedule of one renewal loop. The loop and the code that adds items share it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tokio::runtime::Id;

use super::due::Due;
use super::due_queue::{DueQueue, Scheduled};
use crate::clock::Moment;
use crate::sync::{Mutex, Notify};

/// The items of one renewal loop, ordered by due time.
#[derive(Debug)]
pub(crate) struct Schedule<T> {
    /// The runtime of the loop.
    runtime: Id,
    queue: Mutex<DueQueue<T>>,
    /// When the loop wakes next. Code that adds an earlier item must wake the loop.
    wakes_at: AtomicI64,
    wake: Notify,
    closing: AtomicBool,
}

impl<T: Scheduled> Schedule<T> {
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

    pub(super) fn runtime(&self) -> Id {
        self.runtime
    }

    /// Changes the queue under its mutex. References to checked items are dropped outside of the mutex; see
    /// [`DueQueue::looked_at`].
    fn with<R>(&self, change: impl FnOnce(&mut DueQueue<T>) -> R) -> R {
        let (answer, looked_at) = self.queue.with(|queue| {
            let answer = change(queue);
            (answer, queue.looked_at())
        });
        drop(looked_at);
        answer
    }

    /// Adds `item` under `due`. An earlier entry of the item becomes stale.
    pub(super) fn file(&self, item: &Arc<T>, due: Due) {
        self.with(|queue| queue.file(item, due));
        // `wakes_at` is read after the item was added. In `sleeps_until`, the loop does the reverse: it stores
        // `wakes_at`, and then checks the queue. So either this code wakes the loop, or the loop finds the item.
        if due.late < self.wakes_at.load(Ordering::Acquire) {
            self.wake.notify_one();
        }
    }

    /// Removes and returns the items that are due at `now`; see [`DueQueue::take_due`].
    pub(super) fn take_due(&self, now: Moment) -> Vec<Arc<T>> {
        self.with(|queue| queue.take_due(now))
    }

    /// Returns every live item in the queue.
    pub(crate) fn items(&self) -> Vec<Arc<T>> {
        self.with(|queue| {
            if self.is_closing() {
                // The loop has ended and no longer removes dead entries.
                queue.sweep();
            }
            queue.items()
        })
    }

    /// Returns when the next check is due, or `None` if the queue is empty.
    pub(super) fn next(&self) -> Option<i64> {
        self.with(|queue| queue.next())
    }

    /// Announces that the loop sleeps until the next check, or until `limit` if that is earlier. Returns `None` if an
    /// earlier item was added in the meantime. In that case the loop must not sleep.
    pub(super) fn sleeps_until(&self, limit: i64) -> Option<i64> {
        let next = self.next().unwrap_or(i64::MAX).min(limit);
        self.wakes_at.store(next, Ordering::Release);
        // An item that was added before `wakes_at` was stored did not wake the loop, so the queue is checked again.
        (self.next().unwrap_or(i64::MAX) >= next).then_some(next)
    }

    /// Completes when the loop must end, or when an item was added that is due before the loop wakes.
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

    /// Records that the loop has ended and no longer checks its items. Live items stay in the queue.
    pub(super) fn end(&self) {
        self.close();
        self.with(DueQueue::sweep);
    }

    /// Returns whether the loop has ended and left no live items.
    pub(super) fn is_over(&self) -> bool {
        if !self.is_closing() {
            return false;
        }
        self.with(|queue| {
            queue.sweep();
            queue.len() == 0
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::runtime::Handle;

    use super::super::due_queue::MIN_SWEEP;
    use super::*;
    use crate::clock::Clock;

    /// An item whose other references are all dropped while the schedule checks it.
    struct Goes {
        next_look: AtomicI64,
        itself: Mutex<Option<Arc<Self>>>,
        schedule: Arc<Schedule<Self>>,
        _outside: crate::sync::OutsideOfLocks,
    }

    impl Scheduled for Goes {
        fn next_look(&self) -> &AtomicI64 {
            &self.next_look
        }

        fn has_ended(&self) -> bool {
            // This simulates another thread that drops its guard at this moment.
            self.itself.lock().take().is_some()
        }
    }

    impl Drop for Goes {
        fn drop(&mut self) {
            // This simulates a log subscriber that uses a lock when the span of the item ends.
            let _ = self.schedule.next();
        }
    }

    #[test]
    fn the_last_reference_to_an_item_goes_outside_of_the_lock() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let looks: [fn(&Schedule<Goes>); 4] = [
            |schedule| schedule.end(),
            |schedule| assert!(schedule.items().is_empty()),
            |schedule| {
                assert!(schedule.take_due(Clock::Suspend.now().plus(Duration::from_secs(60))).is_empty())
            },
            |schedule| {
                schedule.close();
                assert!(schedule.is_over());
            },
        ];
        for look in looks {
            let schedule = Schedule::new(runtime.handle().id());
            let item = Arc::new(Goes {
                next_look: AtomicI64::new(0),
                itself: Mutex::default(),
                schedule: Arc::clone(&schedule),
                _outside: crate::sync::OutsideOfLocks::default(),
            });
            schedule.file(&item, Due::exactly(Clock::Suspend.now()));
            let weak = Arc::downgrade(&item);
            item.itself.with(|itself| *itself = Some(Arc::clone(&item)));
            drop(item);
            // The check runs on a separate thread, because a drop of the item under the mutex would deadlock.
            let looked = std::thread::spawn(move || look(&schedule));
            let ends = std::iter::repeat_with(|| std::thread::sleep(Duration::from_millis(10)));
            assert!(ends.take(6_000).any(|()| looked.is_finished()), "a deadlock");
            looked.join().expect("no panic");
            assert!(weak.upgrade().is_none(), "it is gone");
        }
    }

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
        let filed = queue.with(|queue| queue.len());
        assert!(filed <= 2 * MIN_SWEEP, "{filed} entries for two leases");
        assert_eq!(queue.items().len(), 2);
        assert_eq!(
            queue.take_due(start.plus(Duration::from_millis(4_999))).len(),
            1,
            "the last filing counts"
        );
        assert_eq!(queue.take_due(start.plus(Duration::from_millis(6_000))).len(), 1);
        assert_eq!(queue.take_due(start.plus(Duration::from_secs(60))).len(), 0);
        assert_eq!(queue.next(), None);
    }
}
