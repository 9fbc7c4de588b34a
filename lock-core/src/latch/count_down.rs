//! Defines [`CountDownLatch`], the latch that a program uses.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::retry::retry;
use super::wait::Wait;
use crate::backend::{LatchState, LatchStep};
use crate::error::{LockError, LockErrorKind, Result};
use crate::hub::Hub;
use crate::key::{IntoKey, Key};

/// A count-down latch that all processes share. A program sets the latch to a count once, and then counts it down. When
/// the count reaches zero, the latch opens for all waiters. [`LockManager::latch`](crate::LockManager::latch) creates a
/// latch. A latch sends requests only when one of its methods is called.
///
/// A latch has no holder: there is no guard, and dropping the latch does nothing. All clones, and all latches of the
/// same key in other processes, are the same latch. A latch only counts *down*, and does not close again. For another
/// round, use another key, such as `deploy:43`. A latch cannot be deleted, but it expires in the store when its
/// [`ttl`](Self::ttl) is over. Do not use one key for a lock and a latch at the same time, because the store may refuse
/// that with [`InvalidRequest`](LockErrorKind::InvalidRequest).
///
/// # The lease
/// Like a lock, a latch has a lease in the store, so that the latch of a dead job expires. A call that sets the latch,
/// counts it down or waits for it extends the lease to the [`ttl`](Self::ttl). After a whole ttl without such a call,
/// the latch expires, **open or not**, as if it had never been set. So the ttl must be at least
/// - the longest time without a waiter and without a count, and
/// - the longest time after the opening at which a wait may still start.
///
/// # Retries count once
/// If the answer of the store is lost, the command may still have been executed. So [`set`](Self::set) and
/// [`count_down`](Self::count_down) retry with the same owner token, and one call never counts twice. Two calls,
/// however, count twice. So a worker that crashed after it counted down must not count down again after its restart.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// use std::time::Duration;
/// use lock_core::LockManager;
///
/// let locks = LockManager::in_memory();
/// let parts = locks.latch("import:42:parts").ttl(Duration::from_secs(60));
/// parts.set(3).await?;
/// for _part in 0..3 {
///     let parts = parts.clone(); // or, in another process, `locks.latch("import:42:parts")`
///     tokio::spawn(async move {
///         // Imports the part.
///         parts.count_down().await
///     });
/// }
/// parts.wait_within(Duration::from_secs(30)).await?;
/// assert_eq!(parts.count().await?, Some(0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a latch does nothing until it is set, counted down or waited for"]
pub struct CountDownLatch {
    hub: Arc<Hub>,
    key: Result<Key, Arc<LockError>>,
    ttl: Duration,
}

impl CountDownLatch {
    pub(crate) fn new(hub: Arc<Hub>, key: impl IntoKey) -> Self {
        let key = key.into_key().map(|key| key.in_namespace(&hub.engine.namespace));
        let key = key.map_err(Arc::new);
        let ttl = hub.engine.profiles.defaults.ttl();
        Self { hub, key, ttl }
    }

    /// Sets the length of the lease, which is how long the store keeps the latch after the last call that set it,
    /// counted it down or waited for it. A ttl shorter than the rest of the current lease does not shorten the lease.
    /// Default: the manager's ttl, which is 10 s if not set.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the latch to `count` if it is not set, and returns whether this call has set it. A latch that is already
    /// set keeps its count. So several processes may call this method, and only one of them sets the latch.
    ///
    /// # Errors
    /// - [`InvalidRequest`](LockErrorKind::InvalidRequest): `count` is 0, or the store cannot hold the ttl;
    ///   [`InvalidKey`](LockErrorKind::InvalidKey); [`Unsupported`](LockErrorKind::Unsupported) on a store without
    ///   latches. These are returned before any I/O.
    /// - [`Unavailable`](LockErrorKind::Unavailable), [`NoQuorum`](LockErrorKind::NoQuorum): the store did not answer,
    ///   and the retries ended after at most the ttl. The latch may be set.
    /// - [`Lost`](LockErrorKind::Lost): the latch expired before the store answered.
    /// - [`ShuttingDown`](LockErrorKind::ShuttingDown): the manager is shutting down. If the shutdown has interrupted
    ///   retries, the latch may be set.
    ///
    /// # Cancel safety
    /// If the future is dropped, the latch may or may not be set. A second call then sets the latch if necessary, but
    /// does not report whether the first call had set it.
    #[doc(alias = "trySetCount")]
    pub async fn set(&self, count: u32) -> Result<bool> {
        let key = self.checked()?;
        if count == 0 {
            let detail = "a latch that is set to 0 is open from the start: set it to at least 1";
            return Err(LockError::new(LockErrorKind::InvalidRequest, detail).with_latch(key));
        }
        let step = LatchStep::Set { count, owner: self.hub.engine.owners.mint(), ttl: self.ttl };
        match self.hub.engine.inside(retry(&self.hub.engine, key, &step, self.ttl)).await {
            Ok(LatchState::Set { by_us, .. }) => {
                // The store cannot notify waiters of this process that began before the latch was set, so they are
                // notified here.
                self.hub.engine.latches.opened(key);
                Ok(by_us)
            }
            Ok(LatchState::Unset) => Err(not_set(LockErrorKind::Lost).with_latch(key)),
            Err(error) => Err(error.with_latch(key)),
        }
    }

