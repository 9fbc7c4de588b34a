//! The description of what a backend supports.

use std::time::Duration;

#[cfg(doc)]
use super::Backend;
use super::{Claim, Mode, Queue, Waiting};
use crate::clock::Clock;
use crate::error::{LockError, LockErrorKind, Result};
use crate::words::duration::shown;

/// The place of the store, which decides where renewals run and which clock measures leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// The store is in this process. Renewals run on the caller's runtime, by tokio's clock.
    Embedded,
    /// The store is in another process. Renewals run on a separate thread, by a clock that also counts while the
    /// machine is suspended.
    Remote,
}

impl Placement {
    /// Returns the clock that measures leases.
    #[must_use]
    pub fn clock(self) -> Clock {
        match self {
            Self::Embedded => Clock::Tokio,
            #[cfg(test)]
            Self::Remote => crate::clock::of_remote(),
            #[cfg(not(test))]
            Self::Remote => Clock::Suspend,
        }
    }

    /// Returns the time that is subtracted from `lease`, so that the holder notices a loss before another owner can
    /// have the key. This time is the granularity of expiry, 2 ms. For a remote store, 1 % of the lease is added,
    /// because clocks run at different speeds ("Distributed Locks with Redis" subtracts both). For an embedded store,
    /// the time is at most a quarter of the lease.
    #[must_use]
    pub fn drift(self, lease: Duration) -> Duration {
        match self {
            Self::Embedded => GRANULARITY.min(lease / 4),
            Self::Remote => lease / 100 + GRANULARITY,
        }
    }
}

/// The granularity of expiry in a store, and of the timers in this process.
const GRANULARITY: Duration = Duration::from_millis(2);

/// The scope that limits the lifetime of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseScope {
    /// Each grant has its own lease. If the grant is not renewed, the store removes it when its ttl is over.
    Grant,
    /// All grants of this process belong to one session with the store. No grant ends while the session lives, and all
    /// grants end with the session. A grant that is not released stays for as long as the process is connected.
    Session,
}

/// The source of fencing tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fencing {
    /// The store gives no tokens.
    None,
    /// Every token comes from the store.
    Counter,
    /// Every token from the store is at least the store's time, in microseconds, when the token was made. So a process
    /// can number its hand-offs itself. The numbers of the process stay below the store's time at the last confirmation
    /// of the grant.
    StoreTime,
}

impl Fencing {
    /// Returns whether the store gives fencing tokens.
    #[must_use]
    pub const fn gives_tokens(self) -> bool {
        !matches!(self, Self::None)
    }
}

/// The shortest waiter lease. It has room for three heartbeats, one each millisecond.
const SHORTEST_WAITER_LEASE: Duration = Duration::from_millis(3);

/// The capability of a backend. A request that exceeds the capability fails with
/// [`Unsupported`](crate::LockErrorKind::Unsupported), before any I/O.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Capability {
    /// The name of the store for errors and metrics, such as `redis`.
    pub store: &'static str,
    /// Whether the store supports [`Mode::Shared`] and [`Backend::downgrade`].
    pub shared: bool,
    /// Whether the store supports [`Mode::Permit`].
    pub permits: bool,
    /// Whether a claim can acquire several permits at once; see [`Claim::permits`].
    pub several_permits: bool,
    /// Whether the store supports claims of several keys.
    pub several: bool,
    /// Whether the store supports [`Backend::latch`].
    pub latches: bool,
    /// Whether the store supports [`Backend::list`], [`Backend::inspect`] and [`Backend::force_release`].
    pub lists: bool,
    /// Whether the store calls [`Claim::mark_sent`] before it sends a request. If it does not, every dropped attempt
    /// counts as sent.
    pub marks_sent: bool,
    /// The way in which a claim waits, and the order in which it is served.
    pub waiting: Waiting,
    /// The source of fencing tokens.
    pub fencing: Fencing,
    /// The scope that limits the lifetime of a grant.
    pub lease: LeaseScope,
    /// The place of the store.
    pub placement: Placement,
    /// The shortest lease that the store supports.
    pub min_ttl: Duration,
    /// The longest lease that the store supports.
    pub max_ttl: Duration,
    /// The unit in which the store counts leases: a ttl is a multiple of it. `None` if every ttl is possible.
    pub ttl_step: Option<Duration>,
    /// The advice for an application whose ttl the store refuses, such as an option of the URL. The error text about
    /// the refused ttl ends with this advice.
    pub ttl_advice: Option<&'static str>,
    /// The longest time for which the store can keep a key locked after its [release](Backend::release). `None` if the
    /// store cannot do this.
    pub keeps_after_release: Option<Duration>,
}

