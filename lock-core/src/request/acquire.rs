//! Turns a request into a guard, or runs a body under its lock.

use std::future::Future;
use std::sync::Arc;

use super::lock_request::LockRequest;
use crate::acquire::{self, Plan};
use crate::error::{LockErrorKind, Result};
use crate::guard::body;
use crate::guard::{LockGuard, LockHandle};
use crate::key::BadKey;
use crate::kind::Kind;
use crate::options::{OnLost, Resolved, find};
use crate::strategy;

impl LockRequest {
    /// Checks whether the request could ever be granted, without any I/O. A program that builds requests from settings
    /// can call this at its start, and need not wait for the first request to fail.
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

    /// Acquires the lock. The strategy decides whether and how long to wait.
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
    /// If the future is dropped, a possible grant is released in the background, and the queue entry is removed.
    pub fn acquire(self) -> impl Future<Output = Result<LockGuard>> + Send {
        // The plan is made outside of the future. Otherwise the future would also contain the request, and would be
        // moved with it.
        acquire::acquire(self.plan())
    }

    /// Tries exactly once. Returns `None` if the key is held. The strategy is not used, and the call does not wait for
    /// a holder. If this process has begun a release of the key, the call waits for its answer, for at most a second.
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
    /// The body runs at most once, and never without the lock. If the lock is lost, the body is dropped (see
    /// [`on_lost`](Self::on_lost)). The values of the body are dropped before the lock is released. A nested request
    /// for the same key in the same task enters the existing grant. The caller waits for the release for at most a
    /// second, and then the release continues in the background. With
    /// [`Release::Background`](crate::Release::Background) the caller does not wait at all. A failed release never
    /// hides the result of the body.
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
        // The future is boxed, because an async function that takes a future by value stores a copy of it in its own
        // future.
        let body = Box::pin(body);
        let (guard, on_lost) = self.acquire_for_body().await?;
        body::under(guard, on_lost, body).await
    }

    /// Runs `body` like [`run`](Self::run), and passes a handle to it. With the handle the body reads the fencing token
    /// and the time left, and checks whether the lock is lost.
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

    /// Acquires the lock for a body. Also returns what happens to the body if the lock is lost. This is for layers that
    /// run the body with [`LockGuard::run_on_lost`] and release the lock with [`LockGuard::release_within`].
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

    /// Fills in unset options, and makes every check that needs no store.
    pub(crate) fn plan(mut self) -> Result<Plan> {
        let own = self.resolve()?;
        let plan = Plan {
            own,
            template: self.template,
            is_part: false,
            hub: self.hub,
            key: self.key.map_err(|bad| bad.error())?,
            more: self.more,
        };
        plan.check().map_err(|error| error.with_key(&plan.key))?;
        Ok(plan)
    }

    /// Moves the options out of the request, filled in and checked. Returns `None` if they are the defaults of the
    /// manager.
    fn resolve(&mut self) -> Result<Option<Box<Resolved>>> {
        let key = self.key.as_ref().map_err(BadKey::error)?;
        if self.is_plain() {
            return Ok(None);
        }
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
        resolved.map(|own| Some(Box::new(own))).map_err(|error| error.with_key(key))
    }

    /// Returns whether the request is for one holder of one key, and sets no options. Most requests are like that.
    fn is_plain(&self) -> bool {
        self.options.is_none()
            && self.profile.is_none()
            && self.kind == Some(Kind::Reentrant)
            && self.usual.label.is_none()
            && self.usual.strategy.is_none()
            && !self.of_all
    }
}
