//! Defines [`Profile`], a set of options for requests, and the setters that layers share with it.

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

/// The options of a request or of an HTTP layer. A manager can store such a set of options under a name, as a profile.
///
/// An option can come from the request, its profile, the manager or this library. The first of them that sets the
/// option determines its value. If an option refines another option, both must come from the same source: the wait and
/// the pauses refine the strategy, `renew_every` refines `renew`, and the permits refine the kind.
///
/// Each setter is documented here. Requests and layers get the same setters from
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

/// Generates the setters that requests and layers share, for use in your own layer. Each setter sets the option of the
/// same name in a [`Profile`], and the layer passes that profile to its requests with
/// [`LockRequest::options`](crate::LockRequest::options). Call the macro inside an `impl` block, with `self` and with
/// the profile as a `&mut Profile`. With `all`, the macro also generates the setters that some layers implement
/// themselves: `strategy`, `wait`, `max_waiters` and `label`.
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
            /// Sets how long a request waits while the key is held: see [`Profile::wait`](lock_core::Profile::wait).
            wait(limit: ::core::time::Duration);
            /// Sets how many requests may wait for the key: see
            /// [`Profile::max_waiters`](lock_core::Profile::max_waiters).
            max_waiters(max: usize);
            /// Sets a text that describes the purpose of the lock: see [`Profile::label`](lock_core::Profile::label).
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
            /// Sets whether the fencing token must come with the grant: see
            /// [`Profile::fencing`](lock_core::Profile::fencing).
            fencing(fencing: bool);
            /// Sets whether a task that holds the key may enter the lock again: see
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
            /// Sets how many permits of a semaphore the request acquires: see
            /// [`Profile::take`](lock_core::Profile::take).
            take(permits: u32);
            /// Sets whether the caller waits for the release after the body has ended: see
            /// [`Profile::release`](lock_core::Profile::release).
            release(release: $crate::Release);
            /// Sets what happens to a body when the lock is lost: see
            /// [`Profile::on_lost`](lock_core::Profile::on_lost).
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

/// Generates setters that wrap the value in `Some`. Each sets the option of the same name.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($value:ident: $type:ty);)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, $value: $type) -> Self {
            self.options.$name = Some($value);
            self
        }
    )*};
}

impl Profile {
    /// Creates a profile that sets no option.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what to do when the key is held. Default: the manager's strategy, which is
    /// [`retry`](crate::strategy::retry()) if not set.
    pub fn strategy(mut self, strategy: impl Strategy) -> Self {
        self.options.strategy = Some(Arc::new(strategy));
        self
    }

