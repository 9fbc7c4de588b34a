//! Provides methods for the code under a lock: extend the lease, release the lock early, or hold the lock longer.

use std::sync::Arc;
use std::time::Duration;

use super::extend::extend;
use super::handle::LockHandle;
use super::release::Releasing;
use crate::backend::Released;
use crate::error::{LockError, LockErrorKind, Result};
use crate::guard::{Hold, LockGuard};

impl LockHandle {
    /// Sets the lease to `ttl`, counted from now, and renews it at once. Use it when the body finds out how long its
    /// work will take, or for a lock without [renewal](crate::LockRequest::renew). A lease is never shortened: if `ttl`
    /// is shorter than the rest of the lease, the current end stays, and later renewals use `ttl`.
    /// [`max_hold`](crate::LockRequest::max_hold) still ends the lock.
    ///
    /// # Errors
    /// As [`LockGuard::extend`]. Also [`Lost`](LockErrorKind::Lost) if the lock was released.
    ///
    /// # Cancel safety
    /// Cancel safe. If the future is dropped, the lease may or may not have been extended.
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

    /// Releases the lock before the code under it ends, and waits for the store's answer. Use it if a body needs the
    /// lock only for its first steps. The body continues **without the lock**.
    ///
    /// After the release, [`is_held`](Self::is_held) is `false`, and [`check`](Self::check) and
    /// [`fencing_token`](Self::fencing_token) fail. A nested request for the key is sent to the store like any other
    /// request. An early release is not a loss: the body is not dropped, [`lost`](Self::lost) does not complete, and
    /// the result of the body is returned. The guard releases nothing when it is dropped.
    ///
    /// While nested calls or [other guards](Self::to_guard) share the lock, this does nothing and returns
    /// [`Released::StillHeld`], because they still need the lock. If the lock was released before, this returns
    /// [`Released::Released`] at once, even if the store has not answered that release yet. On the handle of a write
    /// lock that became a read lock, this also returns [`Released::Released`], although the read lock is still held. As
    /// for [`LockGuard::release`], `Ok` with [`Released::Expired`] or [`Released::Taken`] is a loss that only this request
    /// finds.
    ///
    /// # Errors
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the release continues in the background.
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
    /// Returns another guard that holds this lock. Use it for work that continues after the code under the lock has
    /// ended, such as work after a response with status 202, or a websocket. The lock is renewed until both this guard
    /// and the code have ended, and is then released.
    ///
    /// Run work in another task with [`LockGuard::run`]: only then does a loss of the lock drop the work, and only then
    /// can nested calls enter the lock. While the guard exists, [`release_early`](Self::release_early) does nothing.
    /// [`max_hold`](crate::LockRequest::max_hold) counts from the original grant. This needs no I/O.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost) if the lock is lost, or was released.
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
            // The lease has ended since the first check.
            lease.check()?;
            return Err(LockError::new(LockErrorKind::Lost, "it was given back").with_key(&lease.claim().key));
        }
        Ok(LockGuard::new(Hold::new(Arc::clone(lease)), Arc::clone(self.hub())))
    }
}
