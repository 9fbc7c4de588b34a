//! The carrier of options: a request, a layer and a profile of the manager have one each.

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

/// The options of a request or of an HTTP layer; with a name, a profile of the manager.
///
/// Each option counts from the first of these that sets it: the request, its profile, the manager, and this library. An
/// option that refines another belongs to the one beside it: the wait and the pauses to their strategy, `renew_every` to
/// the renewal, and the permits to their kind.
///
/// A new setter has its docs and its field here. Requests and layers get it from
/// [`option_setters`](crate::option_setters). With the feature `config`, profiles are also read from a file
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

/// Writes the setters that requests and layers share, for a layer of your own. Each sets the option of the same name of a
/// [`Profile`], which the layer's requests take by [`LockRequest::options`](crate::LockRequest::options). Call it inside an
/// `impl` block, with `self` and with the profile as a `&mut Profile`. `all` also writes the setters of what a layer may
/// treat in its own way: `strategy`, `wait`, `max_waiters` and `label`.
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
            /// Sets how many may wait for the key: see [`Profile::max_waiters`](lock_core::Profile::max_waiters).
            max_waiters(max: usize);
            /// Sets the purpose of the lock, for people: see [`Profile::label`](lock_core::Profile::label).
            label(label: impl ::core::convert::Into<::std::borrow::Cow<'static, str>>);
        }
    };
    ($this:ident => $profile:expr) => {
        $crate::option_setters! { @ $this $profile;
            /// Sets the lease, which is renewed: see [`Profile::ttl`](lock_core::Profile::ttl).
            ttl(ttl: ::core::time::Duration);
            /// Sets the pauses between the tries of a strategy: see [`Profile::backoff`](lock_core::Profile::backoff).
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
            /// Sets the longest time for which the lock is held: see [`Profile::max_hold`](lock_core::Profile::max_hold).
            max_hold(max: ::core::time::Duration);
            /// Sets the shortest time for which the key stays locked: see
            /// [`Profile::min_hold`](lock_core::Profile::min_hold).
            min_hold(min: ::core::time::Duration);
            /// Sets how long this process keeps the lock after its release: see
            /// [`Profile::linger`](lock_core::Profile::linger).
            linger(linger: ::core::time::Duration);
            /// Sets how many permits of a semaphore the lock takes: see [`Profile::take`](lock_core::Profile::take).
            take(permits: u32);
            /// Sets what the end of a body waits for: see [`Profile::release`](lock_core::Profile::release).
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
    /// Makes a profile without any default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the lease: how long a holder that crashed keeps others out. While the lock is held, the lease is renewed
    /// whenever a third of it is over. Default: the manager's, 10 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// Sets what to do when the key is held. Default: the manager's, [`retry`](crate::strategy::retry()).
    pub fn strategy(mut self, strategy: impl Strategy) -> Self {
        self.options.strategy = Some(Arc::new(strategy));
        self
    }

    /// Sets how long a bounded strategy waits for other holders, in place of the strategy's own limit. A strategy that
    /// does not wait, or waits for ever, refuses a limit.
    ///
    /// The limit does not interrupt a call to the store, because a call that is merely slow may find the key free.
    /// While the store does not answer, [`Unavailable`](LockErrorKind::Unavailable) therefore comes up to one call
    /// after the limit: on Redis the `timeout` of the URL, 500 ms. To bound everything, put `tokio::time::timeout`
    /// around [`acquire`](crate::LockRequest::acquire), which leaves nothing when it is dropped.
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

    /// Sets what the caller of [`run`](crate::LockRequest::run) and [`run_with`](crate::LockRequest::run_with) waits for once the body has ended:
    /// [`Release`] says what `Background` saves and what it gives up. A guard from [`acquire`](crate::LockRequest::acquire) is
    /// released by [`LockGuard::release`], which waits in any case, or in the background by its drop. Default: that of
    /// the profile, else [`Release::Await`].
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

    /// Sets how long the lock stays at hand for this process after its release. The next request of this process for
    /// the key then gets it at once, without a command to the store, and with a fencing token of its own. At most a
    /// second, and a third of the ttl; zero for not at all. Default: that of the profile, else of the manager, else not
    /// at all.
    ///
    /// The costs:
    /// - **A try in another process is refused during that time** after the last release: a request that fails at once
    ///   or skips, and the first try of a request that waits. If this process takes the key again and again within that
    ///   time, such a request may be refused each time.
    /// - A request that **waits** in another process is served at once, because the store notifies this process, which
    ///   then releases the key. If that notification is lost, the waiter waits for the end of the linger, or for about
    ///   a second if this process continues to use the key.
    /// - A task of the runtime that released the lock gives it back. If that runtime is not driven, the key stays held
    ///   until its lease is over.
    /// - To the store, and to [`inspect`](crate::LockManager::inspect), the key is held by this process meanwhile. No
    ///   guard holds it, so it counts neither as held in the metrics nor for a shutdown, which gives it back.
    /// - If the process dies meanwhile, the key is free when its lease is over, as if it died with the lock. A
    ///   lingering lock is not renewed.
    ///
    /// If a task of this process waits already, it gets the lock at once. For a task that needs the key in another way
    /// (fair, together with other keys, with a shorter ttl), the key is first given back to the store.
    /// [`release`](LockGuard::release) returns at once. `max_hold` and `min_hold` count from each acquisition, and
    /// until the end of its `min_hold` a lock is kept in the store instead. Without [renewal](Self::renew), each
    /// acquisition costs one renewal.
    ///
    /// Only for [`lock`](crate::LockManager::lock), and on stores that notify a holder of waiters
    /// ([`Waiting::tells_holder`](crate::backend::Waiting::tells_holder)): not on a `redlock://` of several servers.
    /// Anything else is refused.
    ///
    /// In a profile or in the manager it applies to the requests that can linger, for at most a third of their ttl; the
    /// others do without.
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

    /// Sets the kind of lock of requests that name none: [`LockManager::request`](crate::LockManager::request) with
    /// `None`, the attribute without `kind`, the HTTP layer without `.kind(..)`. A request that names its kind keeps
    /// it, as do [`lock`](crate::LockManager::lock) and its siblings. A request for several keys refuses any kind but
    /// [`Kind::Reentrant`] and [`Kind::Write`], because each of them has one holder. Default: [`Kind::Reentrant`].
    pub fn kind(mut self, kind: Kind) -> Self {
        self.options.kind = Some(kind);
        self
    }

    /// Sets how many permits of a [`semaphore`](crate::LockManager::semaphore) the lock takes: all of them at once, or
    /// none. So two requests that need several never wait for each other while each has a part. Requests are served in
    /// the order of their arrival: a request for many permits waits until enough are free, and the requests after it
    /// wait with it, even if one permit would be enough for them. The lock releases all of them together.
    ///
    /// At least 1, at most the number of permits of the semaphore, and at most 100. On memory and Redis (one server,
    /// Sentinel, Cluster); more than 1 over another store is refused with [`Unsupported`](LockErrorKind::Unsupported),
    /// before any I/O. Default: the profile's value if the [kind](crate::Profile::kind) is the profile's too, else 1.
    ///
    /// The number of a profile belongs to the [`kind`](Self::kind) of the profile, which is a semaphore: a request that
    /// names its kind also names its `take`.
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

    /// Sets the pauses between the tries of a strategy, in place of the strategy's own. A strategy that does not try
    /// again refuses a backoff.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.options.backoff = Some(backoff);
        self
    }

    /// Sets how many may wait for the key before a further request fails with
    /// [`Overloaded`](LockErrorKind::Overloaded). For [`lock`](crate::LockManager::lock) the waiters of this process
    /// count, and for every other kind those in the store's queue, of all processes. A waiter that died counts until
    /// its waiter lease is over, min(ttl, 2 s), and then until the next heartbeat of a living waiter, at most a third
    /// of that later. Default: any number.
    pub fn max_waiters(mut self, max: usize) -> Self {
        self.options.max_waiters = Some(max);
        self
    }

    /// Sets whether the fencing token must come with the grant. Default: no; then the first
    /// [`fencing_token`](LockGuard::fencing_token) asks the store once, unless the store returns the token anyway.
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.options.fencing = Some(fencing);
        self
    }

    /// Sets whether a task that holds the key may enter it again. If not, that fails at once with
    /// [`Reentered`](LockErrorKind::Reentered). Default: yes.
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.options.reentrant = Some(reentrant);
        self
    }

    /// Sets how often the lease is renewed, if a third of it is too seldom. A renewal also finds out that the key was
    /// deleted, so this is how long the holder of a deleted key may not know of its loss. At least 10 ms. Default: a
    /// third of the ttl.
    ///
    /// Every other way to lose a lock is noticed at once: [`force_release`](crate::LockManager::force_release), and the
    /// end of the lease. Renewals of many locks are sent together, so that one each second costs a fraction of a
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

    /// Sets the longest time for which the lock is held, renewals included: for bodies that hang and guards that are
    /// forgotten. After it the lock is lost. At least 1 ms. Default: none.
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.options.max_hold = Some(max);
        self
    }

    /// Sets the shortest time for which the key stays locked, counted from the grant: a job that ends early must not
    /// run again on the next machine. The release does not wait for it. If the holder dies, the key is free when the
    /// lease is over, as without this option. At most what the store can keep: 366 days on Redis, and the `max_ttl` of
    /// a `redlock://`, whose servers do not vote for that long after they lost their data. Default: none.
    ///
    /// The error of a request that is refused meanwhile says that no client holds the key:
    /// [`LockError::is_kept`](crate::LockError::is_kept).
    pub fn min_hold(mut self, min: Duration) -> Self {
        self.options.min_hold = Some(min);
        self
    }

    /// Sets what [`run`](crate::LockRequest::run) and [`run_with`](crate::LockRequest::run_with) do when the lock is lost. Default: that of the
    /// profile, else [`OnLost::Cancel`].
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.options.on_lost = Some(on_lost);
        self
    }

    /// Sets what the lock is for. It must not be a secret: it is in the owner record, which errors and operators show,
    /// and in spans and events, even with [`redact_keys`](crate::ManagerBuilder::redact_keys). A label of more than 256
    /// bytes is cut. Default: none.
    ///
    /// The label of a profile is the same text for all its locks: only a label of the attribute or of the HTTP layer has
    /// placeholders.
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
        self.options.has_strategy()
    }
}
