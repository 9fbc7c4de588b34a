//! Defines [`Profile`], which carries the options of a request, a layer or a named profile.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::on_lost::OnLost;
use super::options::Options;
use super::release::Release;
#[cfg(doc)]
use crate::error::LockErrorKind;
#[cfg(doc)]
use crate::guard::LockGuard;
use crate::kind::Kind;
use crate::strategy::{Backoff, Strategy};

/// The options of a request or of an HTTP layer. With a name, they are a profile of the manager.
///
/// For each option, the first source that sets it counts: the request, its profile, the manager, and then this library.
/// If an option refines another one, both must come from the same source. So the wait and the pauses belong to their
/// strategy, `renew_every` to the renewal, and the permits to their kind.
///
/// A new setter has its docs and its field here. Requests and layers get the setter from
/// [`option_setters`](crate::option_setters). With the feature `config`, profiles are also read from a file and from
/// the environment; see [`ManagerBuilder::config`](crate::ManagerBuilder#method.config).
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

/// Writes the setters that requests and layers share, for a layer of your own. Each setter sets the option of the same
/// name in a [`Profile`], and the layer passes that profile to its requests with
/// [`LockRequest::options`](crate::LockRequest::options). Call the macro inside an `impl` block, with `self` and with
/// the profile as a `&mut Profile`. `all` also writes the setters that a layer may want to handle itself: `strategy`,
/// `wait`, `max_waiters` and `label`.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use lock_core::{LockManager, LockRequest, Profile};
///
/// #[derive(Default)]
/// struct MyLayer {
///     options: Profile,
/// }
///
/// impl MyLayer {
///     lock_core::option_setters!(all self => &mut self.options);
///
///     fn request(&self, locks: &LockManager, key: &str) -> LockRequest {
///         locks.lock(key).options(&self.options)
///     }
/// }
///
/// let layer = MyLayer::default().ttl(Duration::from_secs(5)).wait(Duration::from_secs(1));
/// let request = layer.request(&LockManager::in_memory(), "order:7");
/// # drop(request);
/// ```
#[macro_export]
macro_rules! option_setters {
    (all $this:ident => $profile:expr) => {
        $crate::option_setters! { $this => $profile }
        $crate::option_setters! { @ $this $profile;
            /// Sets what to do when the key is held: see [`Profile::strategy`](lock_core::Profile::strategy).
            strategy(strategy: impl $crate::strategy::Strategy);
            /// Sets how long a bounded strategy waits: see [`Profile::wait`](lock_core::Profile::wait).
            wait(limit: ::core::time::Duration);
            /// Sets how many requests may wait for the key: see
            /// [`Profile::max_waiters`](lock_core::Profile::max_waiters).
            max_waiters(max: usize);
            /// Sets a text for people that says what the lock is for: see
            /// [`Profile::label`](lock_core::Profile::label).
            label(label: impl ::core::convert::Into<::std::borrow::Cow<'static, str>>);
        }
    };
    ($this:ident => $profile:expr) => {
        $crate::option_setters! { @ $this $profile;
            /// Sets the length of the lease: see [`Profile::ttl`](lock_core::Profile::ttl).
            ttl(ttl: ::core::time::Duration);
            /// Sets the pauses between the attempts of a strategy: see
            /// [`Profile::backoff`](lock_core::Profile::backoff).
            backoff(backoff: $crate::strategy::Backoff);
            /// Sets whether the lease is renewed: see [`Profile::renew`](lock_core::Profile::renew).
            renew(renew: bool);
            /// Sets how often the lease is renewed: see [`Profile::renew_every`](lock_core::Profile::renew_every).
            renew_every(every: ::core::time::Duration);
            /// Sets whether the fencing token comes with the grant: see
            /// [`Profile::fencing`](lock_core::Profile::fencing).
            fencing(fencing: bool);
            /// Sets whether a task that holds the key may enter it again: see
            /// [`Profile::reentrant`](lock_core::Profile::reentrant).
            reentrant(reentrant: bool);
            /// Sets the maximum time for which the lock is held: see
            /// [`Profile::max_hold`](lock_core::Profile::max_hold).
            max_hold(max: ::core::time::Duration);
            /// Sets the minimum time for which the key stays locked: see
            /// [`Profile::min_hold`](lock_core::Profile::min_hold).
            min_hold(min: ::core::time::Duration);
            /// Sets how long this process keeps the lock after its release: see
            /// [`Profile::linger`](lock_core::Profile::linger).
            linger(linger: ::core::time::Duration);
            /// Sets how many permits of a semaphore the lock takes: see [`Profile::take`](lock_core::Profile::take).
            take(permits: u32);
            /// Sets whether the caller waits for the release after the body has ended: see
            /// [`Profile::release`](lock_core::Profile::release).
            release(release: $crate::Release);
            /// Sets what happens to a body when the lock is lost: see [`Profile::on_lost`](lock_core::Profile::on_lost).
            on_lost(on_lost: $crate::OnLost);
        }
    };
    (@ $this:ident $profile:expr; $($(#[$doc:meta])* $name:ident($value:ident: $type:ty);)*) => {$(
        $(#[$doc])*
        pub fn $name(mut $this, $value: $type) -> Self {
            let options: &mut $crate::Profile = $profile;
            *options = ::core::mem::take(options).$name($value);
            $this
        }
    )*};
}

impl Profile {
    /// Makes a profile that sets no option.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the lease: how long a crashed holder still keeps others out. While the lock is held, the lease is renewed
    /// each time a third of it is over. Default: the manager's, which is 10 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// Sets what to do when the key is held. Default: the manager's, which is [`retry`](crate::strategy::retry()).
    pub fn strategy(mut self, strategy: impl Strategy) -> Self {
        self.options.strategy = Some(Arc::new(strategy));
        self
    }

    /// Sets how long a bounded strategy waits for other holders. This replaces the strategy's own limit. A strategy
    /// that does not wait, or waits forever, refuses a limit.
    ///
    /// The limit does not interrupt a call to the store, because a slow call may still find the key free. So while the
    /// store does not answer, [`Unavailable`](LockErrorKind::Unavailable) is returned up to one call after the limit.
    /// On Redis, a call lasts at most the `timeout` of the URL, 500 ms by default. To limit the whole time, put
    /// `tokio::time::timeout` around [`acquire`](crate::LockRequest::acquire); dropping its future leaves no lock
    /// behind.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.options.wait = Some(limit);
        self
    }

    /// Sets whether the lease is renewed while the lock is held. Without renewal, the lock is lost after its ttl.
    /// Default: yes.
    pub fn renew(mut self, renew: bool) -> Self {
        self.options.renew = Some(renew);
        self
    }

    /// Sets whether the caller of [`run`](crate::LockRequest::run) and [`run_with`](crate::LockRequest::run_with) waits
    /// for the release after the body has ended. [`Release`] describes the benefits and costs of `Background`. A guard
    /// from [`acquire`](crate::LockRequest::acquire) is released by [`LockGuard::release`], which always waits, or in
    /// the background when it is dropped. Default: the profile's, or otherwise [`Release::Await`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::{LockManager, Release};
    ///
    /// let locks = LockManager::in_memory();
    /// for seat in 1..=3 {
    ///     let request = locks.lock("flight:7").release(Release::Background);
    ///     assert_eq!(request.run(async { seat }).await?, seat);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn release(mut self, release: Release) -> Self {
        self.options.release = Some(release);
        self
    }

    /// Sets how long this process keeps the lock after its release. During that time, the next request of this process
    /// for the key gets the lock at once, without a command to the store, and with its own fencing token. The maximum
    /// is a second or a third of the ttl, whichever is shorter. With zero, the lock does not linger. Default: the
    /// profile's, or otherwise the manager's, or otherwise zero.
    ///
    /// The costs:
    /// - **During that time, an attempt in another process is refused.** This concerns a request that fails at once or
    ///   skips, and the first attempt of a request that waits. If this process requests the key again and again within
    ///   that time, such a request may be refused each time.
    /// - A request that **waits** in another process is served at once, because the store notifies this process, which
    ///   then releases the key. If that notification is lost, the waiter waits until the linger ends. If this process
    ///   continues to use the key, that takes about a second.
    /// - A task of the runtime that released the lock returns it to the store. If that runtime is not driven, the key
    ///   stays locked until its lease is over.
    /// - For the store, and for [`inspect`](crate::LockManager::inspect), this process still holds the key. No guard
    ///   holds it, so it counts as held neither in the metrics nor for a shutdown. A shutdown returns it to the store.
    /// - If the process dies during that time, the key becomes free when its lease is over, as if the process died
    ///   while it held the lock. A lingering lock is not renewed.
    ///
    /// If another task of this process already waits, it gets the lock at once. For a task that needs the key in
    /// another way (fair, together with other keys, with a shorter ttl), the key is first returned to the store.
    /// [`release`](LockGuard::release) returns at once. `max_hold` and `min_hold` count from each acquisition. Until
    /// the end of its `min_hold`, a released lock stays locked in the store and does not linger. Without
    /// [renewal](Self::renew), each acquisition costs one renewal.
    ///
    /// A lock can linger only if it was requested by [`lock`](crate::LockManager::lock), on a store that notifies a
    /// holder of waiters ([`Waiting::tells_holder`](crate::backend::Waiting::tells_holder)). A `redlock://` store of
    /// several servers does not. Any other request with this option is refused.
    ///
    /// In a profile or in the manager, this option applies only to requests that can linger, for at most a third of
    /// their ttl. Other requests ignore it.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use std::time::Duration;
    ///
    /// let locks = lock_core::LockManager::in_memory();
    /// for _ in 0..3 {
    ///     // Over Redis, the second and the third cost no command.
    ///     locks.lock("cart:7").linger(Duration::from_millis(5)).run(async { /* .. */ }).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn linger(mut self, linger: Duration) -> Self {
        self.options.linger = Some(linger);
        self
    }

    /// Sets the kind of lock for requests that name none: [`LockManager::request`](crate::LockManager::request) with
    /// `None`, the attribute without `kind`, and the HTTP layer without `.kind(..)`. A request that names its kind
    /// keeps that kind, and so do [`lock`](crate::LockManager::lock) and its siblings. A request for several keys
    /// accepts only [`Kind::Reentrant`] and [`Kind::Write`], because each of its keys has one holder. Default:
    /// [`Kind::Reentrant`].
    pub fn kind(mut self, kind: Kind) -> Self {
        self.options.kind = Some(kind);
        self
    }

    /// Sets how many permits of a [`semaphore`](crate::LockManager::semaphore) the lock takes: all of them at once, or
    /// none. So two requests for several permits never wait for each other while each has a part. Requests are served
    /// in order of arrival. A request for many permits waits until enough are free, and the requests after it wait too,
    /// even if one permit would be enough for them. The lock releases all its permits together.
    ///
    /// The minimum is 1. The maximum is the number of permits of the semaphore, and at most 100. The memory store and
    /// Redis (one server, Sentinel, Cluster) support more than 1. Another store refuses it with
    /// [`Unsupported`](LockErrorKind::Unsupported), before any I/O. Default: the profile's value if the
    /// [kind](crate::Profile::kind) comes from the profile too, otherwise 1.
    ///
    /// The value of a profile belongs to the profile's [`kind`](Self::kind), which must be a semaphore. A request that
    /// names its kind must also name its `take`.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// let locks = lock_core::LockManager::in_memory();
    /// // A large report counts as three of the ten that may run at the same time.
    /// locks.semaphore("report", 10).take(3).run(async { /* .. */ }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn take(mut self, permits: u32) -> Self {
        self.options.take = Some(permits);
        self
    }

    /// Sets the pauses between the attempts of a strategy. They replace the strategy's own pauses. A strategy that does
    /// not retry refuses a backoff.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.options.backoff = Some(backoff);
        self
    }

    /// Sets how many requests may wait for the key. A further request fails with
    /// [`Overloaded`](LockErrorKind::Overloaded). For [`lock`](crate::LockManager::lock), the waiters of this process
    /// count. For every other kind, the waiters in the store's queue count, of all processes. A dead waiter counts
    /// until its waiter lease of min(ttl, 2 s) is over, and then until the next heartbeat of a living waiter, which
    /// comes at most a third of that time later. Default: any number.
    pub fn max_waiters(mut self, max: usize) -> Self {
        self.options.max_waiters = Some(max);
        self
    }

    /// Sets whether the fencing token must come with the grant. Default: no. In that case, the first
    /// [`fencing_token`](LockGuard::fencing_token) sends one request, except if the store returns the token with each
    /// grant.
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.options.fencing = Some(fencing);
        self
    }

    /// Sets whether a task that holds the key may enter the lock again. With `false`, a nested request fails at once
    /// with [`Reentered`](LockErrorKind::Reentered). Default: yes.
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.options.reentrant = Some(reentrant);
        self
    }

    /// Sets how often the lease is renewed, if a third of the lease is too long an interval. A renewal also detects
    /// that the key was deleted, so this is the longest time for which a holder may not notice the deletion. The
    /// minimum is 10 ms. Default: a third of the ttl.
    ///
    /// Every other loss of a lock is noticed at once: [`force_release`](crate::LockManager::force_release), and the end
    /// of the lease. Renewals of many locks are sent together, so one renewal per second costs only a fraction of a
    /// command.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # let locks = lock_core::LockManager::in_memory();
    /// let import = locks.lock("import").ttl(Duration::from_secs(60)).renew_every(Duration::from_secs(1));
    /// # let _ = import;
    /// ```
    pub fn renew_every(mut self, every: Duration) -> Self {
        self.options.renew_every = Some(every);
        self
    }

    /// Sets the maximum time for which the lock is held, including renewals. After this time the lock is lost. This
    /// protects against bodies that hang, and guards that are forgotten. The minimum is 1 ms. Default: none.
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.options.max_hold = Some(max);
        self
    }

    /// Sets the minimum time for which the key stays locked, counted from the grant. So a job that ends early does not
    /// run again on the next machine. The release does not wait for that time. If the holder dies, the key becomes free
    /// when the lease is over, as without this option. The maximum depends on the store: 366 days on Redis, and the
    /// `max_ttl` of a `redlock://`, whose servers do not vote for that long after they lost their data. Default: none.
    ///
    /// If a request is refused during that time, its error says that no client holds the key:
    /// [`LockError::is_kept`](crate::LockError::is_kept).
    pub fn min_hold(mut self, min: Duration) -> Self {
        self.options.min_hold = Some(min);
        self
    }

    /// Sets what [`run`](crate::LockRequest::run) and [`run_with`](crate::LockRequest::run_with) do when the lock is
    /// lost. Default: the profile's, or otherwise [`OnLost::Cancel`].
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.options.on_lost = Some(on_lost);
        self
    }

    /// Sets a text that says what the lock is for. The text must not be a secret. It is in the owner record, which
    /// errors and operators show, and in spans and events, even with
    /// [`redact_keys`](crate::ManagerBuilder::redact_keys). A label of more than 256 bytes is cut. Default: none.
    ///
    /// The label of a profile is the same for all its locks. Only a label of the attribute or of the HTTP layer can
    /// have placeholders.
    pub fn label(mut self, label: impl Into<Cow<'static, str>>) -> Self {
        self.options.label = Some(label.into());
        self
    }

    /// Returns the [`min_hold`](Self::min_hold) of the profile.
    #[must_use]
    pub fn shortest_hold(&self) -> Option<Duration> {
        self.options.min_hold
    }

    /// Returns whether the profile sets a strategy, a limit of the wait, or the pauses between attempts.
    #[must_use]
    pub fn has_strategy(&self) -> bool {
        self.options.has_strategy()
    }
}
