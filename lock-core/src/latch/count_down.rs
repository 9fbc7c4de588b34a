//! Defines [`CountDownLatch`], the latch that a program uses.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::retry::retry;
use super::wait::Wait;
use crate::backend::{LatchState, LatchStep};
use crate::error::{LockError, LockErrorKind, Result};
use crate::hub::Hub;
use crate::key::{BadKey, IntoKey, Key};

/// A count-down latch that all processes share. It is set to a count once, and then counted down. When the count
/// reaches zero, it opens for all waiters. [`LockManager::latch`](crate::LockManager::latch) makes a latch. It sends
/// requests only when one of its methods is called.
///
/// A latch has no holder: there is no guard, and dropping the latch does nothing. Clones are the same latch, and so are
/// latches of the same key in other processes. A latch only counts *down*, and does not close again. For another round,
/// use another key, such as `deploy:43`. Nothing deletes a latch, but the store forgets it when its [`ttl`](Self::ttl)
/// is over. Do not use one key for a lock and a latch at the same time, because the store may refuse that with
/// [`InvalidRequest`](LockErrorKind::InvalidRequest).
///
/// # The lease
/// Like a lock, a latch has a lease of its [`ttl`](Self::ttl) in the store, so that the latch of a job that died
/// expires. Setting the latch, counting it down and waiting for it each extend the lease to another ttl. After a whole
/// ttl without any of these, the store forgets the latch, **open or not**, as if it had never been set. So the ttl must
/// be at least
/// - the longest time without a waiter and without a count, and
/// - the longest time after the opening at which a wait may still start.
///
/// # Retries count once
/// The store may have executed a command although its answer got lost. [`set`](Self::set) and
/// [`count_down`](Self::count_down) therefore retry with the same owner token, so that one call never counts twice. Two
/// calls do count twice. So a worker that crashed after it counted down must not count down again after its restart.
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
    key: Result<Key, BadKey>,
    ttl: Duration,
}

impl CountDownLatch {
    pub(crate) fn new(hub: Arc<Hub>, key: impl IntoKey) -> Self {
        let key = key.into_key().map(|key| key.in_namespace(&hub.engine.namespace));
        let key = key.map_err(|error| BadKey::new(&error));
        let ttl = hub.engine.profiles.defaults.ttl();
        Self { hub, key, ttl }
    }

    /// Sets the lease: how long the store keeps the latch after the last call that set it, counted it down or waited
    /// for it. A ttl shorter than the rest of the current lease does not shorten the lease. Default: the manager's ttl,
    /// 10 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the latch to `count` if it is not set, and returns whether this call has set it. A latch that is set keeps
    /// its count. So several processes may all call this method, and one of them sets the latch.
    ///
    /// # Errors
    /// - [`InvalidRequest`](LockErrorKind::InvalidRequest): `count` is 0, or the store cannot hold the ttl;
    ///   [`InvalidKey`](LockErrorKind::InvalidKey); [`Unsupported`](LockErrorKind::Unsupported) on a store without
    ///   latches. These are returned before any I/O.
    /// - [`Unavailable`](LockErrorKind::Unavailable), [`NoQuorum`](LockErrorKind::NoQuorum): the store did not answer,
    ///   in spite of retries for up to the ttl. The latch may be set.
    /// - [`Lost`](LockErrorKind::Lost): the store forgot the latch before it answered.
    /// - [`ShuttingDown`](LockErrorKind::ShuttingDown): the manager is shutting down. If that ended the retries, the
    ///   latch may be set.
    ///
    /// # Cancel safety
    /// If the future is dropped, the latch may or may not be set. A second call then sets it if necessary. That call
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
                // The store does not know about waiters of this process that began before the latch was set, so they
                // are notified here.
                self.hub.engine.latches.opened(key);
                Ok(by_us)
            }
            Ok(LatchState::Unset) => Err(not_set(LockErrorKind::Lost).with_latch(key)),
            Err(error) => Err(error.with_latch(key)),
        }
    }

    /// Counts down by one and returns the new count; 0 means that the latch is open. Counting down an open latch
    /// changes nothing and is not an error.
    ///
    /// # Errors
    /// - [`InvalidRequest`](LockErrorKind::InvalidRequest): the latch is not set, or was forgotten; nothing was
    ///   counted.
    /// - Otherwise as [`set`](Self::set). After an error that [is temporary](LockError::is_temporary) the latch may or
    ///   may not have been counted down; another call may count a second time.
    ///
    /// # Cancel safety
    /// If the future is dropped, the latch may or may not be counted down, but not more than once.
    #[doc(alias = "countDown")]
    pub async fn count_down(&self) -> Result<u32> {
        let key = self.checked()?;
        // All retries of this call have one owner, so that the store counts it once.
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

    /// Returns the count: 0 means that the latch is open, `None` that it is not set or was forgotten. This sends one
    /// request, and does not extend the lease.
    ///
    /// # Errors
    /// As [`set`](Self::set), but this does not retry if the store fails.
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

    /// Waits until the latch is open, however long that takes.
    ///
    /// This also waits for a latch that is not set yet, so a job may start to wait before the latch is set. The log
    /// then warns every 30 s. **A latch that was forgotten after it opened looks the same.** If a wait may start after
    /// that, use [`wait_within`](Self::wait_within).
    ///
    /// The wait extends the latch's lease. The store notifies the waiter when the latch opens. The waiter also sends a
    /// request every third of the ttl, and at least every 2/3 s. So a late or lost notification delays it by no more
    /// than that. While the store cannot be reached, the waiter keeps waiting, and warns in the log every 30 s.
    ///
    /// # Errors
    /// - [`Lost`](LockErrorKind::Lost): the latch was set at the last request of this wait, and is no longer set,
    ///   because the store could not be reached for longer than the lease. The latch may have been open in the
    ///   meantime.
    /// - A failure of the store that no retry can fix, such as a wrong password.
    /// - [`ShuttingDown`](LockErrorKind::ShuttingDown).
    /// - An invalid latch, before any I/O, as [`set`](Self::set).
    ///
    /// # Panics
    /// If the tokio runtime has no timer. A store on the network also needs the I/O driver (`enable_all`).
    ///
    /// # Cancel safety
    /// Cancel safe: if a wait is dropped, it has counted nothing down, and the store forgets the waiter.
    #[doc(alias = "await")]
    pub async fn wait(&self) -> Result<()> {
        self.wait_up_to(None).await
    }

    /// Waits like [`wait`](Self::wait), but for at most `limit`. Then it sends one last request. With a limit of zero
    /// it sends a single request.
    ///
    /// # Errors
    /// As [`wait`](Self::wait). When the limit is over, [`TimedOut`](LockErrorKind::TimedOut), or the failure of the
    /// store if the store could not be reached.
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

    /// Checks the key and the abilities of the store without I/O. Returns the key.
    fn checked(&self) -> Result<&Key> {
        let key = self.key.as_ref().map_err(BadKey::error)?;
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
            Err(bad) => latch.field("key", &bad.kind),
        };
        latch.field("ttl", &self.ttl).finish_non_exhaustive()
    }
}
