//! Calls for the code under a lock: extend the lease, release the lock early, or hold it beyond the end of the code.

use std::sync::Arc;
use std::time::Duration;

use super::extend::extend;
use super::handle::LockHandle;
use super::release::Releasing;
use crate::backend::Released;
use crate::error::{LockError, LockErrorKind, Result};
use crate::guard::{Hold, LockGuard};

impl LockHandle {
    /// Sets the lease to `ttl`, counted from now, and renews it at once: for a body that learns how long its work will
    /// take, and for a lock without [renewal](crate::LockRequest::renew). A lease is never shortened: a shorter `ttl`
    /// counts as soon as a renewal with it ends later than the present lease.
    /// [`max_hold`](crate::LockRequest::max_hold) still ends the lock.
    ///
    /// # Errors
    /// As [`LockGuard::extend`]; [`Lost`](LockErrorKind::Lost) also when the lock was released.
    ///
    /// # Cancel safety
    /// Cancel safe; the lease may or may not have been extended.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use std::time::Duration;
    ///
    /// let locks = lock_core::LockManager::in_memory();
    /// let import = locks.lock("import:7").ttl(Duration::from_secs(5));
    /// import
    ///     .run_with(|lock| async move {
    ///         lock.extend(Duration::from_secs(60)).await?;
    ///         assert!(lock.remaining() > Duration::from_secs(50));
    ///         Ok::<(), lock_core::LockError>(())
    ///     })
    ///     .await?
    /// # }
    /// ```
    pub async fn extend(&self, ttl: Duration) -> Result<()> {
        self.lease().engine.inside(extend(self.lease(), self.hub(), ttl)).await
    }

    /// Releases the lock before the code under it ends, and waits for the store's answer: for a body that needs the
    /// lock for its first steps only. The body continues **without the lock**.
    ///
    /// From then on [`is_held`](Self::is_held) is `false`, [`check`](Self::check) and
    /// [`fencing_token`](Self::fencing_token) fail, and a nested request for the key asks the store like any other.
    /// This is not a loss: the body is not dropped, [`lost`](Self::lost) does not complete, and the result of the body
    /// is returned. The guard releases nothing when it ends.
    ///
    /// Returns [`Released::StillHeld`], and does nothing, while nested calls or [other guards](Self::to_guard) share
    /// the lock: one of them would lose it from under its body. Returns [`Released::Released`] at once for a lock that
    /// was released before, even while the store has not answered that release yet, and for a write lock that became a
    /// read lock, which is still held.
    ///
    /// # Errors
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    /// Dropping the future hands the release to the background.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// let locks = lock_core::LockManager::in_memory();
    /// let other = locks.clone();
    /// let receipt = locks.lock("order:7").run_with(|lock| async move {
    ///     // Take the stock under the lock ..
    ///     lock.release_early().await?;
    ///     // .. and write the receipt while others go on.
    ///     assert!(other.lock("order:7").try_acquire().await?.is_some());
    ///     Ok::<_, lock_core::LockError>("receipt")
    /// });
    /// assert_eq!(receipt.await??, "receipt");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release_early(&self) -> Result<Released> {
        let lease = self.lease();
        if let Some(reason) = lease.loss() {
            return Err(lease.lost_error(reason));
        }
        if !lease.leave_alone() {
            return Ok(if lease.has_ended() { Released::Released } else { Released::StillHeld });
        }
        Releasing::new(Arc::clone(lease)).release().await
    }
}

impl LockHandle {
    /// Returns a guard that holds this lock too: for work that continues after the code under the lock has ended, such
    /// as work after an answer 202, or a websocket. The lock is released when both have ended, this guard and the code;
    /// until then it is renewed.
    ///
    /// Work in another task is not dropped when the lock is lost, unless [`LockGuard::run`] runs it, which also lets
    /// nested calls enter the lock. [`release_early`](Self::release_early) does nothing while the guard is there, and
    /// [`max_hold`](crate::LockRequest::max_hold) counts from the grant. No I/O.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost), also when the lock was released.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// let locks = lock_core::LockManager::in_memory();
    /// let work = locks.lock("report:7").run_with(async |lock: lock_core::LockHandle| {
    ///     let guard = lock.to_guard()?;
    ///     let work = async move {
    ///         guard.run(async { /* build the report */ }).await?;
    ///         guard.release().await
    ///     };
    ///     Ok::<_, lock_core::LockError>(tokio::spawn(work)) // and answer at once
    /// });
    /// let work = work.await??;
    /// assert!(locks.is_locked("report:7").await?);
    /// work.await.expect("it did not panic")?;
    /// assert!(!locks.is_locked("report:7").await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_guard(&self) -> Result<LockGuard> {
        let lease = self.lease();
        lease.check()?;
        if !lease.enter() {
            // The lease has ended in the meantime.
            lease.check()?;
            return Err(LockError::new(LockErrorKind::Lost, "it was given back").with_key(&lease.claim().key));
        }
        Ok(LockGuard::new(Hold::new(Arc::clone(lease)), Arc::clone(self.hub())))
    }
}