    /// Counts down by one and returns the new count. Zero means that the latch is open. A call on an open latch changes
    /// nothing and is not an error.
    ///
    /// # Errors
    /// - [`InvalidRequest`](LockErrorKind::InvalidRequest): the latch is not set, or has expired. Nothing was counted.
    /// - The other errors of [`set`](Self::set). After an error that [is temporary](LockError::is_temporary), the latch
    ///   may or may not have been counted down, so another call may count a second time.
    ///
    /// # Cancel safety
    /// If the future is dropped, the latch is counted down at most once.
    #[doc(alias = "countDown")]
    pub async fn count_down(&self) -> Result<u32> {
        let key = self.checked()?;
        // All retries of this call have one owner, so that the store counts the call once.
        let step = LatchStep::CountDown { owner: self.hub.engine.owners.mint(), ttl: self.ttl };
        match self.hub.engine.inside(retry(&self.hub.engine, key, &step, self.ttl)).await {
            Ok(LatchState::Set { left, .. }) => {
                // The waiters of this process are notified here, because the notification of the store may be lost.
                if left == 0 {
                    self.hub.engine.latches.opened(key);
                }
                Ok(left)
            }
            Ok(LatchState::Unset) => Err(not_set(LockErrorKind::InvalidRequest).with_latch(key)),
            Err(error) => Err(error.with_latch(key)),
        }
    }

    /// Returns the count. Zero means that the latch is open, and `None` means that the latch is not set or has expired.
    /// This method sends one request, and does not extend the lease.
    ///
    /// # Errors
    /// The errors of [`set`](Self::set). This method does not retry if the store fails.
    ///
    /// # Cancel safety
    /// Cancel safe.
    #[doc(alias = "getCount")]
    pub async fn count(&self) -> Result<Option<u32>> {
        let key = self.checked()?;
        self.hub.engine.check_open()?;
        match self.hub.engine.inside(self.hub.engine.store.latch(key, &LatchStep::Look)).await {
            Ok(LatchState::Set { left, .. }) => Ok(Some(left)),
            Ok(LatchState::Unset) => Ok(None),
            Err(error) => Err(error.with_latch(key)),
        }
    }

    /// Waits without a time limit until the latch is open.
    ///
    /// This method also waits for a latch that is not set yet, so a job may start to wait before the latch is set. In
    /// that case, a warning is logged every 30 s. **A latch that expired after it opened also counts as not set.** If a
    /// wait may start after the latch has expired, use [`wait_within`](Self::wait_within).
    ///
    /// The wait extends the latch's lease. The store notifies the waiter when the latch opens. The waiter also sends a
    /// request every third of the ttl, and at least every 2/3 s. This interval limits the delay if a notification is
    /// late or lost. While the store cannot be reached, the waiter keeps waiting, and a warning is logged every 30 s.
    ///
    /// # Errors
    /// - [`Lost`](LockErrorKind::Lost): an earlier request of this wait found the latch set, and it is no longer set.
    ///   The latch expired because the store could not be reached for longer than the lease. The latch may have been
    ///   open before it expired.
    /// - A failure of the store that no retry can fix, such as a wrong password.
    /// - [`ShuttingDown`](LockErrorKind::ShuttingDown).
    /// - The errors of [`set`](Self::set) for an invalid latch, before any I/O.
    ///
    /// # Panics
    /// If the tokio runtime has no timer. A store on the network also needs the I/O driver (`enable_all`).
    ///
    /// # Cancel safety
    /// Cancel safe: a wait never changes the count, and the store removes the waiter if the wait is dropped.
    #[doc(alias = "await")]
    pub async fn wait(&self) -> Result<()> {
        self.wait_up_to(None).await
    }

    /// Waits like [`wait`](Self::wait), but for at most `limit`. When the limit is over, this method sends one last
    /// request. With a limit of zero, it sends a single request.
    ///
    /// # Errors
    /// The errors of [`wait`](Self::wait). If the limit is over, [`TimedOut`](LockErrorKind::TimedOut), or the error of
    /// the store if it could not be reached.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    ///
    /// # Cancel safety
    /// As [`wait`](Self::wait).
    pub async fn wait_within(&self, limit: Duration) -> Result<()> {
        self.wait_up_to(Some(limit)).await
    }

    async fn wait_up_to(&self, limit: Option<Duration>) -> Result<()> {
        let key = self.checked()?;
        let waiting = Wait::new(&self.hub.engine, key, self.ttl, limit).run();
        let waited = self.hub.engine.inside(waiting).await;
        waited.map_err(|error| error.with_latch(key))
    }

    /// Checks without I/O that the key is valid and the store has latches, and returns the key.
    fn checked(&self) -> Result<&Key> {
        let key = self.key.as_ref().map_err(|error| error.without_source())?;
        self.check().map_err(|error| error.with_latch(key))?;
        Ok(key)
    }

    fn check(&self) -> Result<()> {
        let (store, ttl) = (&self.hub.engine.capability, self.ttl);
        if !store.latches {
            let detail = format!("the {} store has no count-down latches in this version", store.store);
            return Err(LockError::new(LockErrorKind::Unsupported, detail));
        }
        store.check_ttl(ttl)
    }
}

fn not_set(kind: LockErrorKind) -> LockError {
    let detail = "the latch is not set: call `set` first; a latch is also forgotten when nobody has waited for it or \
                  counted it down for its ttl";
    LockError::new(kind, detail)
}

impl fmt::Debug for CountDownLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut latch = f.debug_struct("CountDownLatch");
        match &self.key {
            Ok(key) => latch.field("key", &self.hub.engine.observer.redact_key(key, None).to_string()),
            Err(bad) => latch.field("key", &bad.kind()),
        };
        latch.field("ttl", &self.ttl).finish_non_exhaustive()
    }
}