    setters! {
        /// Sets the length of the lease. If a holder crashes, the key stays locked until the lease ends. While the lock
        /// is held, the lease is renewed after each third of its length. Default: the manager's ttl, which is 10 s if
        /// not set.
        ttl(ttl: Duration);

        /// Sets how long a request waits while the key is held. This limit replaces the strategy's own limit. A
        /// strategy that does not wait, or that waits forever, refuses a limit.
        ///
        /// The limit does not interrupt a call to the store, because a slow call may still acquire the lock. If the
        /// store does not answer, [`Unavailable`](LockErrorKind::Unavailable) is returned when the current call ends,
        /// which may be after the limit. On Redis, a call lasts at most the `timeout` of the URL, 500 ms by default. To
        /// limit the whole time, put `tokio::time::timeout` around [`acquire`](crate::LockRequest::acquire). If the
        /// future of `acquire` is dropped, no lock stays acquired.
        wait(limit: Duration);

        /// Sets whether the lease is renewed while the lock is held. Without renewal, the lock is lost after its ttl.
        /// Default: yes.
        renew(renew: bool);

        /// Sets whether the caller of [`run`](crate::LockRequest::run) and [`run_with`](crate::LockRequest::run_with)
        /// waits for the release after the body has ended. [`Release`] describes the benefits and costs of
        /// `Background`. This option does not affect a guard from [`acquire`](crate::LockRequest::acquire):
        /// [`LockGuard::release`] always waits, and a dropped guard is released in the background. Default: the
        /// profile's value, or otherwise [`Release::Await`].
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
        release(release: Release);

        /// Sets how long this process keeps the lock after its release. During that time, the next request of this
        /// process for the key gets the lock at once, without a command to the store, and with its own fencing token.
        /// The maximum is a second or a third of the ttl, whichever is shorter. With zero, the lock does not linger.
        /// Default: the profile's value, or otherwise the manager's value, or otherwise zero.
        ///
        /// The costs:
        /// - **During that time, an attempt in another process is refused.** This affects requests that fail at once or
        ///   skip, and the first attempt of a request that waits. If this process requests the key again and again
        ///   within that time, the other process may be refused each time.
        /// - A request that **waits** in another process is served at once, because the store notifies this process,
        ///   which then releases the key. If that notification is lost, the waiter waits until the linger ends, or for
        ///   about a second if this process keeps using the key.
        /// - When the linger ends, a task of the runtime that released the lock returns the key to the store. If that
        ///   runtime is not driven, the key stays locked until its lease is over.
        /// - For the store, and for [`inspect`](crate::LockManager::inspect), this process still holds the key. No
        ///   guard holds the key, so the metrics do not count the key as held. A shutdown returns the key to the store
        ///   without waiting for the end of the linger.
        /// - If the process dies during that time, the key becomes free when its lease ends, as with a lock that is
        ///   held. A lingering lock is not renewed.
        ///
        /// If another task of this process already waits at the release, that task gets the lock at once. If the next
        /// request needs a fair lock, several keys or a shorter ttl, the key is first returned to the store. A
        /// [`release`](LockGuard::release) of a lock that lingers returns at once. `max_hold` and `min_hold` count from
        /// each acquisition. Until the end of its `min_hold`, a released lock stays locked in the store and does not
        /// linger. Without [renewal](Self::renew), each acquisition of a lingering lock costs one renewal.
        ///
        /// A lock can linger only if it was requested by [`lock`](crate::LockManager::lock), on a store that notifies a
        /// holder of waiters ([`Waiting::tells_holder`](crate::backend::Waiting::tells_holder)). A `redlock://` store
        /// of several servers does not notify holders. Any other request with this option is refused.
        ///
        /// In a profile or in the manager, this option applies only to requests that can linger, for at most a third of
        /// their ttl. Other requests ignore the option.
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
        linger(linger: Duration);

        /// Sets the kind of lock for requests that do not name a kind:
        /// [`LockManager::request`](crate::LockManager::request) with `None`, the attribute without `kind`, and the
        /// HTTP layer without `.kind(..)`. A request that names its kind keeps that kind. So does a request of
        /// [`lock`](crate::LockManager::lock) or its siblings, such as [`fair`](crate::LockManager::fair). For a
        /// request for several keys, the kind must be [`Kind::Reentrant`] or [`Kind::Write`], because each of its keys
        /// has one holder. Default: [`Kind::Reentrant`].
        kind(kind: Kind);

        /// Sets how many permits of a [`semaphore`](crate::LockManager::semaphore) the request acquires. All permits
        /// are acquired at once, so two requests cannot deadlock while each holds some of them. Requests are served in
        /// order of arrival. While a request for many permits waits, later requests wait too, even if enough permits
        /// are free for them. The lock releases all its permits together.
        ///
        /// The minimum is 1. The maximum is the number of permits of the semaphore, and at most 100. The memory store
        /// and Redis (one server, Sentinel, Cluster) support more than 1. Every other store refuses more than 1 with
        /// [`Unsupported`](LockErrorKind::Unsupported), before any I/O. Default: the profile's value if the
        /// [kind](crate::Profile::kind) also comes from the profile, otherwise 1.
        ///
        /// In a profile, this option needs a [`kind`](Self::kind) that is a semaphore. A request that names its own
        /// kind ignores the `take` of the profile and must set its own.
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
        take(permits: u32);

        /// Sets the pauses between the attempts of a strategy. They replace the strategy's own pauses. A strategy that
        /// does not retry refuses a backoff.
        backoff(backoff: Backoff);

        /// Sets how many requests may wait for the key, at least 1. A further request fails with
        /// [`Overloaded`](LockErrorKind::Overloaded). For [`lock`](crate::LockManager::lock), only the waiters of this
        /// process count. For every other kind, the waiters of all processes in the store's queue count. A waiter that
        /// died counts until its [waiter lease](crate::backend::Waiting::Queue) has ended: min(ttl, 2 s) on most
        /// stores. On a store with heartbeats, it counts until the next heartbeat of a living waiter after that, at
        /// most a third of the waiter lease longer. Default: no limit.
        max_waiters(max: usize);

        /// Sets whether the fencing token must come with the grant. Default: no. In that case, the first call of
        /// [`fencing_token`](LockGuard::fencing_token) sends one request to the store, except if the store returns a
        /// token with each grant anyway.
        fencing(fencing: bool);

        /// Sets whether a task that holds the key may enter the lock again. With `false`, a nested request fails at
        /// once with [`Reentered`](LockErrorKind::Reentered). Default: yes.
        reentrant(reentrant: bool);

        /// Sets how often the lease is renewed. Use this option if the default interval is too long. A renewal also
        /// detects that the key was deleted, so the holder notices a deletion after at most this interval. The minimum
        /// is 10 ms. Default: a third of the ttl.
        ///
        /// The holder usually notices every other loss of a lock at once, such as a
        /// [`force_release`](crate::LockManager::force_release) or the end of the lease. Renewals of many locks are
        /// sent together, so one renewal per second costs only a fraction of a command. An interval that is longer than
        /// the default has no effect: the lease is renewed after a third of the ttl at the latest.
        ///
        /// # Examples
        /// ```
        /// # use std::time::Duration;
        /// # let locks = lock_core::LockManager::in_memory();
        /// let import = locks.lock("import").ttl(Duration::from_secs(60)).renew_every(Duration::from_secs(1));
        /// # let _ = import;
        /// ```
        renew_every(every: Duration);

        /// Sets the maximum time for which the lock is held, including renewals. After this time the lock is lost. This
        /// protects against bodies that hang and guards that are never dropped. The minimum is 1 ms. Default: no
        /// maximum.
        max_hold(max: Duration);

        /// Sets the minimum time for which the key stays locked, counted from the grant. For example, a scheduled job
        /// that ends early then does not run again on another machine. The release does not wait for that time. If the
        /// holder dies, the key becomes free when the lease ends, as without this option. The maximum on Redis is 366
        /// days. On `redlock://` the maximum is the `max_ttl`: for that time, a server that has lost its data does not
        /// vote. Default: no minimum.
        ///
        /// If a request is refused during that time, its error says that no client holds the key:
        /// [`LockError::is_kept`](crate::LockError::is_kept).
        min_hold(min: Duration);

        /// Sets what [`run`](crate::LockRequest::run) and [`run_with`](crate::LockRequest::run_with) do when the lock
        /// is lost. Default: the profile's value, or otherwise [`OnLost::Cancel`].
        on_lost(on_lost: OnLost);
    }

    /// Sets a text that describes the purpose of the lock. The text must not be a secret, because errors, spans, events
    /// and the commands of operators show it, even with [`redact_keys`](crate::ManagerBuilder::redact_keys). The label
    /// is part of the owner record in the store. A label of more than 256 bytes is truncated. Default: no label.
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

    /// Returns whether the profile sets a strategy, its wait limit, or its pauses between attempts.
    #[must_use]
    pub fn has_strategy(&self) -> bool {
        self.options.has_strategy()
    }
}
