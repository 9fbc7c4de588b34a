//! Counts the free permits of a semaphore.

use super::lock_request::LockRequest;
use crate::backend::Mode;
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::{LockError, LockErrorKind as Kind, Result};

impl LockRequest {
    /// Returns how many permits of the semaphore are free now. The result is for people and for metrics. The result may
    /// be out of date when it arrives, and queued requests are served before new ones. The call sends one request to
    /// the store. The call acquires no permit, and does not join the queue.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) if the kind has no permits, or if the key is in use as another
    /// kind or with another number of permits. [`Unsupported`](LockErrorKind::Unsupported) if the store cannot list its
    /// holders. Otherwise as [`LockManager::inspect`](crate::LockManager::inspect).
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// let locks = lock_core::LockManager::in_memory();
    /// let reports = || locks.semaphore("report", 10);
    /// let large = reports().take(3).acquire().await?;
    /// assert_eq!(reports().available().await?, 7);
    /// large.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn available(self) -> Result<u32> {
        let plan = self.plan()?;
        let (key, mode) = (&plan.key, plan.options.kind.mode());
        let engine = plan.engine();
        engine.check_open()?;
        let Mode::Permit { of } = mode else {
            let detail = format!("a lock of kind {} has no permits; use `semaphore`", plan.options.kind);
            return Err(LockError::new(Kind::InvalidRequest, detail).with_key(key));
        };
        if !engine.capability.lists {
            let detail = format!("the {} store cannot say who holds its locks", engine.capability.store);
            return Err(LockError::new(Kind::Unsupported, detail).with_key(key));
        }
        let found =
            engine.inside(engine.store.backend.inspect_dyn(key)).await.map_err(|error| error.or_key(key))?;
        let Some(info) = found else { return Ok(of) };
        if info.mode != mode {
            let detail = format!("it is in use as {} and was asked for as {}", info.mode.name(), mode.name());
            return Err(LockError::new(Kind::InvalidRequest, detail).with_key(key));
        }
        Ok(of.saturating_sub(u32::try_from(info.holding).unwrap_or(u32::MAX)))
    }
}
