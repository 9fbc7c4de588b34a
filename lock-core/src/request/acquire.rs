//! From a request to a guard, or to a body under its lock.

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
    /// Checks whether the request could ever be granted, without any I/O: for programs that build requests from
    /// settings, at the start and not at the first call.
    ///
    /// # Errors
    /// [`InvalidKey`](LockErrorKind::InvalidKey), [`InvalidRequest`](LockErrorKind::InvalidRequest),
    /// [`Unsupported`](LockErrorKind::Unsupported): the errors that [`acquire`](Self::acquire) would return before any
    /// I/O.
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

    /// Acquires the lock, waiting as the strategy says.
    ///
    /// # Errors
    /// - [`Contended`](LockErrorKind::Contended), [`TimedOut`](LockErrorKind::TimedOut): the key is held. The error
    ///   names the holder, if the store knows it, and [`is_skipped`](crate::LockError::is_skipped) is true when the
    ///   strategy skips.
    /// - [`Overloaded`](LockErrorKind::Overloaded): too many requests are already waiting.
    /// - [`Unavailable`](LockErrorKind::Unavailable): the store does not answer. A waiting strategy tries again within
    ///   its limit; [`wait`](strategy::wait()) continues for ever, and logs that.
    /// - [`InvalidKey`](LockErrorKind::InvalidKey), [`InvalidRequest`](LockErrorKind::InvalidRequest),
    ///   [`Unsupported`](LockErrorKind::Unsupported): the request is refused before any I/O.
    /// - [`Upgrade`](LockErrorKind::Upgrade), [`Reentered`](LockErrorKind::Reentered): this task holds the key already.
    /// - [`ShuttingDown`](LockErrorKind::ShuttingDown).
    ///
    /// # Panics
    /// In a tokio runtime without the timer. A store on the network needs the I/O driver too (`enable_all`).
    ///
    /// # Cancel safety
    /// If the future is dropped, a possible grant is released in the background, and the queue entry is removed.
    pub fn acquire(self) -> impl Future<Output = Result<LockGuard>> + Send {
        // The plan is made here, because a future that made it would contain the request as well, and be moved with it.
        acquire::acquire(self.plan())
    }

    /// Tries exactly once. Returns `None` when the key is held. The strategy is not used, and the call does not wait for a
    /// holder. It waits, for at most a second, for the answer to a release of the key that this process has begun before.
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
    /// The body runs at most once, and never without the lock. When the lock is lost, the body is dropped (see
    /// [`on_lost`](Self::on_lost)). The values of the body are dropped before the lock is released. A nested request
    /// for the same key in the same task enters the grant again. The caller waits for the release for at most a second;
    /// after that it continues in the background. With [`Release::Background`](crate::Release::Background) the caller
    /// does not wait for it at all. A release that fails never masks the body's result.
    ///
    /// # Errors
    /// The errors of [`acquire`](Self::acquire), and [`Lost`](LockErrorKind::Lost) when the lock was lost while the
    /// body ran. The effects of the body are not undone.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body first, then releases the lock in the background.
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
        // The future is boxed, because every async function that takes a future by value stores a copy of it in its
        // own.
        let body = Box::pin(body);
        let (guard, on_lost) = self.acquire_for_body().await?;
        body::under(guard, on_lost, body).await
    }

    /// Like [`run`](Self::run), with a handle for the body: the fencing token, the time left, and whether the lock is
    /// lost.
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

    /// Acquires the lock for a body, and returns what happens to the body when the lock is lost: for layers that run the
    /// body by [`LockGuard::run_on_lost`] and release the lock by [`LockGuard::release_within`].
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

    /// Fills in unset options, and checks everything that can be checked without the store.
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

    /// Takes the options out of the request, filled in and checked. `None` if they are the manager's.
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

    /// Returns whether the request is for one holder of one key without further options, as most requests are.
    fn is_plain(&self) -> bool {
        self.options.is_none()
            && self.profile.is_none()
            && self.kind == Some(Kind::Reentrant)
            && self.usual.label.is_none()
            && self.usual.strategy.is_none()
            && !self.of_all
    }
}
