//! The queue ordered by due time, and when a grant is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::clock::Moment;
use crate::lease::Lease;

/// The most by which a renewal is sent before it is due, to travel in the batch of another.
const MAX_SLACK: Duration = Duration::from_millis(100);

/// The clock that the queue goes by: the one that counts suspend. After a suspend everything is due at once.
pub(super) fn instant(moment: Moment) -> i64 {
    moment.parts().1
}

/// When a grant needs its next look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// A look from here on is worth it.
    pub(super) early: i64,
    /// A look must not be later.
    pub(super) late: i64,
}

impl Due {
    /// At one point in time, not before.
    pub(super) fn at(moment: Moment) -> Self {
        let at = instant(moment);
        Self { early: at, late: at }
    }

    /// A third of the lease after `sent`, with `jitter` (0 to 1) of a twelfth taken off so that processes that
    /// started together drift apart, and up to a twelfth earlier in company.
    pub(super) fn renewal(sent: Moment, ttl: Duration, jitter: f64) -> Self {
        let twelfth = ttl / 12;
        let late = sent.plus(ttl / 3 - twelfth.mul_f64(jitter.clamp(0.0, 1.0)));
        let late = instant(late);
        Self { early: late - slack(ttl), late }
    }

    /// The next try after a renewal that was not answered: soon, and several times before the lease is over.
    pub(super) fn retry(now: Moment, ttl: Duration) -> Self {
        let pause = (ttl / 12).clamp(Duration::from_millis(2), Duration::from_millis(500));
        let late = instant(now.plus(pause));
        Self { early: late, late }
    }

    /// This, but not after `limit`.
    pub(super) fn no_later_than(self, limit: Moment) -> Self {
        let limit = instant(limit);
        Self { early: self.early.min(limit), late: self.late.min(limit) }
    }
}

fn slack(ttl: Duration) -> i64 {
    i64::try_from((ttl / 12).min(MAX_SLACK).as_nanos()).unwrap_or(i64::MAX)
}

#[derive(Debug)]
struct Entry {
    due: Due,
    lease: Weak<Lease>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.due.late == other.due.late
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.due.late.cmp(&other.due.late)
    }
}

/// Grants by due time. Released grants stay until their time comes or they outnumber the rest, so that a release
/// costs nothing here.
#[derive(Debug, Default)]
pub(super) struct DueQueue {
    heap: BinaryHeap<Reverse<Entry>>,
    /// Length at which dead entries are swept out next.
    sweep_at: usize,
}

/// Queues shorter than this are never swept. Small, because the memory of a released grant is used again only after a
/// sweep, and is better still in the processor's cache then.
const MIN_SWEEP: usize = 256;

impl DueQueue {
    /// Files `hold` under `due`; an earlier filing of it becomes stale.
    pub(super) fn file(&mut self, lease: &Arc<Lease>, due: Due) {
        lease.next_look.store(due.late, std::sync::atomic::Ordering::Release);
        self.heap.push(Reverse(Entry { due, lease: lease.downgrade() }));
        if self.heap.len() >= self.sweep_at.max(MIN_SWEEP) {
            self.heap.retain(|Reverse(entry)| is_current(entry).is_some());
            self.sweep_at = self.heap.len() * 2;
        }
    }

    /// Takes everything that is due at `now`, and what may as well go along.
    pub(super) fn take_due(&mut self, now: Moment) -> Vec<Arc<Lease>> {
        let now = instant(now);
        let horizon = now.saturating_add(slack(Duration::MAX));
        let (mut due, mut not_yet) = (Vec::new(), Vec::new());
        while self.heap.peek().is_some_and(|Reverse(entry)| entry.due.late <= horizon) {
            let Some(Reverse(entry)) = self.heap.pop() else { break };
            match is_current(&entry) {
                Some(lease) if entry.due.early <= now => due.push(lease),
                Some(_) => not_yet.push(Reverse(entry)),
                None => {}
            }
        }
        self.heap.extend(not_yet);
        due
    }

    /// When the next look is due; `None` when nothing is filed.
    pub(super) fn next(&self) -> Option<i64> {
        self.heap.peek().map(|Reverse(entry)| entry.due.late)
    }

    /// Every grant that is filed and alive.
    pub(super) fn leases(&self) -> Vec<Arc<Lease>> {
        self.heap.iter().filter_map(|Reverse(entry)| is_current(entry)).collect()
    }
}

fn is_current(entry: &Entry) -> Option<Arc<Lease>> {
    let lease = entry.lease.upgrade()?;
    let filed = lease.next_look.load(std::sync::atomic::Ordering::Acquire);
    (filed == entry.due.late && !lease.has_ended()).then_some(lease)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
        for ttl_ms in [30, 500, 3_000, 60_000] {
            let pause = Due::retry(now, Duration::from_millis(ttl_ms)).late - instant(now);
            assert!(pause * 6 <= i64::try_from(ttl_ms).unwrap() * MS, "{ttl_ms} ms: {pause}");
        }
    }

    #[test]
    fn after_a_suspend_the_deadline_is_due() {
        let deadline = Clock::Suspend.now().plus(Duration::from_secs(10));
        let (mono, boot) = deadline.parts();
        // Suspended for a minute one second into a lease of ten.
        let now = Moment::from_parts((mono - 9_000_000_000, boot + 51_000_000_000));
        assert!(deadline.is_past(now));
        assert!(Due::at(deadline).late <= instant(now));
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

    #[tokio::test(start_paused = true)]
    async fn stale_and_dead_entries_are_dropped_and_live_ones_are_not() {
        let locks = crate::manager::LockManager::in_memory();
        let guard = locks.lock("live").acquire().await.expect("it is free");
        let again = locks.lock("again").acquire().await.expect("it is free");
        let released = locks.lock("released").acquire().await.expect("it is free");
        let start = guard.lease().since;
        let due = |ms: u64| Due::at(start.plus(Duration::from_millis(ms)));
        let mut queue = DueQueue::default();
        queue.file(guard.lease(), due(5_000));
        queue.file(released.lease(), due(5_000));
        // Somebody else may keep it, such as a handle.
        let _kept = Arc::clone(released.lease());
        drop(released);
        for ms in 0..10_000 {
            queue.file(again.lease(), due(10_000 - ms));
        }
        assert!(queue.heap.len() <= 2 * MIN_SWEEP, "{} entries for two grants", queue.heap.len());
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
}
