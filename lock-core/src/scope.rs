//! What a task carries along: the locks that it holds, and the manager that it is to use.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Weak};

use crate::engine::Engine;
use crate::error::LockError;
use crate::hold::Hold;
use crate::install;
use crate::key::{IntoKey, Key};
#[cfg(doc)]
use crate::manager::LockManager;

tokio::task_local! {
    static CURRENT: LockScope;
}

/// The locks that the current task holds, and its manager.
///
/// Inside [`run`](crate::LockRequest::run), the attribute and the HTTP layer a task knows which locks it holds, so that
/// a nested call for the same key enters the same grant again without asking the store. A spawned task is another
/// task: it enters the locks of its parent only when it is told to.
///
/// A guard that came from [`acquire`](crate::LockRequest::acquire) can be moved to another task and so is not part of
/// any scope.
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
    manager: Option<Arc<Engine>>,
    innermost: Option<Arc<Entered>>,
}

/// One hold of the task, and those further out.
struct Entered {
    hold: Weak<Hold>,
    outer: Option<Arc<Self>>,
}

impl LockScope {
    /// The scope of the calling task; an empty one outside.
    #[must_use]
    pub fn current() -> Self {
        CURRENT.try_with(Clone::clone).unwrap_or_default()
    }

    /// Runs `future` in this scope, in whatever task it is polled.
    ///
    /// # Cancel safety
    /// As `future`.
    pub fn enter<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, future)
    }

    /// Calls `act` in this scope.
    pub(crate) fn within<R>(&self, act: impl FnOnce() -> R) -> R {
        CURRENT.sync_scope(self.clone(), act)
    }

    pub(crate) fn with_hold(mut self, hold: &Arc<Hold>) -> Self {
        self.innermost = Some(Arc::new(Entered { hold: hold.downgrade(), outer: self.innermost }));
        self
    }

    pub(crate) fn with_manager(mut self, manager: Arc<Engine>) -> Self {
        self.manager = Some(manager);
        self
    }

    pub(crate) fn manager() -> Option<Arc<Engine>> {
        CURRENT.try_with(|scope| scope.manager.clone()).ok().flatten()
    }

    /// The hold of the calling task on `key` of the manager `engine`.
    pub(crate) fn hold(engine: &Arc<Engine>, key: &Key) -> Option<Arc<Hold>> {
        CURRENT.try_with(|scope| scope.find(engine, key)).ok().flatten()
    }

    fn find(&self, engine: &Arc<Engine>, key: &Key) -> Option<Arc<Hold>> {
        let mut next = self.innermost.as_deref();
        while let Some(entered) = next {
            let hold = entered.hold.upgrade();
            if let Some(hold) = hold
                .filter(|hold| Arc::ptr_eq(&hold.engine, engine) && hold.claim.keys().any(|held| held == key))
            {
                return Some(hold);
            }
            next = entered.outer.as_deref();
        }
        None
    }

    /// Whether `key` is held in this scope, and not lost.
    ///
    /// The key is written without its namespace, as for a request. The namespace is that of the scope's manager
    /// ([`LockManager::current`]), whichever manager holds; where there is none, that of the manager that holds.
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
        self.entered(None, &key).any(|hold| hold.is_held())
    }

    /// As [`holds`](Self::holds), of locks of `manager` alone, in its namespace.
    pub(crate) fn holds_in(&self, manager: &Arc<Engine>, key: &Key) -> bool {
        self.entered(Some(manager), key).any(|hold| hold.is_held())
    }

    /// Why a lock of `key` that was held in this scope is not held any more; `None` where there was none.
    pub(crate) fn why_not(&self, manager: Option<&Arc<Engine>>, key: &Key) -> Option<LockError> {
        self.entered(manager, key).find_map(|hold| hold.check().err())
    }

    /// The grants of `key` that were entered in this scope, held yet or not: those of `manager` in its namespace, or of
    /// any in the namespace of the scope's manager.
    fn entered(&self, manager: Option<&Arc<Engine>>, key: &Key) -> impl Iterator<Item = Arc<Hold>> {
        let of = manager.cloned();
        let current = manager.cloned().or_else(|| self.manager.clone()).or_else(|| install::installed().ok());
        self.all().filter(move |hold| {
            let own = &hold.engine.namespace;
            let namespace = current.as_ref().map_or(own, |manager| &manager.namespace);
            let full = key.in_namespace(namespace);
            of.as_ref().is_none_or(|engine| Arc::ptr_eq(engine, &hold.engine))
                && hold.claim.keys().any(|held| *held == full)
        })
    }

    /// The keys that are held in this scope, with their namespaces, the innermost first. A key that was entered again is
    /// named once.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for hold in self.live() {
            for key in hold.claim.keys() {
                if keys.iter().all(|known| known != key.as_str()) {
                    keys.push(key.to_string());
                }
            }
        }
        keys
    }

    fn live(&self) -> impl Iterator<Item = Arc<Hold>> {
        self.all().filter(|hold| hold.is_held())
    }

    fn all(&self) -> impl Iterator<Item = Arc<Hold>> {
        let all = std::iter::successors(self.innermost.as_deref(), |entered| entered.outer.as_deref());
        all.filter_map(|entered| entered.hold.upgrade())
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
