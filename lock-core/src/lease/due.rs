//! Calculates when an item of a renewal loop is checked next, with pure functions.

use std::time::Duration;

use crate::clock::{Moment, nanos};

/// The longest time, in nanoseconds, by which a renewal may be early so that it shares a batch.
pub(super) const MAX_SLACK: i64 = 100_000_000;

/// Returns the reading of `moment` on the clock that orders the queue. This clock also counts time in suspend, so
/// overdue items are due at once after a suspend.
pub(super) fn instant(moment: Moment) -> i64 {
    moment.parts().1
}

/// The time span in which an item must be checked next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// The earliest time of the check.
    pub(super) early: i64,
    /// The latest time of the check.
    pub(super) late: i64,
}

impl Due {
    /// Makes a due time at exactly `moment`.
    pub(super) fn exactly(moment: Moment) -> Self {
        let at = instant(moment);
        Self { early: at, late: at }
    }

    /// Makes a due time at a third of the lease after `sent`. `jitter` (0 to 1) moves the due time up to a twelfth of
    /// the lease earlier, so that processes that started together do not renew together. A renewal that shares a batch
    /// may be up to another twelfth earlier.
    pub(super) fn renewal(sent: Moment, ttl: Duration, jitter: f64) -> Self {
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

    /// Makes the due time of the retry after an unanswered renewal. The pause is short, so that several retries fit
    /// into `left`, the rest of the lease. `left` may be much shorter than `ttl`, because a store may grant less than
    /// requested.
    pub(super) fn retry(now: Moment, ttl: Duration, left: Duration) -> Self {
        let pause = (ttl / 12).clamp(Duration::from_millis(2), Duration::from_millis(500));
        // The limit of the pause is at least 100 ms, because the renewals of ten thousand leases may fail at the same
        // time.
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

/// Returns by how much the renewal of a lease of `ttl` nanoseconds may be early.
fn slack(ttl: i64) -> i64 {
    (ttl / 12).min(MAX_SLACK)
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
        // One second after the start of a lease of ten seconds, the machine was suspended for a minute.
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
}
