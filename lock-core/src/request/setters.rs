//! The options of a request.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::lock_request::LockRequest;
#[cfg(doc)]
use crate::error::LockErrorKind;
#[cfg(doc)]
use crate::guard::LockGuard;
use crate::kind::Kind;
use crate::options::{OnLost, Profile, Release};
#[cfg(doc)]
use crate::strategy;
use crate::strategy::{Backoff, Strategy};

impl LockRequest {
    /// Sets the lease: how long a holder that crashed keeps others out. It is renewed every third of it while the lock
    /// is held. Default: the manager's, 10 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.own().ttl = Some(ttl);
        self
    }

    /// Sets what to do when the key is held. Default: the manager's, [`strategy::retry()`].
    pub fn strategy(mut self, strategy: impl Strategy) -> Self {
        self.own().strategy = Some(Arc::new(strategy));
        self
    }

    /// Sets how long a bounded strategy waits for other holders, in place of the strategy's own limit. A strategy that
    /// does not wait, or waits for ever, refuses a limit.
    ///
    /// The limit does not interrupt a call to the store, because a call that is merely slow may find the key free.
    /// While the store does not answer, [`Unavailable`](LockErrorKind::Unavailable) therefore comes up to one call
    /// after the limit: on Redis the `timeout` of the URL, 500 ms. To bound everything, put `tokio::time::timeout`
    /// around [`acquire`](Self::acquire), which leaves nothing behind when it is dropped.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.own().wait = Some(limit);
        self
    }

    /// Sets the pauses between the tries of a strategy, in place of the strategy's own. A strategy that does not try
    /// again refuses a backoff.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.own().backoff = Some(backoff);
        self
    }

    /// Sets whether the lease is renewed while the lock is held. Without renewal, the lock is lost after its ttl.
    /// Default: yes.
    pub fn renew(mut self, renew: bool) -> Self {
        self.own().renew = Some(renew);
        self
    }

    /// Sets how often the lease is renewed, where a third of it is too seldom. A renewal also finds out that somebody
    /// deleted the key, so a lock with a long lease is lost within this time after that. At least 10 ms. Default: a
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
        self.own().renew_every = Some(every);
        self
    }

    /// Sets whether the fencing token must come with the grant. Default: no; then the first
    /// [`fencing_token`](LockGuard::fencing_token) asks the store once, unless the store returns the token anyway.
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.own().fencing = Some(fencing);
        self
    }

    /// Sets whether a task that holds the key may enter it again. If not, that fails at once with
    /// [`Reentered`](LockErrorKind::Reentered). Default: yes.
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.own().reentrant = Some(reentrant);
        self
    }

    /// Sets the longest time for which the lock is held, renewals included: for bodies that hang and guards that are
    /// forgotten. After it the lock is lost. At least 1 ms. Default: none.
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.own().max_hold = Some(max);
        self
    }

    /// Sets the shortest time for which the key stays locked, counted from the grant: a job that ends early must not
    /// run again on the next machine. The release does not wait for it. If the holder dies, the key is free when the
    /// lease is over, as without this option. At most what the store can keep: 366 days on Redis, and the `max_ttl` of
    /// a `redlock://`, whose servers do not vote for that long after they lost their data. Default: none.
    ///
    /// Who is refused meanwhile learns that nobody holds the key any more:
    /// [`LockError::is_kept`](crate::LockError::is_kept).
    pub fn min_hold(mut self, min: Duration) -> Self {
        self.own().min_hold = Some(min);
        self
    }

    /// Sets how long the lock stays at hand for this process after its release. The next request of this process for
    /// the key then gets it at once, without a command to the store, and with a fencing token of its own. At most a
    /// second, and a third of the ttl; zero for not at all. Default: that of the profile, else of the manager, else not
    /// at all.
    ///
    /// What it gives up:
    /// - **Who only tries elsewhere is refused for so long** after the last release: a request that fails at once or
    ///   skips, and the first try of one that waits. Where this process takes the key again and again within that time,
    ///   such a request may be refused each time.
    /// - Who **waits** elsewhere is served at once, because the store notifies this process, which then gives the key
    ///   back. If that notification is lost, the waiter waits for the end of the linger, or for about a second where
    ///   this process goes on to use the key.
    /// - A task of the runtime that released the lock gives it back. If nobody drives that runtime, the key stays held
    ///   until its lease is over.
    /// - To the store, and to [`inspect`](crate::LockManager::inspect), the key is held by this process meanwhile. No
    ///   guard holds it, so it counts neither as held in the metrics nor for a shutdown, which gives it back.
    /// - If the process dies meanwhile, the key is free when its lease is over, as if it died with the lock. A
    ///   lingering lock is not renewed.
    ///
    /// A task of this process that waits already has precedence, and a task that needs the key in another way (fair,
    /// together with other keys, with a shorter ttl) has it given back first. [`release`](LockGuard::release) returns
    /// at once. Each acquisition counts `max_hold` and `min_hold` anew, and until the end of its `min_hold` a lock is
    /// kept in the store instead. Without [renewal](Self::renew), each acquisition costs one renewal.
    ///
    /// Only for [`lock`](crate::LockManager::lock), and on stores that notify a holder of waiters
    /// ([`Waiting::tells_holder`](crate::backend::Waiting::tells_holder)): not on a `redlock://` of several servers.
    /// Anything else is refused.
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
        self.own().linger = Some(linger);
        self
    }

    /// Sets how many may wait for the key before a further request fails with
    /// [`Overloaded`](LockErrorKind::Overloaded). For [`lock`](crate::LockManager::lock) the waiters of this process
    /// count, and for every other kind those in the store's queue, of all processes. Waiters of a
    /// [fair](crate::LockManager::fair) lock that share a place count as one; with this limit, or with a strategy that
    /// counts, a request shares none, so give it to all requests for the key. A waiter that died counts for its
    /// waiter lease, min(ttl, 2 s), and until the next heartbeat of a living one beside it, a third of that. Default:
    /// any number.
    pub fn max_waiters(mut self, max: usize) -> Self {
        self.own().max_waiters = Some(max);
        self
    }

    /// Sets what the lock is for. The owner record contains it, which errors and operators show, and so do spans and
    /// events, also with [`redact_keys`](crate::ManagerBuilder::redact_keys): no secrets. A label of more than 256 bytes
    /// is cut. Default: none.
    pub fn label(mut self, label: impl Into<Cow<'static, str>>) -> Self {
        self.own().label = Some(label.into());
        self
    }

    /// Sets how many permits of a [`semaphore`](crate::LockManager::semaphore) the lock takes: all of them at once, or
    /// none. So two requests that need several never wait for each other while each has a part. Requests are served in
    /// the order of their arrival: one for many permits waits until enough are free, and those behind it wait with it,
    /// even where one permit would do for them. The lock releases all of them together.
    ///
    /// At least 1, at most the number of permits of the semaphore, and at most 100. On memory and Redis (one server,
    /// Sentinel, Cluster); more than 1 over another store is refused with
    /// [`Unsupported`](LockErrorKind::Unsupported), before any I/O. Default: that of the profile, where the
    /// [kind](crate::Profile::kind) is the profile's too, else 1.
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
        self.own().take = Some(permits);
        self
    }

    /// Sets the template that the key was rendered from, such as `order:<id>`. Spans and metrics show it, because there
    /// are few templates and many keys. The attribute and the HTTP layer set it. Default: none.
    pub fn template(mut self, template: impl Into<Cow<'static, str>>) -> Self {
        self.template = Some(template.into());
        self
    }

    /// Takes the options that the request does not set from the profile with this name, and what that does not set from
    /// the manager. A request of [`LockManager::request`](crate::LockManager::request) with `None` for its kind takes
    /// that too. The profile is looked up when the lock is acquired, in the state of the last
    /// [reload](crate::LockManager#method.reload). An unknown name fails with
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) when the lock is acquired.
    pub fn profile(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.profile = Some(name.into());
        self
    }

    /// Sets what the caller of [`run`](Self::run) and [`run_with`](Self::run_with) waits for once the body has ended:
    /// [`Release`] says what `Background` saves and what it gives up. A guard from [`acquire`](Self::acquire) is
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
        self.own().release = Some(release);
        self
    }

    /// Sets what [`run`](Self::run) and [`run_with`](Self::run_with) do when the lock is lost. Default: that of the
    /// profile, else [`OnLost::Cancel`].
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.own().on_lost = Some(on_lost);
        self
    }

    /// Sets what `own` sets and the request does not. For the layers above, which have a request for each
    /// of theirs: in place, because moving it costs as much.
    #[doc(hidden)]
    pub fn fill(&mut self, own: &Profile) {
        let options = self.options.get_or_insert_default();
        options.kind = self.kind;
        // Beside a kind that is set already, permits to take would not be filled in.
        options.take = options.take.or(own.options.take);
        options.fill(&own.options);
        self.kind = options.kind;
    }

    /// Sets the kind, before that of the profile. For the layers above: to a request for all of some keys, only a kind with
    /// one holder can be given.
    #[doc(hidden)]
    pub fn of_kind(mut self, kind: impl Into<Option<Kind>>) -> Self {
        self.kind = kind.into().or(self.kind);
        self
    }

    /// Sets the label of requests that have none, and whose profile has none.
    #[cfg(feature = "macros")]
    pub(crate) fn usual_label(mut self, label: &'static str) -> Self {
        self.usual.label = Some(label);
        self
    }

    /// Sets the strategy of requests that have none, and whose profile says nothing of what to do when the key is
    /// held. For the layers above.
    #[doc(hidden)]
    pub fn usual_strategy(mut self, strategy: impl Strategy) -> Self {
        self.usual.strategy = Some(Arc::new(strategy));
        self
    }
}