impl Capability {
    /// Describes a remote store that supports only [`Mode::Exclusive`], with leases of 10 ms to 24 h.
    #[must_use]
    pub const fn exclusive(store: &'static str) -> Self {
        Self {
            store,
            shared: false,
            permits: false,
            several_permits: false,
            several: false,
            latches: false,
            lists: false,
            marks_sent: false,
            waiting: Waiting::Poll,
            fencing: Fencing::None,
            lease: LeaseScope::Grant,
            placement: Placement::Remote,
            min_ttl: Duration::from_millis(10),
            max_ttl: Duration::from_secs(24 * 60 * 60),
            ttl_step: None,
            ttl_advice: None,
            keeps_after_release: None,
        }
    }

    /// Returns an error if the capability contradicts itself. The builder of a manager calls this.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest). The text names the contradiction.
    pub fn validate(&self) -> Result<()> {
        let Some(contradiction) = self.contradiction() else { return Ok(()) };
        let detail =
            format!("the capability of the {} store contradicts itself: {contradiction}", self.store);
        Err(LockError::new(LockErrorKind::InvalidRequest, detail))
    }

    fn contradiction(&self) -> Option<String> {
        let (min, max) = (self.min_ttl, self.max_ttl);
        let lease = self.waiting.waiter_lease();
        Some(match () {
            () if self.store.is_empty() => "it has no name".to_owned(),
            () if min.is_zero() => "`min_ttl` is 0, and no lease is".to_owned(),
            () if min > max => format!("`min_ttl` is {min:?}, longer than `max_ttl`, {max:?}"),
            () if lease.is_some_and(|lease| lease < SHORTEST_WAITER_LEASE) => format!(
                "`waiter_lease` is {:?}, and a waiter needs {SHORTEST_WAITER_LEASE:?} to send a heartbeat",
                lease.unwrap_or_default()
            ),
            () if self.keeps_after_release.is_some_and(|keep| keep.is_zero()) => {
                "`keeps_after_release` is 0: a store that keeps no key says `None`".to_owned()
            }
            () if self.waiting.confirms() && self.fencing == Fencing::StoreTime => {
                "its grants need a confirmation (`confirms`), and with `Fencing::StoreTime` a process numbers tokens that \
                 nothing confirms: say `Fencing::Counter`"
                    .to_owned()
            }
            () if self.waiting.by_heartbeats() && self.lease == LeaseScope::Session => {
                "a grant from its queue ends after `waiter_lease` (`Waiting::Queue`), and with `LeaseScope::Session` no \
                 grant ends before its session: say `Waiting::Watch`"
                    .to_owned()
            }
            () => return None,
        })
    }

    /// Returns an error if the store does not support `ttl`.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest): the ttl is outside the store's bounds. The text names these
    /// bounds.
    pub fn check_ttl(&self, ttl: Duration) -> Result<()> {
        let detail = match (self.min_ttl, self.max_ttl) {
            (min, max) if (min..=max).contains(&ttl) => match self.neighbours(ttl) {
                None => return Ok(()),
                Some((below, above)) => {
                    format!(
                        "ttl is {}: the {} store holds {} or {}, and nothing in between{}",
                        shown(ttl),
                        self.store,
                        shown(below),
                        shown(above),
                        self.advice()
                    )
                }
            },
            _ if ttl.is_zero() => "ttl is 0: a lease needs a length, such as 10 s".to_owned(),
            (min, max) => {
                let advice = if ttl < min { self.advice() } else { String::new() };
                let (ttl, min, max) = (shown(ttl), shown(min), shown(max));
                format!("ttl is {ttl}: the {} store holds {min} to {max}{advice}", self.store)
            }
        };
        Err(LockError::new(LockErrorKind::InvalidRequest, detail))
    }

    fn advice(&self) -> String {
        self.ttl_advice.map_or_else(String::new, |advice| format!("; {advice}"))
    }

