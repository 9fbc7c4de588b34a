//! Checks a lease inside a transaction of the application.

use super::{LockGuard, LockHandle};
use crate::backend::LeaseCheck;
#[cfg(feature = "postgres")]
use crate::backend::postgres::{tokio_postgres, verify};
use crate::error::{LockError, LockErrorKind, Result};
use crate::lease::Lease;

impl LockHandle {
    /// Returns the statement that checks the lease inside a transaction of the application; see [`LeaseCheck`]. Use it
    /// with drivers such as sqlx; with tokio-postgres use `verify_in`. After this call, the lock is not handed off
    /// inside the process, and does not linger.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost) if the lock is lost or released. In that case do not commit the transaction.
    /// [`Unsupported`](LockErrorKind::Unsupported) if the store is not a database.
    pub fn lease_check(&self) -> Result<LeaseCheck> {
        let check = check_of(self.lease())?;
        self.lease().check()?;
        Ok(check)
    }

    /// Checks the lease inside `transaction`, and locks the lease until the end of the transaction. If the lease is
    /// over, the transaction fails. With this check, the protected database itself refuses a holder that has lost its
    /// lock.
    ///
    /// After the check, no other owner gets the key before the transaction has ended, even if the lease ends in the
    /// meantime. So a holder that was stopped for longer than its lease cannot commit. The lock tables must be in the
    /// database of the transaction. Call this method after the last statement that may take long, outside of
    /// savepoints, and commit before you release the guard. At isolation levels above `READ COMMITTED`, call it as the
    /// first statement instead. At those levels, the transaction fails if the lock was granted or renewed after the
    /// transaction's snapshot. In that case the lock is still held, so run the transaction again.
    ///
    /// After this call, the lock is not handed off inside the process, and does not linger. A release is then sent to
    /// the store, because only the store knows whether the transaction is still open.
    ///
    /// After an error the server rolls the transaction back, even if `commit` is called.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost) if the lease is over or the lock was released.
    /// [`Unsupported`](LockErrorKind::Unsupported) if the store is not Postgres.
    /// [`Unavailable`](LockErrorKind::Unavailable) if the statement failed. An outdated snapshot can be the cause; that
    /// error is temporary.
    ///
    /// # Cancel safety
    /// If the future is dropped, the statement may or may not have been executed, so roll the transaction back.
    ///
    /// # Examples
    /// ```no_run
    /// # use lock_core::backend::postgres::tokio_postgres;
    /// # async fn pay(locks: lock_core::LockManager, client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = locks.lock("order:42").acquire().await?;
    /// let mut transaction = client.transaction().await?;
    /// transaction.execute("UPDATE orders SET paid = true WHERE id = 42", &[]).await?;
    /// guard.verify_in(&mut transaction).await?;
    /// transaction.commit().await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "postgres")]
    #[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
    pub async fn verify_in(&self, transaction: &mut tokio_postgres::Transaction<'_>) -> Result<()> {
        verify_in(self.lease(), transaction).await
    }
}

impl LockGuard {
    /// Returns the same as [`LockHandle::lease_check`].
    ///
    /// # Errors
    /// As [`LockHandle::lease_check`].
    pub fn lease_check(&self) -> Result<LeaseCheck> {
        self.handle().lease_check()
    }

    /// Checks the lease like [`LockHandle::verify_in`].
    ///
    /// # Errors
    /// As [`LockHandle::verify_in`].
    ///
    /// # Cancel safety
    /// As [`LockHandle::verify_in`].
    #[cfg(feature = "postgres")]
    #[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
    pub async fn verify_in(&self, transaction: &mut tokio_postgres::Transaction<'_>) -> Result<()> {
        verify_in(self.lease(), transaction).await
    }
}

/// Returns the statement that checks a lease. The caller must then check that the lease has not ended.
fn check_of(lease: &Lease) -> Result<LeaseCheck> {
    let check = lease.engine.store.backend.lease_check_dyn(lease.claim()).ok_or_else(|| {
        let detail = format!(
            "the {} store is in no database, so no transaction can check a lease; compare the fencing token there",
            lease.engine.capability.store
        );
        LockError::new(LockErrorKind::Unsupported, detail).with_key(&lease.claim().key)
    })?;
    lease.note_verified();
    Ok(check)
}

#[cfg(feature = "postgres")]
async fn verify_in(lease: &Lease, transaction: &mut tokio_postgres::Transaction<'_>) -> Result<()> {
    let check = check_of(lease)?;
    let local = lease.check();
    // If the lease has ended by the local clock, it may still be alive at the server. The transaction must fail all the
    // same, and also if the application ignores the error of this function.
    let verified = verify(transaction, &check, local.is_ok()).await;
    local?;
    verified.map_err(|error| {
        if let Some(reason) = error.loss_reason() {
            lease.lose(reason);
        }
        error.with_key(&lease.claim().key)
    })
}
