//! Lists the held locks and their holders, for operators.

use crate::backend::{GrantId, Listed, LockInfo};
use crate::error::Result;
#[cfg(doc)]
use crate::error::{LockErrorKind, LossReason};
use crate::key::IntoKey;
use crate::manager::LockManager;

/// The maximum number of locks in one list.
const LIMIT: usize = 10_000;

impl LockManager {
    /// Lists every lock in this manager's namespace, including the locks of other processes. The list shows the holders
    /// and waiters of each lock, and how long each holder's lease still lasts. It has at most 10,000 locks;
    /// [`Listed::truncated`] is set if there are more.
    ///
    /// If the manager has a namespace, the list also contains the locks of other client libraries in that namespace;
    /// these locks have no owner record. If the manager has no namespace, the list contains all locks of this library
    /// in the store. The list may be out of date when it arrives, so use it to inform people, not for decisions. Redis
    /// scans all of its keys for the list, in steps, and serves other clients between two steps.
    ///
    /// # Errors
    /// [`Unsupported`](LockErrorKind::Unsupported) if the store cannot list locks,
    /// [`Unavailable`](LockErrorKind::Unavailable) if it does not answer.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::LockManager;
    ///
    /// let locks = LockManager::in_memory();
    /// let guard = locks.lock("import").label("nightly").acquire().await?;
    /// for lock in locks.locks().await?.locks {
    ///     let holder = lock.holders[0].record.as_ref().map(ToString::to_string);
    ///     println!("{} is held by {}", lock.key, holder.as_deref().unwrap_or("another program"));
    /// }
    /// # guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn locks(&self) -> Result<Listed> {
        self.locks_matching("").await
    }

    /// Lists locks like [`locks`](Self::locks), but only those whose keys, without the namespace, begin with `prefix`.
    ///
    /// # Errors
    /// As [`locks`](Self::locks).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn locks_matching(&self, prefix: &str) -> Result<Listed> {
        let engine = self.engine();
        engine.check_open()?;
        let namespaced = !engine.namespace.is_empty();
        let prefix = if namespaced { format!("{}:{prefix}", engine.namespace) } else { prefix.to_owned() };
        let mut listed = engine.inside(engine.store.backend.list_dyn(&prefix, namespaced, LIMIT)).await?;
        listed.locks.iter_mut().for_each(|lock| strip(lock, &engine.namespace));
        Ok(listed)
    }

    /// Returns the holders and the waiters of `key`, as in [`locks`](Self::locks). Returns `None` if the key has no
    /// holder. This costs one request, regardless of the number of keys in the store. The result is for people and for
    /// metrics. It may be out of date when it arrives, so it does not replace a request for the lock.
    ///
    /// The result includes holders that use another library, without an owner record.
    ///
    /// # Errors
    /// As [`locks`](Self::locks), and [`InvalidKey`](LockErrorKind::InvalidKey).
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) if the store has data under this key that are not a lock.
    /// Every lock request for that key then fails too.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::LockManager;
    ///
    /// let locks = LockManager::in_memory();
    /// assert!(locks.inspect("import").await?.is_none());
    /// let guard = locks.lock("import").label("nightly").acquire().await?;
    /// let lock = locks.inspect("import").await?.expect("it is held");
    /// let record = lock.holders[0].record.as_ref().expect("this library took it");
    /// assert_eq!((record.label(), lock.holding, lock.waiting), (Some("nightly"), 1, 0));
    /// let holder = record.identity();
    /// println!("process {} on {} holds it", holder.pid(), holder.host());
    /// assert_eq!(holder.pid(), std::process::id());
    /// # guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn inspect(&self, key: impl IntoKey) -> Result<Option<LockInfo>> {
        let engine = self.engine();
        engine.check_open()?;
        let key = key.into_key()?.in_namespace(&engine.namespace);
        let mut found = engine.inside(engine.store.backend.inspect_dyn(&key)).await?;
        found.iter_mut().for_each(|lock| strip(lock, &engine.namespace));
        Ok(found)
    }

    /// Returns whether `key` is held. Readers, holders of a permit and clients of other libraries count as holders. A
    /// key that is [kept](crate::LockRequest::min_hold) after its release counts as held. As with
    /// [`inspect`](Self::inspect), the answer may be out of date when it arrives, so it does not replace a request for
    /// the lock.
    ///
    /// # Errors
    /// As [`inspect`](Self::inspect).
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let guard = locks.lock("import").acquire().await?;
    /// assert!(locks.is_locked("import").await?);
    /// guard.release().await?;
    /// assert!(!locks.is_locked("import").await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn is_locked(&self, key: impl IntoKey) -> Result<bool> {
        Ok(self.inspect(key).await?.is_some())
    }

    /// Removes one grant of `key` from its holder, and serves the next waiter. Returns whether the grant still existed.
    /// `id` is the id of a holder in [`locks`](Self::locks). If the key has a new grant by now, that grant stays. If
    /// the holder has handed its grant off to another task of its process, the other task loses the lock. The log
    /// records the call with `reason`.
    ///
    /// Write `key` without the manager's namespace, as in a request and as in the result of [`locks`](Self::locks).
    ///
    /// The store notifies every process that holds locks, so the holder's lock is [lost](LossReason::Forced) at once.
    /// If the holder's connection is broken or only a few milliseconds old, the notification may not arrive. In that
    /// case the holder notices the loss at its next renewal, up to a third of its ttl later, with the reason
    /// [`Taken`](LossReason::Taken). Until then two holders may work at the same time, so the protected resource should
    /// compare [fencing tokens](crate::LockGuard::fencing_token). A client of another library is not notified.
    ///
    /// # Errors
    /// As [`locks`](Self::locks), and [`InvalidKey`](LockErrorKind::InvalidKey).
    ///
    /// # Cancel safety
    /// If the future is dropped, the grant may or may not be removed.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// # let locks = lock_core::LockManager::in_memory();
    /// let stuck = locks.lock("import").acquire().await?;
    /// let id = locks.locks().await?.locks[0].holders[0].id.clone();
    /// assert!(locks.force_release("import", &id, "stuck since yesterday").await?);
    /// assert!(stuck.check().unwrap_err().is_lost());
    /// assert!(!locks.force_release("import", &id, "again").await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn force_release(&self, key: impl IntoKey, id: &GrantId, reason: &str) -> Result<bool> {
        let engine = self.engine();
        engine.check_open()?;
        let key = key.into_key()?.in_namespace(&engine.namespace);
        let done = engine.inside(engine.store.backend.force_release_dyn(&key, id)).await?;
        if done {
            let shown = engine.observer.redact_key(&key, None);
            tracing::warn!(lock.key = %shown, lock.grant = %id, reason, "a lock was taken from its holder by force");
        }
        Ok(done)
    }
}

/// Removes the namespace from the key, so that the key is written as in a request.
fn strip(lock: &mut LockInfo, namespace: &str) {
    if !namespace.is_empty()
        && let Some(key) = lock.key.strip_prefix(namespace).and_then(|key| key.strip_prefix(':'))
    {
        lock.key = key.to_owned();
    }
}
