//! Orders the leases of one renewal loop by due time, and calculates due times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Id;

use crate::clock::{Moment, nanos};
use crate::sync::{Mutex, Notify};

/// The maximum time, in nanoseconds, by which a renewal is sent early to share a batch.
const MAX_SLACK: i64 = 100_000_000;

/// Returns a moment by the clock that orders the queue. That clock includes suspend, so after a suspend overdue items
/// are due at once.
pub(super) fn instant(moment: Moment) -> i64 {
    moment.parts().1
}

/// The time at which an item must be checked next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// The earliest time of the check.
    pub(super) early: i64,
    /// The latest time of the check.
    pub(super) late: i64,
}

impl Due {
    /// Makes a due time at exactly this moment.
    pub(super) fn exactly(moment: Moment) -> Self {
        let at = instant(moment);
        Self { early: at, late: at }
    }

    /// Makes a due time at a third of the lease after `sent`. `jitter` (0 to 1) moves it up to a twelfth of the lease
    /// earlier, so that processes that started together drift apart. To share a batch, the renewal may be sent up to
    /// another twelfth earlier.
    pub(super) fn renewal(sent: Moment, ttl: Duration, jitter: f64) -> Self {
        // The calculation uses whole nanoseconds: every grant passes through here, and dividing a `Duration` is slow.
        let ttl = nanos(ttl);
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "a part of a twelfth"
        )]
        let earlier = ((ttl / 12) as f64 * jitter.clamp(0.0, 1.0)) as i64;
        let late = instant(sent).saturating_add(ttl / 3 - earlier);
        Self { early: late - slack(ttl), late }
    }

    /// Makes the due time after an unanswered renewal. The retry is soon, so that several retries fit into `left`, the
    /// rest of the lease. The rest may be far less than a part of `ttl`, because a store may grant less than requested.
    pub(super) fn retry(now: Moment, ttl: Duration, left: Duration) -> Self {
        let pause = (ttl / 12).clamp(Duration::from_millis(2), Duration::from_millis(500));
        // The pause has a minimum, because the renewals of ten thousand leases may fail at the same time.
        let pause = pause.min((left / 3).max(Duration::from_millis(100)));
        let late = instant(now.plus(pause));
        Self { early: late, late }
    }

    /// Returns this due time, limited to `limit`.
    pub(super) fn no_later_than(self, limit: Moment) -> Self {
        let limit = instant(limit);
        Self { early: self.early.min(limit), late: self.late.min(limit) }
    }
}

/// Returns how early the renewal of a lease of `ttl` nanoseconds may be.
fn slack(ttl: i64) -> i64 {
    (ttl / 12).min(MAX_SLACK)
}

/// An item of a schedule.
pub(crate) trait Scheduled {
    /// Returns when the item is checked next. Entries of the queue with a different time are stale.
    fn next_look(&self) -> &AtomicI64;

    /// Returns whether the item needs no further checks.
    fn has_ended(&self) -> bool;
}