    /// Returns the nearest ttls below and above `ttl` that are multiples of [`ttl_step`](Self::ttl_step). Returns
    /// `None` if `ttl` itself is such a multiple.
    fn neighbours(&self, ttl: Duration) -> Option<(Duration, Duration)> {
        let step = self.ttl_step?.as_nanos();
        let over = ttl.as_nanos().checked_rem(step).filter(|over| *over > 0)?;
        let [over, missing] =
            [over, step - over].map(|nanos| Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)));
        Some((ttl.saturating_sub(over).max(self.min_ttl), ttl.saturating_add(missing)))
    }

    /// Returns the lease of a queue entry of `claim`, which is also the lease of a grant from the queue. This is the
    /// waiter lease of the store, or the ttl if the ttl is shorter.
    #[must_use]
    pub fn waiter_lease(&self, claim: &Claim) -> Duration {
        self.waiting.waiter_lease().map_or(claim.ttl, |lease| lease.min(claim.ttl))
    }

    /// Returns an error if the store does not support the mode, the queue, the number of permits or the number of keys
    /// of `claim`. A backend that does not support all of them calls this method before it sends a request.
    ///
    /// # Errors
    /// [`Unsupported`](LockErrorKind::Unsupported). The text names the missing feature.
    pub fn check(&self, claim: &Claim) -> Result<()> {
        let missing = match claim.mode {
            Mode::Shared if !self.shared => "shared locks",
            Mode::Permit { .. } if !self.permits => "semaphores",
            Mode::Permit { .. } if claim.permits > 1 && !self.several_permits => "several permits at once",
            _ if claim.queue == Queue::Fifo && !self.waiting.in_order() => "order of arrival",
            _ if !claim.more.is_empty() && !self.several => "locks of several keys",
            _ => return Ok(()),
        };
        let detail = format!("the {} store has no {missing}", self.store);
        Err(LockError::new(LockErrorKind::Unsupported, detail).with_key(&claim.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::WAITER_LEASE;

    #[test]
    fn what_is_taken_off_a_lease() {
        let ms = Duration::from_millis;
        for (placement, lease, off) in [
            (Placement::Embedded, ms(10_000), ms(2)),
            (Placement::Embedded, ms(4), ms(1)),
            (Placement::Remote, ms(10_000), ms(102)),
            (Placement::Remote, ms(500), ms(7)),
        ] {
            assert_eq!(placement.drift(lease), off, "{placement:?} {lease:?}");
        }
    }

    #[test]
    fn a_ttl_between_two_steps_names_both() {
        let (ms, step) = (Duration::from_millis, Some(Duration::from_secs(1)));
        let store = Capability { ttl_step: step, min_ttl: ms(2_000), ..Capability::exclusive("odd") };
        for (ttl, named) in [
            (2_000, None),
            (7_000, None),
            (2_001, Some("2s or 3s")),
            (7_500, Some("7s or 8s")),
            (1_000, Some("holds 2s to")),
            (500, Some("ttl is 500ms: the odd store holds 2s to 24h")),
            (400 * 86_400_000, Some("ttl is 400days: the odd store holds 2s to 24h")),
        ] {
            match (store.check_ttl(ms(ttl)), named) {
                (Ok(()), None) => {}
                (Err(error), Some(named)) => assert!(error.to_string().contains(named), "{ttl}: {error}"),
                (checked, _) => panic!("{ttl}: {checked:?}"),
            }
        }
        assert!(Capability::exclusive("any").check_ttl(ms(2_001)).is_ok());
    }

    #[test]
    fn a_contradiction_is_named() {
        let queue = |confirms| Waiting::Queue { waiter_lease: WAITER_LEASE, tells_holder: true, confirms };
        let watch = |waiter_lease| Waiting::Watch { waiter_lease, tells_holder: false };
        let table: [(&str, fn(&mut Capability), Waiting); 9] = [
            ("", |_| {}, Waiting::Poll),
            ("", |store| store.fencing = Fencing::StoreTime, queue(false)),
            ("`confirms`", |store| store.fencing = Fencing::StoreTime, queue(true)),
            ("`LeaseScope::Session`", |store| store.lease = LeaseScope::Session, queue(false)),
            ("`waiter_lease` is 2ms", |_| {}, watch(Duration::from_millis(2))),
            ("`min_ttl` is 0", |store| store.min_ttl = Duration::ZERO, queue(false)),
            ("longer than `max_ttl`", |store| store.min_ttl = Duration::MAX, queue(false)),
            (
                "`keeps_after_release` is 0",
                |store| store.keeps_after_release = Some(Duration::ZERO),
                queue(false),
            ),
            ("no name", |store| store.store = "", queue(false)),
        ];
        for (named, change, waiting) in table {
            let mut store = Capability { waiting, ..Capability::exclusive("odd") };
            change(&mut store);
            match store.validate() {
                Ok(()) => assert_eq!(named, "", "{store:?} was accepted"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(!named.is_empty() && text.contains(named), "{named}: {text}");
                }
            }
        }
    }
}
