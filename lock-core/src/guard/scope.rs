//! Tracks the locks that a task holds, and the manager that the task uses.
//!
//! Re-entrancy depends on a scope and not on a task id, because a guard can move to another task, but a body cannot. So
//! only code inside `run`, the attribute or the HTTP layer can enter a lock again.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Weak};

use crate::engine::Engine;
use crate::hub::Hub;
use crate::key::Key;
use crate::lease::Lease;

tokio::task_local! {
    static CURRENT: LockScope;
}

/// The locks that the current task holds, and its manager.
///
/// Inside [`run`](crate::LockRequest::run), the attribute and the HTTP layer, the scope contains the locks that the
/// task holds. A nested call for the same key then enters the existing grant without a request to the store. A spawned
/// task does not inherit the scope. It enters the locks of its parent only if it runs in the parent's scope, by
/// [`enter`](Self::enter).
///
/// A guard from [`acquire`](crate::LockRequest::acquire) can be moved to another task, so it is not part of any scope.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// use lock_core::{LockManager, LockScope};
///
/// let locks = LockManager::in_memory();
/// let part = locks.clone();
/// locks
///     .lock("import:7")
///     .run(async {
///         let scope = LockScope::current();
///         let worker = tokio::spawn(scope.enter(async move { part.lock("import:7").run(async { 42 }).await }));
///         assert_eq!(worker.await.unwrap().unwrap(), 42);
///     })
///     .await
/// # }
/// ```
#[derive(Clone, Default)]
pub struct LockScope {
    manager: Option<Arc<Hub>>,
    innermost: Option<Arc<Entered>>,
}

/// A lease that the task has entered, linked to the leases that the task had entered before.
struct Entered {
    lease: Weak<Lease>,
    outer: Option<Arc<Self>>,
}

impl LockScope {
    /// Returns the scope of the calling task. If the task has no scope, returns an empty one.
    #[must_use]
    pub fn current() -> Self {
        CURRENT.try_with(Clone::clone).unwrap_or_default()
    }

    /// Runs `future` in this scope, regardless of the task that polls the future.
    ///
    /// # Cancel safety
    /// As cancel safe as `future`.
    pub fn enter<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, future)
    }

    pub(crate) fn within<R>(&self, act: impl FnOnce() -> R) -> R {
        CURRENT.sync_scope(self.clone(), act)
    }

    pub(crate) fn with_lease(mut self, lease: &Arc<Lease>) -> Self {
        self.innermost = Some(Arc::new(Entered { lease: Arc::downgrade(lease), outer: self.innermost }));
        self
    }

    pub(crate) fn with_manager(mut self, manager: Arc<Hub>) -> Self {
        self.manager = Some(manager);
        self
    }

    pub(crate) fn manager(&self) -> Option<&Arc<Hub>> {
        self.manager.as_ref()
    }

    /// Returns the lease of `key` that the calling task has entered, if the lease belongs to the manager of `engine`.
    pub(crate) fn lease_of(engine: &Arc<Engine>, key: &Key) -> Option<Arc<Lease>> {
        let is_it = |lease: &Arc<Lease>| {
            Arc::ptr_eq(&lease.engine, engine) && lease.claim().keys().any(|held| held == key)
        };
        CURRENT.try_with(|scope| scope.leases().find(is_it)).ok().flatten()
    }

    /// Returns the leases of `key` that were entered in this scope, whether or not they are still held. If `manager` is
    /// given, returns only its leases. The namespace of `current` is added to the key. If `current` is `None`, the
    /// namespace of the lease's manager is added.
    pub(crate) fn entered(
        &self,
        manager: Option<&Arc<Engine>>,
        current: Option<Arc<Hub>>,
        key: &Key,
    ) -> impl Iterator<Item = Arc<Lease>> {
        self.leases().filter(move |lease| {
            let full = key.in_namespace(&current.as_ref().map_or(&lease.engine, |hub| &hub.engine).namespace);
            manager.is_none_or(|engine| Arc::ptr_eq(engine, &lease.engine))
                && lease.claim().keys().any(|held| *held == full)
        })
    }

    /// Returns the keys that are held in this scope, with their namespaces. The key that was entered last comes first.
    /// A key that was entered several times is listed once.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for lease in self.live() {
            for key in lease.claim().keys() {
                if keys.iter().all(|known| known != key.as_str()) {
                    keys.push(key.to_string());
                }
            }
        }
        keys
    }

    fn live(&self) -> impl Iterator<Item = Arc<Lease>> {
        self.leases().filter(|lease| lease.is_held())
    }

    fn leases(&self) -> impl Iterator<Item = Arc<Lease>> {
        let all = std::iter::successors(self.innermost.as_deref(), |entered| entered.outer.as_deref());
        all.filter_map(|entered| entered.lease.upgrade())
    }

    fn depth(&self) -> usize {
        std::iter::successors(self.innermost.as_deref(), |entered| entered.outer.as_deref()).count()
    }
}

impl fmt::Debug for LockScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let manager = self.manager.is_some();
        f.debug_struct("LockScope").field("manager", &manager).field("holds", &self.depth()).finish()
    }
}
