//! Decides when a command must end because the lease of its lock ends.

use std::time::Duration;

/// The longest pause between two checks of the lease.
const LOOK: Duration = Duration::from_millis(50);
/// The shortest pause between two checks of the lease.
const LEAST: Duration = Duration::from_millis(5);
/// The warden acts this much later than `lockctl` is due to act, so that only one of them sends TERM. The delay is
/// longer for long leases, and shorter for very short ones.
const ALIKE: Duration = Duration::from_millis(20);

/// The present decision about the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Work,
    /// End the command by TERM. The lease was not renewed, and the command needs the rest of the lease to end.
    Stop,
    /// End the command by KILL. The lease is almost over.
    Kill,
}

/// The limits of the lease at which the command must end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The command gets TERM when this time is left of the lease.
    stop: Duration,
    /// The command gets KILL when this time is left of the lease, so that the kernel has enough time to end its
    /// processes.
    pub(crate) kill: Duration,
    /// The longest time from TERM to KILL.
    pub(crate) grace: Duration,
}

impl Limits {
    /// Returns the limits for a lock with this `ttl`. A lease is renewed when a third of it is over. So less than half
    /// of the lease is left only if renewals fail, or if there are no renewals.
    pub(crate) fn new(ttl: Duration, grace: Duration) -> Self {
        let kill = (ttl / 10).clamp(Duration::from_millis(50), Duration::from_secs(1)).min(ttl / 4);
        let grace = grace.min(ttl / 3);
        Self { stop: kill + grace, kill, grace }
    }

    /// Returns the time for which the command may run before the next message about its lease. `lockctl`
    /// [stops](Verdict::Stop) the command a little earlier, so that the warden acts only if `lockctl` does not.
    pub(crate) fn may_work(self, remaining: Duration) -> Duration {
        let after = (self.kill / 4).max(ALIKE).min(self.kill / 2);
        remaining.saturating_sub(self.stop - after)
    }

    /// Returns the pause before the next check of the lease. The check comes early enough to stop the command in time.
    /// `remaining` is the rest of the lease.
    pub(crate) fn look_after(self, remaining: Duration) -> Duration {
        if remaining.is_zero() {
            // The command was killed, or continues because of `--on-lost warn`.
            return LOOK;
        }
        let pause = LOOK.min(remaining / 8).max(LEAST);
        match remaining.saturating_sub(self.stop) {
            Duration::ZERO => pause,
            due => pause.min(due),
        }
    }

    /// Returns the decision for this rest of the lease.
    pub(crate) fn verdict(self, remaining: Duration) -> Verdict {
        if remaining <= self.kill {
            Verdict::Kill
        } else if remaining <= self.stop {
            Verdict::Stop
        } else {
            Verdict::Work
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_command_ends_before_its_lease() {
        for (ttl, grace, left, verdict) in [
            (15_000, 5_000, 15_000, Verdict::Work),
            (15_000, 5_000, 10_000, Verdict::Work),
            (15_000, 5_000, 6_000, Verdict::Stop),
            (15_000, 5_000, 1_001, Verdict::Stop),
            (15_000, 5_000, 1_000, Verdict::Kill),
            (15_000, 0, 1_100, Verdict::Work),
            (15_000, 0, 0, Verdict::Kill),
            (1_000, 5_000, 600, Verdict::Work),
            (1_000, 5_000, 433, Verdict::Stop),
            (1_000, 5_000, 100, Verdict::Kill),
            (100, 5_000, 60, Verdict::Work),
            (100, 5_000, 20, Verdict::Kill),
        ] {
            assert_eq!(Limits::new(ms(ttl), ms(grace)).verdict(ms(left)), verdict, "{ttl} {grace} {left}");
        }
    }

    #[test]
    fn the_warden_acts_after_lockctl_and_before_the_lease_is_over() {
        for ttl in [50, 100, 500, 1_000, 2_000, 15_000, 3_600_000] {
            for grace in [0, 10, 5_000] {
                let limits = Limits::new(ms(ttl), ms(grace));
                let mut left = ms(ttl * 2 / 3);
                let warden = left - limits.may_work(left);
                while limits.verdict(left) == Verdict::Work {
                    left -= limits.look_after(left);
                }
                assert!(left > warden, "{ttl} {grace}: {left:?} before {warden:?}");
                assert!(warden - limits.grace >= limits.kill / 2, "{ttl} {grace}: {warden:?}");
            }
        }
    }

    #[test]
    fn a_lease_that_is_over_is_looked_at_rarely() {
        for ttl in [50, 15_000] {
            assert_eq!(Limits::new(ms(ttl), ms(0)).look_after(ms(0)), LOOK);
        }
    }

    #[test]
    fn a_lease_that_is_renewed_never_stops_its_command() {
        for ttl in [50, 100, 500, 1_000, 15_000, 3_600_000] {
            for grace in [0, 10, 5_000, 1_000_000] {
                let limits = Limits::new(ms(ttl), ms(grace));
                assert_eq!(limits.verdict(ms(ttl * 6 / 10)), Verdict::Work, "{ttl} {grace}");
            }
        }
    }
}
