//! Who holds what: for operators, and for those who ask why nothing moves.

use crate::backend::{GrantId, Listed, LockInfo};
use crate::error::Result;
#[cfg(doc)]
use crate::error::{LockErrorKind, LossReason};
use crate::key::IntoKey;
use crate::manager::LockManager;

/// More than anybody reads.
const LIMIT: usize = 10_000;

impl LockManager {
    /// Every lock of this manager's namespace in the store, whoever holds it: holders, what is left of their leases, and
    /// who waits. At most 10,000; [`Listed::truncated`] says that there are more.
    ///
    /// With a namespace, what clients of other libraries have locked in it is there too, without a record. A manager
    /// without one sees all locks of the store that this library made. For people, not for decisions: by the time it is
    /// read it may have changed. Redis goes through all of its keys for it, in steps that let others in between.
    ///
    /// # Errors
    /// [`Unsupported`](LockErrorKind::Unsupported) on a store that cannot say, [`Unavailable`](LockErrorKind::Unavailable)
    /// when it does not answer.
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

    /// As [`locks`](Self::locks), of the keys that begin with `prefix`, behind the namespace.
    ///
    /// # Errors
    /// As [`locks`](Self::locks).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn locks_matching(&self, prefix: &str) -> Result<Listed> {
        let engine = self.engine();
        engine.check_open()?;
        engine.check_process()?;
        let namespaced = !engine.namespace.is_empty();
        let prefix = if namespaced { format!("{}:{prefix}", engine.namespace) } else { prefix.to_owned() };
        let mut listed = engine.store.list(&prefix, namespaced, LIMIT).await?;
        listed.locks.iter_mut().for_each(|lock| strip(lock, &engine.namespace));
        Ok(listed)
    }

    /// Who holds `key` and who waits for it, as [`locks`](Self::locks) tells it; `None` when nobody holds it. One question
    /// to the store, however many keys that has. For people and for metrics: by the time it is read it may have changed, so
    /// whoever wants the lock asks for it.
    ///
    /// A holder of another library is told too, without a record.
    ///
    /// # Errors
    /// As [`locks`](Self::locks), and [`InvalidKey`](LockErrorKind::InvalidKey).
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
        engine.check_process()?;
        let key = key.into_key()?.in_namespace(&engine.namespace);
        let mut found = engine.store.inspect(&key).await?;
        found.iter_mut().for_each(|lock| strip(lock, &engine.namespace));
        Ok(found)
    }

    /// Whether anybody holds `key`: readers, holders of a permit, clients of another library and a key that is
    /// [kept](crate::LockRequest::min_hold) included. As [`inspect`](Self::inspect): the answer may be out of date when it
    /// arrives, and is no lock.
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

    /// Takes one grant of `key` away from its holder, and serves the next who waits; whether it was still there. `id` is
    /// that of the holder which [`locks`](Self::locks) showed: one that came later is not hit, but for a task of the same
    /// process to which the grant was passed on since. The log says so with `reason`.
    ///
    /// `key` is written as for a request, and as [`locks`](Self::locks) shows it: without the manager's namespace.
    ///
    /// The victim's lock is [lost](LossReason::Forced) at once: every process that holds is told. Where that message does not
    /// arrive (its connection broke, or is a few milliseconds old), the lock is lost at its next renewal, as
    /// [`Taken`](LossReason::Taken): up to a third of its ttl later. Until then two may be at work. What the lock protects
    /// should compare [fencing tokens](crate::LockGuard::fencing_token).
    ///
    /// # Errors
    /// As [`locks`](Self::locks), and [`InvalidKey`](LockErrorKind::InvalidKey).
    ///
    /// # Cancel safety
    /// Dropping the future takes it away or not.
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
        engine.check_process()?;
        let key = key.into_key()?.in_namespace(&engine.namespace);
        let done = engine.store.force_release(&key, id).await?;
        if done {
            let shown = engine.observer.redact_key(&key, None);
            tracing::warn!(lock.key = %shown, lock.grant = %id, reason, "a lock was taken from its holder by force");
        }
        Ok(done)
    }
}

/// Names the key as it is written in a request: without the namespace.
fn strip(lock: &mut LockInfo, namespace: &str) {
    if !namespace.is_empty()
        && let Some(key) = lock.key.strip_prefix(namespace).and_then(|key| key.strip_prefix(':'))
    {
        lock.key = key.to_owned();
    }
}
