//! Defines [`DetachedLock`], a lock that outlives its process.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::{self, Plan};
use crate::backend::{Claim, FencingToken, LeaseScope, Mode, Released, Renewal};
use crate::clock;
use crate::error::{LockError, LockErrorKind, LossReason, Result};
use crate::guard::LockGuard;
use crate::hub::Hub;
use crate::key::IntoKey;
use crate::kind::Kind;
use crate::manager::LockManager;
use crate::owner::{Owner, OwnerRecord, OwnerToken};
use crate::request::LockRequest;

/// A lock that does not belong to a process. Every process that has its [token](Self::token) can renew and release the
/// lock, for example each step of a script. The lock is not renewed automatically, and ends when its ttl is over.
/// Dropping this value does not release the lock.
///
/// A loss is not reported. After the ttl, another owner may hold the key, so the protected resource should refuse an
/// old [`fencing_token`](Self::fencing_token). Metrics and events report the grant, but not its renewals and its end.
/// If only one process does the work, use a [`LockGuard`] instead.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// use std::time::Duration;
///
/// let locks = lock_core::LockManager::in_memory();
/// let lock = locks.lock("import").ttl(Duration::from_secs(600)).acquire_detached().await?;
/// let token = lock.token();
/// // Later, in another process:
/// let lock = locks.detached("import", token.as_str())?;
/// lock.renew(Duration::from_secs(600)).await?;
/// lock.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing releases a detached lock but `release` and the end of its ttl"]
pub struct DetachedLock {
    hub: Arc<Hub>,
    claim: Claim,
}

impl DetachedLock {
    /// Returns the key, with its namespace.
    #[must_use]
    pub fn key(&self) -> &str {
        self.claim.key.as_str()
    }

    /// Returns the token for [`LockManager::detached`]. The token is a secret, because a process that has it can
    /// release the lock.
    #[must_use]
    pub fn token(&self) -> OwnerToken {
        self.claim.owner.token()
    }

    /// Returns the fencing token of this grant, which is the same in every process.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost) if the lock has ended. [`Unavailable`](LockErrorKind::Unavailable) if the store
    /// does not answer. [`Unsupported`](LockErrorKind::Unsupported) on a store without fencing tokens.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn fencing_token(&self) -> Result<FencingToken> {
        let engine = &self.hub.engine;
        engine.inside(engine.store.fence(&self.claim)).await.map_err(|error| error.or_key(&self.claim.key))
    }

    /// Extends the lease to `ttl` from now, and returns how long the lock is certainly held. A lease that already lasts
    /// longer is not shortened. On etcd, such a lease restarts with its full length.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost) if the lock has ended. [`InvalidRequest`](LockErrorKind::InvalidRequest) if the
    /// store does not support such a ttl. [`Unavailable`](LockErrorKind::Unavailable) if the store does not answer.
    /// [`ShuttingDown`](LockErrorKind::ShuttingDown) after the shutdown of the manager.
    ///
    /// # Cancel safety
    /// Cancel safe. If the future is dropped, the lease may or may not be renewed.
    pub async fn renew(&self, ttl: Duration) -> Result<Duration> {
        let (engine, key) = (&self.hub.engine, &self.claim.key);
        engine.check_open()?;
        engine.capability.check_ttl(ttl).map_err(|error| error.with_key(key))?;
        match engine.inside(async { Ok(engine.store.renew_one(&self.claim, ttl).await) }).await? {
            Renewal::Renewed { sent, lease, .. } => {
                let certain = lease.saturating_sub(engine.capability.placement.drift(lease));
                Ok(certain.saturating_sub(engine.clock.now().since(sent)))
            }
            Renewal::NotOwned => {
                let detail = "it has ended: it was released, or its ttl was over before this renewal";
                let lost = LockError::new(LockErrorKind::Lost, detail).with_loss(LossReason::Expired);
                Err(lost.with_key(key))
            }
            Renewal::Unknown(error) => Err(error.or_key(key)),
        }
    }

    /// Releases the lock. [`Expired`](Released::Expired) and [`Taken`](Released::Taken) mean that the lock had already
    /// ended, because its ttl was over, or because of an earlier release whose answer was lost.
    ///
    /// # Errors
    /// [`Unavailable`](LockErrorKind::Unavailable) if the store does not answer. The lock may or may not be released,
    /// so release it again by its token.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lock may or may not be released.
    pub async fn release(self) -> Result<Released> {
        let engine = &self.hub.engine;
        engine.inside(engine.release(&self.claim, None)).await.map_err(|error| error.or_key(&self.claim.key))
    }
}

