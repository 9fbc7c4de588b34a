//! Turns a request into a guard, or runs a body under its lock.

use std::future::Future;
use std::sync::Arc;

use super::lock_request::LockRequest;
use crate::acquire::{self, Plan};
use crate::error::{LockErrorKind, Result};
use crate::guard::body;
use crate::guard::{LockGuard, LockHandle};
use crate::options::{OnLost, Resolved, find};
use crate::strategy;

impl LockRequest {
    /// Checks without any I/O whether the request can be granted at all. If a program builds requests from settings, it
    /// can call this at start-up, and finds a mistake before the first request fails.
    ///
    /// # Errors
    /// [`InvalidKey`](LockErrorKind::InvalidKey), [`InvalidRequest`](LockErrorKind::InvalidRequest) or
    /// [`Unsupported`](LockErrorKind::Unsupported). These are the errors that [`acquire`](Self::acquire) would return
    /// before any I/O.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use lock_core::{LockErrorKind, LockManager, strategy};
    ///
    /// let locks = LockManager::in_memory();
    /// let request = locks.lock("k").strategy(strategy::fail_fast()).wait(Duration::from_secs(1));
    /// assert_eq!(request.check().unwrap_err().kind(), LockErrorKind::InvalidRequest);
    /// ```
    pub fn check(self) -> Result<()> {
        self.plan().map(drop)
    }

    /// Acquires the lock. If the key is held, the strategy decides whether and how long to wait.
    ///
    /// # Errors
    /// - [`Contended`](LockErrorKind::Contended), [`TimedOut`](LockErrorKind::TimedOut): the key is held. The error
    ///   names the holder, if the store knows it. If the strategy skips, [`is_skipped`](crate::LockError::is_skipped)
    ///   is true.
    /// - [`Overloaded`](LockErrorKind::Overloaded): too many requests are already waiting.
    /// - [`Unavailable`](LockErrorKind::Unavailable): the store does not answer. A waiting strategy retries within its
    ///   limit. [`wait`](strategy::wait()) retries forever, and logs the failure.
    /// - [`InvalidKey`](LockErrorKind::InvalidKey), [`InvalidRequest`](LockErrorKind::InvalidRequest),
    ///   [`Unsupported`](LockErrorKind::Unsupported): the request is refused before any I/O.
    /// - [`Upgrade`](LockErrorKind::Upgrade), [`Reentered`](LockErrorKind::Reentered): this task already holds the key.
    /// - [`ShuttingDown`](LockErrorKind::ShuttingDown).
    ///
    /// # Panics
    /// If the tokio runtime has no timer. A store on the network also needs the I/O driver (`enable_all`).
    ///
    /// # Cancel safety
    /// If the future is dropped, a task in the background releases a possible grant, and removes the entry in the
    /// store's queue.
    pub fn acquire(self) -> impl Future<Output = Result<LockGuard>> + Send {
        // The plan is made outside of the future. Otherwise the future would also contain the request, and moving the
        // future would cost more.
        acquire::acquire(self.plan())
    }

