//! Sets the manager of a task, and checks the locks that a task holds.

use std::future::Future;
use std::sync::Arc;

use super::default::installed;
use super::manager::LockManager;
use crate::error::LockError;
use crate::guard::{LockHandle, LockScope};
use crate::key::{IntoKey, Key};
use crate::lease::Lease;

impl LockManager {
    /// Runs `future` with this manager as the [`current`](Self::current) one. This is useful for tests that must not
    /// share locks, and for programs with a manager per tenant. A task that the future spawns is outside of this scope.
    /// To keep the scope, wrap the spawned future in [`LockScope::enter`].
    ///
    /// # Cancel safety
    /// As cancel safe as `future`.
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        let manager = Arc::clone(self.hub());
        // Read the scope inside the future, because another task may poll the future. A spawned task has none of the
        // locks of its parent.
        async move { LockScope::current().with_manager(manager).enter(future).await }
    }
}

impl LockScope {
    /// Returns whether `key` is held in this scope. A lost lock does not count as held.
    ///
    /// Write the key without its namespace, as in a request. The namespace of the scope's manager
    /// ([`LockManager::current`]) is added to the key, even if another manager made the lock. If the scope has no
    /// manager, the namespace of the lock's manager is added.
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

    /// Returns the same as [`holds`](Self::holds), but considers only the locks of `manager`, and adds its namespace to
    /// `key`.
    #[must_use]
    pub fn holds_of(&self, manager: &LockManager, key: impl IntoKey) -> bool {
        let Ok(key) = key.into_key() else { return false };
        self.grants_of(Some(manager), &key).any(|lease| lease.is_held())
    }

    /// Returns why a lock of `key` is no longer held in this scope. Returns `None` if no such lock existed.
    pub(super) fn why_not(&self, manager: Option<&LockManager>, key: &Key) -> Option<LockError> {
        self.grants_of(manager, key).find_map(|lease| lease.check().err())
    }

    /// Returns the leases of `key` that were entered in this scope, whether or not they are still held. With a
    /// `manager`, these are only its leases, and its namespace is added to `key`. Without a `manager`, these are the
    /// leases of every manager; the namespace of the scope's manager, or else of the installed one, is added to `key`.
    fn grants_of(&self, manager: Option<&LockManager>, key: &Key) -> impl Iterator<Item = Arc<Lease>> {
        let current = || self.manager().cloned().or_else(|| installed().ok());
        let current = manager.map_or_else(current, |manager| Some(Arc::clone(manager.hub())));
        self.entered(manager.map(LockManager::engine), current, key)
    }
}

impl LockHandle {
    /// Returns the manager of the lock, and the template under which metrics count the lock. Extractors of the HTTP
    /// layer use this.
    #[must_use]
    pub fn origin(&self) -> (LockManager, Option<&str>) {
        (LockManager::from_hub(Arc::clone(self.hub())), self.lease().template())
    }
}