impl fmt::Debug for DetachedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.hub.engine.observer.redact_key(&self.claim.key, None);
        f.debug_struct("DetachedLock").field("key", &key.to_string()).finish_non_exhaustive()
    }
}

impl LockRequest {
    /// Acquires a lock that [outlives this process](DetachedLock). The lock is held for its ttl, or until a process
    /// that has its token releases it. The lock is not renewed, and a nested call cannot enter it. If the store keeps
    /// an order of arrival, the request waits in that order, like a [`write`](LockManager::write) lock. So an attempt
    /// is refused while other requests wait.
    ///
    /// # Errors
    /// The errors of [`acquire`](Self::acquire). [`Unsupported`](LockErrorKind::Unsupported) on ZooKeeper, and on
    /// Postgres with `mode=advisory`, because their locks end with the session of the process. Also
    /// [`Unsupported`](LockErrorKind::Unsupported) for several keys, readers and semaphores.
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) with `min_hold`, `max_hold` or `linger`, which need a guard.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_detached(self) -> Result<DetachedLock> {
        let mut plan = self.renew(false).reentrant(false).plan()?;
        check(&plan).map_err(|error| error.with_key(&plan.key))?;
        if plan.options.kind.hands_off() {
            // `Write` excludes the same locks, but is never handed off. Otherwise waiters of this process would wait
            // for a hand-off that never happens.
            plan.resolved.options.kind = Kind::Write;
        }
        acquire::acquire(Ok(plan)).await?.detach()
    }
}

impl LockManager {
    /// Returns the detached lock of `key` with this [token](DetachedLock::token), without a request to the store.
    ///
    /// # Errors
    /// [`InvalidKey`](LockErrorKind::InvalidKey) if the key is invalid.
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) if `token` is not a token.
    /// [`Unsupported`](LockErrorKind::Unsupported) as in [`LockRequest::acquire_detached`].
    pub fn detached(&self, key: impl IntoKey, token: &str) -> Result<DetachedLock> {
        let (hub, engine) = (Arc::clone(self.hub()), self.engine());
        engine.check_open()?;
        check_store(engine.capability.lease, engine.capability.store)?;
        let key = key.into_key()?.in_namespace(&engine.namespace);
        let Some(owner) = Owner::from_token(token) else {
            let detail = "the token of a detached lock is 48 lower-case hexadecimal digits";
            return Err(LockError::new(LockErrorKind::InvalidRequest, detail).with_key(&key));
        };
        let record = OwnerRecord::since(clock::wall(), Arc::clone(&engine.identity), None);
        Ok(DetachedLock { hub, claim: Claim::new(key, owner, engine.profiles.defaults.ttl(), record) })
    }
}

impl LockGuard {
    /// Ends this guard without a release, and returns the detached lock.
    fn detach(self) -> Result<DetachedLock> {
        let (hub, hold) = self.into_parts();
        hold.lease().check()?;
        let claim = hold.lease().claim().clone();
        if claim.is_resent() {
            // The request was sent twice, and the store may execute the second copy after a release. Only this process
            // could then repeat the release.
            let detail =
                "the connection was lost while the lock was acquired, and it is given back: acquire it again";
            return Err(LockError::new(LockErrorKind::Unavailable, detail).with_key(&claim.key));
        }
        hold.detach();
        Ok(DetachedLock { hub, claim })
    }
}

