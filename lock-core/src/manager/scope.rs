//! The manager of a task, and the locks that the task holds.

use std::future::Future;
use std::sync::Arc;

use super::default::installed;
use super::manager::LockManager;
use crate::error::LockError;
use crate::guard::{LockHandle, LockScope};
use crate::key::{IntoKey, Key};
use crate::lease::Lease;

impl LockManager {
    /// Runs `future` with this manager as the [`current`](Self::current) one: for tests that must not share locks, and
    /// for tenants. A task that the future spawns is outside of it, unless it enters [`LockScope::current`].
    ///
    /// # Cancel safety
    /// As `future`.
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        let manager = Arc::clone(self.hub());
        // The scope is read in the task that polls: a task that was spawned with this has none of its parent's locks.
        async move { LockScope::current().with_manager(manager).enter(future).await }
    }
}

impl LockScope {
    /// Returns whether `key` is held in this scope, and not lost.
    ///
    /// The key is written without its namespace, as in a request. The namespace is that of the scope's manager
    /// ([`LockManager::current`]), whatever manager made the lock. Without a manager in the scope, it is that of the
    /// lock's manager.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::{LockManager, LockScope};
    ///
    /// let body = async { LockScope::current().holds("order:42") };
    /// assert!(LockManager::in_memory().lock("order:42").run(body).await?);
    /// assert!(!LockScope::current().holds("order:42"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn holds(&self, key: impl IntoKey) -> bool {
        let Ok(key) = key.into_key() else { return false };
        self.grants_of(None, &key).any(|lease| lease.is_held())
    }

    /// Like [`holds`](Self::holds), for locks of `manager` only, in its namespace.
    #[must_use]
    pub fn holds_of(&self, manager: &LockManager, key: impl IntoKey) -> bool {
        let Ok(key) = key.into_key() else { return false };
        self.grants_of(Some(manager), &key).any(|lease| lease.is_held())
    }

    /// Returns why a lock of `key` that was held in this scope is no longer held; `None` if there was none.
    pub(super) fn why_not(&self, manager: Option<&LockManager>, key: &Key) -> Option<LockError> {
        self.grants_of(manager, key).find_map(|lease| lease.check().err())
    }

    /// Returns the leases of `key` that were entered in this scope, held or not: of `manager` in its namespace, or of
    /// any manager in the namespace of the scope's manager.
    fn grants_of(&self, manager: Option<&LockManager>, key: &Key) -> impl Iterator<Item = Arc<Lease>> {
        let current = || self.manager().cloned().or_else(|| installed().ok());
        let current = manager.map_or_else(current, |manager| Some(Arc::clone(manager.hub())));
        self.entered(manager.map(LockManager::engine), current, key)
    }
}

impl LockHandle {
    /// Returns the manager of the lock, and the template that it is counted under. For extractors.
    #[must_use]
    pub fn origin(&self) -> (LockManager, Option<&str>) {
        (LockManager::from_hub(Arc::clone(self.hub())), self.lease().template())
    }
}
