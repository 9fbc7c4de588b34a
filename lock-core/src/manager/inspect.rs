//! Shows operators which locks are held, and by which holders.

use crate::backend::{GrantId, Listed, LockInfo};
use crate::error::Result;
#[cfg(doc)]
use crate::error::{LockErrorKind, LossReason};
use crate::key::IntoKey;
use crate::manager::LockManager;

/// The maximum number of locks in one list.
const LIMIT: usize = 10_000;

impl LockManager {
    /// Lists every lock in this manager's namespace, including the locks of other processes. Each lock has its holders,
    /// the rest of their leases, and its waiters. The list has at most 10,000 locks; [`Listed::truncated`] says whether
    /// there are more.
    ///
    /// With a namespace, the list also contains locks of other client libraries in that namespace, without a record. A
    /// manager without a namespace sees all locks of the store that this library made. The list is for people, not for
    /// decisions, because it may be out of date when it arrives. Redis scans all of its keys for the list. It does so
    /// in steps, and serves other clients in between.
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

    /// Lists locks like [`locks`](Self::locks), limited to keys that begin with `prefix` after the namespace.
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
        let mut listed = engine.inside(engine.store.list(&prefix, namespaced, LIMIT)).await?;
        listed.locks.iter_mut().for_each(|lock| strip(lock, &engine.namespace));
        Ok(listed)
    }

    /// Returns the holders and the waiters of `key`, as in [`locks`](Self::locks). Returns `None` if the key has no
    /// holder. This costs one request, however many keys the store has. The result is for people and for metrics. It
    /// may be out of date when it arrives, so it does not replace a request for the lock.
    ///
    /// A holder that uses another library is included, without a record.
    ///
    /// # Errors
    /// As [`locks`](Self::locks), and [`InvalidKey`](LockErrorKind::InvalidKey).
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) if the key holds data that are not a lock. Every request for
    /// that key is then refused too.
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
    /// # guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn inspect(&self, key: impl IntoKey) -> Result<Option<LockInfo>> {
        let engine = self.engine();
        engine.check_open()?;
        let key = key.into_key()?.in_namespace(&engine.namespace);
        let mut found = engine.inside(engine.store.inspect(&key)).await?;
        found.iter_mut().for_each(|lock| strip(lock, &engine.namespace));
        Ok(found)
    }

    /// Returns whether `key` is held. Readers, holders of a permit and clients of other libraries count as holders. A
    /// key that is [kept](crate::LockRequest::min_hold) counts as held. As with [`inspect`](Self::inspect), the answer
    /// may be out of date when it arrives, and does not replace a lock.
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
    /// `id` is the id of a holder in [`locks`](Self::locks). A later holder is not affected, with one exception: a task
    /// in the same process to which the grant was handed off. The log records the call with `reason`.
    ///
    /// Write `key` as in a request, and as [`locks`](Self::locks) shows it: without the manager's namespace.
    ///
    /// The holder's lock is [lost](LossReason::Forced) at once, because every process that holds locks is notified.
    /// This message may not arrive, if the connection of the holder is broken or only a few milliseconds old. In that
    /// case the lock is lost at its next renewal, as [`Taken`](LossReason::Taken), up to a third of its ttl later.
    /// Until then two holders may work, so the protected resource should compare [fencing
    /// tokens](crate::LockGuard::fencing_token).
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
        let done = engine.inside(engine.store.force_release(&key, id)).await?;
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