fn check(plan: &Plan) -> Result<()> {
    let (store, options) = (&plan.engine().capability, &plan.options);
    check_store(store.lease, store.store)?;
    if options.kind.mode() != Mode::Exclusive || !plan.more.is_empty() {
        let detail = "only a lock of one key with one holder outlives its process";
        return Err(LockError::new(LockErrorKind::Unsupported, detail));
    }
    let of_guards =
        [("min_hold", options.min_hold), ("max_hold", options.max_hold), ("linger", options.linger)];
    match of_guards.into_iter().find(|(_, time)| time.is_some()) {
        None => Ok(()),
        Some((option, _)) => {
            let detail = format!(
                "{option} is for a lock that a guard holds, and a detached lock has none: leave it out"
            );
            Err(LockError::new(LockErrorKind::InvalidRequest, detail))
        }
    }
}

/// Refuses a store whose locks end with the session of the process.
fn check_store(lease: LeaseScope, store: &str) -> Result<()> {
    if lease == LeaseScope::Grant {
        return Ok(());
    }
    let detail = format!(
        "a lock of the {store} store ends with the session of the process that acquired it: keep that process, and a \
         `LockGuard`"
    );
    Err(LockError::new(LockErrorKind::Unsupported, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_detached_lock_ends_by_its_token_or_its_ttl_alone() {
        const TTL: Duration = Duration::from_secs(10);
        let locks = LockManager::in_memory();
        let take = || locks.lock("k").ttl(TTL).acquire_detached();
        let is_free = || async { locks.lock("k").try_acquire().await.expect("an answer").is_some() };
        let token = take().await.expect("it is free").token();
        assert_eq!(locks.held(), 0, "no guard of this process holds it");
        tokio::time::advance(TTL - Duration::from_secs(1)).await;
        let lock = locks.detached("k", token.as_str()).expect("a token");
        let left = lock.renew(TTL).await.expect("it is held");
        assert!(left > TTL - Duration::from_secs(1) && left <= TTL, "{left:?}");
        tokio::time::advance(TTL - Duration::from_secs(1)).await;
        assert!(!is_free().await, "it was renewed");
        assert_eq!(lock.release().await.expect("an answer"), Released::Released);
        assert!(is_free().await);

        let lock = take().await.expect("it is free");
        tokio::time::advance(TTL + Duration::from_secs(1)).await;
        assert!(is_free().await, "its ttl is over");
        assert!(lock.renew(TTL).await.expect_err("it has ended").is_lost());
        assert_eq!(lock.release().await.expect("an answer"), Released::Expired);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_of_the_same_process_gets_the_key_of_a_detached_lock() {
        let locks = LockManager::in_memory();
        let lock = locks.lock("k").acquire_detached().await.expect("it is free");
        let waiter = tokio::spawn(locks.lock("k").strategy(crate::strategy::wait()).acquire());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!waiter.is_finished());
        let released = locks.engine().clock.now();
        lock.release().await.expect("an answer");
        let guard = waiter.await.expect("no panic").expect("it is free");
        let took = locks.engine().clock.now().since(released);
        assert!(took < Duration::from_millis(100), "{took:?}");
        guard.release().await.expect("an answer");
    }

    #[tokio::test]
    async fn what_cannot_be_detached_is_refused() {
        let locks = LockManager::in_memory();
        for request in [locks.read("k"), locks.semaphore("k", 2), locks.all(["a", "b"])] {
            let error = request.acquire_detached().await.expect_err("it is refused");
            assert_eq!(error.kind(), LockErrorKind::Unsupported, "{error}");
        }
        let long = Duration::from_secs(1);
        for request in
            [locks.lock("k").min_hold(long), locks.lock("k").max_hold(long), locks.lock("k").linger(long)]
        {
            let error = request.acquire_detached().await.expect_err("it is refused");
            assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
        }
        let error = locks.detached("k", "no token").expect_err("it is refused");
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
        assert!(check_store(LeaseScope::Session, "odd").is_err());
    }
}
