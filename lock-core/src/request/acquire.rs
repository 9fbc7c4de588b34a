//! From a request to a guard, or to a body under its lock.

use std::future::Future;
use std::sync::Arc;

use super::lock_request::LockRequest;
use crate::acquire::{self, Plan};
use crate::error::{LockError, LockErrorKind, Result};
use crate::guard::body;
use crate::guard::{LockGuard, LockHandle};
use crate::lease::LeaseOptions;
use crate::options::Lingers;
use crate::strategy::{self, Backoff, Strategy};

impl LockRequest {
    /// Checks whether the request could ever be granted, without any I/O: for programs that build requests from
    /// settings, at the start and not at the first call.
    ///
    /// # Errors
    /// [`InvalidKey`](LockErrorKind::InvalidKey), [`InvalidRequest`](LockErrorKind::InvalidRequest),
    /// [`Unsupported`](LockErrorKind::Unsupported): what [`acquire`](Self::acquire) would return before any I/O.
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
    ///   says by whom, where the store knows, and [`is_skipped`](LockError::is_skipped) is true when the strategy does
    ///   without.
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
    /// Dropping the future leaves nothing behind: what may have been granted is released in the background, and the
    /// queue entry is removed.
    pub async fn acquire(self) -> Result<LockGuard> {
        acquire::acquire(&mut self.plan()?).await
    }

    /// Tries exactly once. Returns `None` when the key is held. The strategy is not asked, and nothing waits.
    ///
    /// # Errors
    /// Those of [`acquire`](Self::acquire), except for a held key.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(mut self) -> Result<Option<LockGuard>> {
        self.options.strategy = Some(Arc::new(strategy::fail_fast()));
        self.options.wait = None;
        self.backoff = None;
        match acquire::acquire(&mut self.plan()?).await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.kind() == LockErrorKind::Contended => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Acquires the lock, runs `body` under it, and releases the lock.
    ///
    /// The body runs at most once, and never without the lock. When the lock is lost, the body is dropped (see
    /// [`on_lost`](Self::on_lost)). What the body borrowed or owned is dropped before the lock is released. A nested
    /// request for the same key in the same task enters the grant again. The caller waits for the release for at most a
    /// second; after that it continues in the background. With [`Release::Background`](crate::Release::Background) the
    /// caller does not wait for it at all. A release that fails never masks the body's result.
    ///
    /// # Errors
    /// Those of [`acquire`](Self::acquire), and [`Lost`](LockErrorKind::Lost) when the lock was lost while the body
    /// ran. What the body has done is not undone.
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
        // Boxed, because every async function that takes a future by value stores a copy of it in its own.
        let body = Box::pin(body);
        let on_lost = self.on_lost;
        let guard = self.acquire().await?;
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
        let on_lost = self.on_lost;
        let guard = self.acquire().await?;
        let body = Box::pin(body(guard.handle()));
        body::under(guard, on_lost, body).await
    }

    /// Checks everything that can be checked without the store.
    fn plan(self) -> Result<Plan> {
        let key = self.key.map_err(|bad| LockError::new(bad.kind, bad.text.to_string()))?;
        let hub = self.hub;
        let profiles = &hub.engine.profiles;
        let named = self.profile.as_deref().map(|name| profiles.get(name)).transpose();
        let own_linger = self.options.linger;
        let options = match named.map_err(|error| error.with_key(&key))? {
            Some(profile) => self.options.or(&profile.options),
            None => self.options,
        };
        let mut options = options.or(&profiles.defaults);
        let strategy = match (options.take_strategy(), self.backoff) {
            (strategy, None) => strategy,
            (strategy, Some(backoff)) => {
                with_backoff(&*strategy, backoff).map_err(|error| error.with_key(&key))?
            }
        };
        let lingers = Lingers { kind: self.kind, several: !self.more.is_empty(), ttl: options.ttl() };
        let linger = lingers.decide(own_linger, options.linger, &hub.engine.capability);
        let plan = Plan {
            ttl: options.ttl(),
            wait: options.wait,
            options: LeaseOptions {
                kind: self.kind,
                renew: options.renew(),
                release: options.release(),
                renew_every: self.renew_every,
                max_hold: self.max_hold,
                min_hold: self.min_hold,
                linger: linger.map_err(|error| error.with_key(&key))?,
            },
            fencing: self.fencing,
            reentrant: self.reentrant,
            max_waiters: self.max_waiters,
            label: self.label,
            template: self.template,
            strategy,
            hub,
            key,
            more: self.more,
        };
        plan.check().map_err(|error| error.with_key(&plan.key))?;
        Ok(plan)
    }
}

fn with_backoff(strategy: &dyn Strategy, backoff: Backoff) -> Result<Arc<dyn Strategy>> {
    strategy.with_backoff(backoff).ok_or_else(|| {
        let name = strategy.name();
        let detail =
            format!("a backoff is given, but strategy `{name}` takes none: drop one, or use `retry`");
        LockError::new(LockErrorKind::InvalidRequest, detail)
    })
}
