//! A named set of defaults.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::on_lost::OnLost;
use super::options::Options;
use super::release::Release;
use crate::kind::Kind;
use crate::strategy::{Backoff, Strategy};

/// A named set of defaults. Options that a request does not set come from its profile, then from the manager.
///
/// A profile has every option of a request but the key. With the feature `config`, profiles are also read from a file
/// and from the environment: see [`ManagerBuilder::config`](crate::ManagerBuilder#method.config).
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use lock_core::{Profile, strategy};
///
/// let checkout = Profile::new().ttl(Duration::from_millis(500)).strategy(strategy::fail_fast());
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Profile {
    pub(crate) options: Options,
}

impl Profile {
    /// Makes a profile without any default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the lease. Default: the manager's, 10 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// Sets what to do when the key is held. Default: the manager's, [`retry`](crate::strategy::retry()).
    pub fn strategy(mut self, strategy: impl Strategy) -> Self {
        self.options.strategy = Some(Arc::new(strategy));
        self
    }

    /// Sets how long a bounded strategy waits. Default: the strategy's own limit.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.options.wait = Some(limit);
        self
    }

    /// Sets whether the lease is renewed. Default: yes.
    pub fn renew(mut self, renew: bool) -> Self {
        self.options.renew = Some(renew);
        self
    }

    /// Sets what the caller of a body waits for once the body has ended: see [`Release`]. Default: [`Release::Await`].
    pub fn release(mut self, release: Release) -> Self {
        self.options.release = Some(release);
        self
    }

    /// Sets how long this process keeps a released lock for its next request: see
    /// [`LockRequest::linger`](crate::LockRequest::linger). It applies to requests that can linger, for at most a third
    /// of their ttl. Zero switches off the manager's. Default: the manager's, not at all.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.options.linger = Some(linger);
        self
    }

    /// Sets the kind of lock of requests that name none: [`LockManager::request`](crate::LockManager::request) with
    /// `None`, the attribute without `kind`, the HTTP layer without `.kind(..)`. A request that names its kind keeps
    /// it, as do [`lock`](crate::LockManager::lock) and its siblings. A request for several keys refuses any kind but
    /// [`Kind::Reentrant`] and [`Kind::Write`], because each of them has one holder. Default: [`Kind::Reentrant`].
    pub fn kind(mut self, kind: Kind) -> Self {
        self.options.kind = Some(kind);
        self
    }

    /// Sets how many permits of a semaphore each lock takes: see [`LockRequest::take`](crate::LockRequest::take). It
    /// belongs to the [`kind`](Self::kind) of the profile, which is a semaphore: a request that names its kind also
    /// names its `take`. Default: 1.
    ///
    /// # Examples
    /// ```
    /// use lock_core::{Kind, Profile};
    ///
    /// // A large report counts as three of the ten that may run at the same time.
    /// let large = Profile::new().kind(Kind::Semaphore { permits: 10 }).take(3);
    /// ```
    pub fn take(mut self, permits: u32) -> Self {
        self.options.take = Some(permits);
        self
    }

    /// Sets the pauses between the tries of the strategy, for waiters that are not notified of their turn. Default: the
    /// strategy's own, 5 ms to 200 ms.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.options.backoff = Some(backoff);
        self
    }

    /// Sets how many may wait for a key: see [`LockRequest::max_waiters`](crate::LockRequest::max_waiters). At least 1.
    /// Default: any number.
    pub fn max_waiters(mut self, max: usize) -> Self {
        self.options.max_waiters = Some(max);
        self
    }

    /// Sets whether the fencing token comes with the grant: see [`LockRequest::fencing`](crate::LockRequest::fencing).
    /// Default: no.
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.options.fencing = Some(fencing);
        self
    }

    /// Sets whether a task that holds a key may enter it again: see
    /// [`LockRequest::reentrant`](crate::LockRequest::reentrant). Default: yes.
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.options.reentrant = Some(reentrant);
        self
    }

    /// Sets how often the lease is renewed: see [`LockRequest::renew_every`](crate::LockRequest::renew_every). At least
    /// 10 ms. Default: a third of the ttl.
    pub fn renew_every(mut self, every: Duration) -> Self {
        self.options.renew_every = Some(every);
        self
    }

    /// Sets the longest time for which a lock is held: see [`LockRequest::max_hold`](crate::LockRequest::max_hold).
    /// Default: none.
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.options.max_hold = Some(max);
        self
    }

    /// Sets the shortest time for which a key stays locked: see
    /// [`LockRequest::min_hold`](crate::LockRequest::min_hold). Default: none.
    pub fn min_hold(mut self, min: Duration) -> Self {
        self.options.min_hold = Some(min);
        self
    }

    /// Sets whether a body is dropped when its lock is lost. Default: [`OnLost::Cancel`].
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.options.on_lost = Some(on_lost);
        self
    }

    /// Sets the purpose of the locks, in owner records. It is the same text for all of them: only a label of the
    /// attribute or of the layer has placeholders. Default: none; with the attribute the path of the function.
    pub fn label(mut self, label: impl Into<Cow<'static, str>>) -> Self {
        self.options.label = Some(label.into());
        self
    }

    /// Returns the [`min_hold`](Self::min_hold) of the profile.
    #[must_use]
    pub fn shortest_hold(&self) -> Option<Duration> {
        self.options.min_hold
    }

    /// Returns whether the profile sets a strategy, a limit of the wait, or the pauses between tries.
    #[must_use]
    pub fn has_strategy(&self) -> bool {
        self.options.strategy.is_some() || self.options.wait.is_some() || self.options.backoff.is_some()
    }
}