/// The items of one loop by due time, shared between the loop and the code that adds items.
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
            queue: Mutex::new(DueQueue { heap: BinaryHeap::new(), sweep_at: 0, looked_at: Vec::new() }),
            // The loop checks the queue before its first sleep, so no wake-up is needed until then.
            wakes_at: AtomicI64::new(i64::MIN),
            wake: Notify::new(),
            closing: AtomicBool::new(false),
        })
    }

    pub(super) fn runtime(&self) -> Id {
        self.runtime
    }

    /// Changes the queue. A check may have the last reference to an item, and dropping the item ends a span of the
    /// application. So checked items are moved out of the lock and dropped here.
    fn with<R>(&self, change: impl FnOnce(&mut DueQueue<T>) -> R) -> R {
        let (answer, looked_at) = self.queue.with(|queue| {
            let answer = change(queue);
            (answer, std::mem::take(&mut queue.looked_at))
        });
        drop(looked_at);
        answer
    }

    /// Adds `item` under `due`. An earlier entry of the item becomes stale.
    pub(super) fn file(&self, item: &Arc<T>, due: Due) {
        self.with(|queue| queue.file(item, due));
        // `wakes_at` is read after the item is in the queue. In `sleeps_until`, the loop does the reverse: it announces
        // its time, and then checks the queue. So at least one of the two sides sees the other.
        if due.late < self.wakes_at.load(Ordering::Acquire) {
            self.wake.notify_one();
        }
    }

    /// Removes and returns all items that are due at `now`, and the items that may share their batch.
    pub(super) fn take_due(&self, now: Moment) -> Vec<Arc<T>> {
        self.with(|queue| queue.take_due(now))
    }

    /// Returns every live item in the queue.
    pub(crate) fn items(&self) -> Vec<Arc<T>> {
        self.with(|queue| {
            if self.is_closing() {
                // The loop has ended, so it no longer removes dead entries itself.
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
    /// earlier item was added in the meantime; the loop must then not sleep.
    pub(super) fn sleeps_until(&self, limit: i64) -> Option<i64> {
        let next = self.next().unwrap_or(i64::MAX).min(limit);
        self.wakes_at.store(next, Ordering::Release);
        // An item that was added before this store did not wake the loop, so the queue is checked again.
        (self.next().unwrap_or(i64::MAX) >= next).then_some(next)
    }

    /// Completes when the loop must end, or when an item was added that is due before the loop wakes.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Ends the loop.
    pub(super) fn close(&self) {
        // The flag is stored before the wake-up. If the loop does not sleep yet, `Notify` keeps the wake-up.
        self.closing.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Records that the loop has ended, so that its items are no longer checked. Live items stay listed.
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
            queue.heap.is_empty()
        })
    }
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

/// The items by due time. Ended items stay until they are due, or until a sweep removes them. So a release costs
/// nothing here.
#[derive(Debug)]
struct DueQueue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    /// The length at which the next sweep removes dead entries.
    sweep_at: usize,
    /// The items that were checked under the lock. They are dropped outside of it; see [`Schedule::with`].
    looked_at: Vec<Arc<T>>,
}

/// Shorter queues are never swept. The number is small, because the memory of a released lease is reused only after a
/// sweep. Memory that is freed in small portions is still in the cache of the processor.
const MIN_SWEEP: usize = 8;

impl<T: Scheduled> DueQueue<T> {
    fn file(&mut self, item: &Arc<T>, due: Due) {
        // This store is enough to make an earlier entry of the item stale. Removing that entry would need a search of
        // the heap.
        item.next_look().store(due.late, Ordering::Release);
        self.heap.push(Reverse(Entry { due, item: Arc::downgrade(item) }));
        if self.heap.len() >= self.sweep_at.max(MIN_SWEEP) {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        let looked_at = &mut self.looked_at;
        self.heap.retain(|Reverse(entry)| entry.look(looked_at).is_some());
        self.sweep_at = self.heap.len() * 2;
    }

    fn take_due(&mut self, now: Moment) -> Vec<Arc<T>> {
        let now = instant(now);
        // No item is checked more than `MAX_SLACK` before its `late`, so no item after the horizon is due.
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
        // The entries are put back after the loop. Inside the loop they would be popped again and again.
        self.heap.extend(not_yet);
        due
    }

    fn next(&self) -> Option<i64> {
        // The top entry may be stale. A needless wake-up costs less than a search for the first current entry.
        self.heap.peek().map(|Reverse(entry)| entry.due.late)
    }

    fn items(&mut self) -> Vec<Arc<T>> {
        let Self { heap, looked_at, .. } = self;
        heap.iter().filter_map(|Reverse(entry)| entry.look(looked_at).map(Arc::clone)).collect()
    }
}

impl<T: Scheduled> Entry<T> {
    /// Returns the item if this entry is current and the item has not ended. In any case, the reference to the item is
    /// dropped with `looked_at`.
    fn look<'a>(&self, looked_at: &'a mut Vec<Arc<T>>) -> Option<&'a Arc<T>> {
        looked_at.push(self.item.upgrade()?);
        let item = looked_at.last()?;
        let filed = item.next_look().load(Ordering::Acquire);
        (filed == self.due.late && !item.has_ended()).then_some(item)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::runtime::Handle;

    use super::*;
    use crate::clock::Clock;

    const MS: i64 = 1_000_000;

    #[test]
    fn a_renewal_is_due_between_a_quarter_and_a_third_of_the_lease() {
        let sent = Clock::Suspend.now();
        let start = instant(sent);
        for ttl_ms in [10, 30, 500, 3_000, 60_000, 86_400_000] {
            let ttl = Duration::from_millis(ttl_ms);
            for jitter in [0.0, 0.3, 1.0, 7.0] {
                let due = Due::renewal(sent, ttl, jitter);
                let (early, late) = (due.early - start, due.late - start);
                let ttl = i64::try_from(ttl.as_nanos()).unwrap();
                assert!(late <= ttl / 3 && late >= ttl / 4 - 2, "{ttl_ms} ms: {late}");
                assert!(
                    early <= late && early >= ttl / 6 - 2 && late - early <= 100 * MS,
                    "{ttl_ms} ms: {early}"
                );
            }
        }
    }

    #[test]
    fn a_retry_comes_several_times_within_what_is_left() {
        let now = Clock::Suspend.now();
        for (ttl_ms, left_ms) in
            [(30, 15), (500, 250), (3_000, 1_500), (60_000, 30_000), (60_000, 1_200), (60_000, 300)]
        {
            let pause = Due::retry(now, Duration::from_millis(ttl_ms), Duration::from_millis(left_ms)).late
                - instant(now);
            assert!(
                pause * 3 <= i64::try_from(left_ms).unwrap() * MS,
                "{left_ms} ms of {ttl_ms} ms: {pause}"
            );
        }
        let pause = Due::retry(now, Duration::from_secs(60), Duration::ZERO).late - instant(now);
        assert_eq!(pause, 100 * MS, "a store that fails is not hammered");
    }

    #[test]
    fn after_a_suspend_the_deadline_is_due() {
        let deadline = Clock::Suspend.now().plus(Duration::from_secs(10));
        let (mono, boot) = deadline.parts();
        // The machine was suspended for a minute, one second into a lease of ten seconds.
        let now = Moment::from_parts((mono - 9_000_000_000, boot + 51_000_000_000));
        assert!(deadline.is_past(now));
        assert!(Due::exactly(deadline).late <= instant(now));
    }

    proptest! {
        #[test]
        fn a_limit_is_kept(ttl in 1_u64..100_000, limit in 0_u64..100_000, jitter in 0.0..1.0_f64) {
            let sent = Clock::Suspend.now();
            let limit = sent.plus(Duration::from_millis(limit));
            let due = Due::renewal(sent, Duration::from_millis(ttl), jitter).no_later_than(limit);
            prop_assert!(due.early <= due.late && due.late <= instant(limit));
        }
    }

    /// An item whose last other reference is dropped while the schedule checks the item.
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
            // This simulates a log that acquires a lock when the span of the item ends.
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
            // This runs on a separate thread, because dropping the item under the lock would deadlock.
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
        // Something else may keep the lease alive, such as a handle.
        let _kept = Arc::clone(released.lease());
        drop(released);
        for ms in 0..10_000 {
            queue.file(again.lease(), due(10_000 - ms));
        }
        let filed = queue.with(|queue| queue.heap.len());
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