    /// Tries to acquire the lock exactly once. Returns `None` if the key is held. The strategy is not used, and the
    /// call does not wait for a holder. If this process is just releasing the key, the call waits for the answer to
    /// that release, for at most a second.
    ///
    /// # Errors
    /// The errors of [`acquire`](Self::acquire), except for a held key.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub fn try_acquire(mut self) -> impl Future<Output = Result<Option<LockGuard>>> + Send {
        let options = &mut self.own_options().options;
        (options.wait, options.backoff) = (None, None);
        options.strategy = Some(Arc::new(strategy::fail_fast()));
        let acquire = self.acquire();
        async move {
            match acquire.await {
                Ok(guard) => Ok(Some(guard)),
                Err(error) if error.kind() == LockErrorKind::Contended => Ok(None),
                Err(error) => Err(error),
            }
        }
    }

    /// Acquires the lock, runs `body` under it, and releases the lock.
    ///
    /// The body runs at most once, and never starts without the lock. If the lock is lost, the body is dropped (see
    /// [`on_lost`](Self::on_lost)). The values of the body are dropped before the lock is released. A nested request
    /// for the same key in the same task enters the existing grant. The caller waits for the answer to the release for
    /// at most a second. After that, the release continues in the background. With
    /// [`Release::Background`](crate::Release::Background) the caller does not wait at all. A failed release does not
    /// replace the result of the body. Neither does a loss that only the release finds: see [the costs of a
    /// release](crate::Release#a-loss-that-only-the-release-finds).
    ///
    /// # Errors
    /// The errors of [`acquire`](Self::acquire), and [`Lost`](LockErrorKind::Lost) if the lock was lost while the body
    /// ran. The effects of the body are not undone.
    ///
    /// # Cancel safety
    /// If the future is dropped, the body is dropped first, and the lock is then released in the background.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// let locks = lock_core::LockManager::in_memory();
    /// let sum = locks.lock("account:7").run(async { 20 + 22 }).await?;
    /// assert_eq!(sum, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<F: Future>(self, body: F) -> Result<F::Output> {
        // The body is boxed, because an async function that takes a future by value reserves memory for the future
        // twice.
        let body = Box::pin(body);
        let (guard, on_lost) = self.acquire_for_body().await?;
        body::under(guard, on_lost, body).await
    }

    /// Runs `body` like [`run`](Self::run), and passes a handle to it. With the handle, the body can read the fencing
    /// token and the rest of the lease, and check whether the lock is lost.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// let locks = lock_core::LockManager::in_memory();
    /// let token = locks.lock("account:7").run_with(|lock| async move { lock.fencing_token().await }).await??;
    /// println!("UPDATE account SET .., fence = {token} WHERE id = 7 AND fence <= {token}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_with<F, Fut>(self, body: F) -> Result<Fut::Output>
    where
        F: FnOnce(LockHandle) -> Fut,
        Fut: Future,
    {
        let (guard, on_lost) = self.acquire_for_body().await?;
        let body = Box::pin(body(guard.handle()));
        body::under(guard, on_lost, body).await
    }

    /// Acquires the lock for a body. Also returns the option [`on_lost`](Self::on_lost), which selects what happens to
    /// the body if the lock is lost. Use this in integrations that run the body with [`LockGuard::run_on_lost`] and
    /// release the lock with [`LockGuard::release_within`].
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use std::time::Duration;
    ///
    /// let locks = lock_core::LockManager::in_memory();
    /// let (guard, on_lost) = locks.lock("order:7").acquire_for_body().await?;
    /// let answer = guard.run_on_lost(on_lost, async { 42 }).await;
    /// guard.release_within(Duration::from_secs(1)).await;
    /// assert_eq!(answer?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire_for_body(self) -> impl Future<Output = Result<(LockGuard, OnLost)>> + Send {
        let plan = self.plan();
        let on_lost = plan.as_ref().map(|plan| plan.on_lost).unwrap_or_default();
        let acquire = acquire::acquire(plan);
        async move { Ok((acquire.await?, on_lost)) }
    }

    /// Completes the options of the request, and makes every check that needs no store.
    pub(crate) fn plan(mut self) -> Result<Plan> {
        let resolved = self.resolve()?;
        let plan = Plan {
            resolved,
            template: self.template,
            is_part: false,
            hub: self.hub,
            key: self.key.map_err(|error| error.without_source())?,
            more: self.more,
        };
        plan.check().map_err(|error| error.with_key(&plan.key))?;
        Ok(plan)
    }

    /// Moves the options out of the request, completed and checked.
    fn resolve(&mut self) -> Result<Box<Resolved>> {
        let key = self.key.as_ref().map_err(|error| error.without_source())?;
        let mut options = self.options.take().map(|own| own.options).unwrap_or_default();
        options.kind = self.kind;
        let (profiles, own_linger) = (&self.hub.engine.profiles, options.linger);
        let named = self.profile.as_ref().map(|_| profiles.in_force());
        let profile = match (&self.profile, &named) {
            (Some(name), Some(named)) => Some(find(named, name).map_err(|error| error.with_key(key))?),
            _ => None,
        };
        options.complete(
            profile.map(|profile| &profile.options),
            std::mem::take(&mut self.usual),
            &profiles.defaults,
        );
        let store = &self.hub.engine.capability;
        let resolved = Resolved::take_from(&mut options, own_linger, self.of_all, store);
        resolved.map(Box::new).map_err(|error| error.with_key(key))
    }
}
