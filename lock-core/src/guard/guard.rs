//! The value that holds a lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::handle::{LockHandle, describe};
use super::release::Releasing;
use crate::backend::{FencingToken, Released};
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::{LockError, LossReason, Result};
use crate::hub::Hub;
use crate::lease::Lease;
use crate::observe::ReleaseError;
use crate::options::Release;

/// Holds a lock until it is released, dropped or lost.
///
/// - **Renewal** runs in the background while the guard lives. A lock can still be *lost*: when the store cannot be
///   reached for as long as the lease lasts, when somebody deletes the key, or when the process is stopped for longer
///   than the lease. [`is_held`](Self::is_held) says so without I/O, and [`lost`](Self::lost) completes when it
///   happens. The protected resource should refuse an old [`fencing_token`](Self::fencing_token).
/// - **Release**: [`release`](Self::release) waits for the store's answer and reports it.
/// - **Drop** releases the lock in the background, best effort. It works outside a runtime, while unwinding and at the
///   end of a runtime, and retries until the lease is over. If the process exits right after the drop, the key may stay
///   locked until its ttl is over; [`LockManager::shutdown`](crate::LockManager::shutdown) waits for the release.
/// - **Fork**: the lock stays the parent's. In the child, dropping the copy of a guard does nothing to the store, and
///   every call that returns a `Result` fails with [`InvalidRequest`](LockErrorKind::InvalidRequest).
/// - **A forgotten guard** ([`mem::forget`](std::mem::forget), an `Arc` in a cycle) is renewed for as long as its
///   manager lives, and nobody else gets the key. [`max_hold`](crate::LockRequest::max_hold) ends that.
/// - **`let _ = ..`** drops a guard at once, without a warning from the compiler. Bind it to a name: `let _guard = ..`.
/// - **Poisoning**: none. A panic while the guard is held releases the lock.
/// - **Re-entrancy**: a guard from [`acquire`](crate::LockRequest::acquire) is entered again only from within a
///   [`LockScope`](crate::LockScope) that knows it; use [`run`](crate::LockRequest::run) for nested calls.
#[must_use = "a guard that is not kept releases the lock at once"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    /// `None` once released.
    lease: Option<Arc<Lease>>,
    /// Keeps the manager's background alive, which renews the lease.
    hub: Arc<Hub>,
}

impl LockGuard {
    /// A guard for one entry of `lease`, which the caller has counted.
    pub(crate) fn new(lease: Arc<Lease>, hub: Arc<Hub>) -> Self {
        Self { lease: Some(lease), hub }
    }

    pub(super) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    pub(crate) fn lease(&self) -> &Arc<Lease> {
        self.lease
            .as_ref()
            .expect("BUG: only `release` and `drop` take the lease, and they take the guard too")
    }

    /// Returns the key, with its namespace.
    #[must_use]
    pub fn key(&self) -> &str {
        self.lease().claim.key.as_str()
    }

    /// Returns for how long the lock is certainly held, even if no further renewal is answered. Zero once it is lost.
    /// No I/O.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.lease().remaining()
    }

    /// Returns whether the lock is certainly held now. Local, no I/O: it is `false` from the deadline of the lease on,
    /// whatever the network does.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.lease().is_held()
    }

    /// Returns whether a renewal has failed and none was answered since. The lock is still held, and will be lost at
    /// its deadline unless a renewal gets through.
    #[must_use]
    pub fn is_endangered(&self) -> bool {
        self.lease().is_endangered()
    }

    /// Returns an error once the lock is lost. Call `guard.check()?` before each step that must not run without it.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost), with the reason.
    pub fn check(&self) -> Result<()> {
        self.lease().check_own_process()?;
        self.lease().check()
    }

    /// Completes when the lock is lost, before anyone else can get it. Never completes for a lock that is released.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lost(&self) -> LossReason {
        self.lease().lost().await
    }

    /// Returns the fencing token of this grant: a number larger than that of every earlier owner of the key. Nested
    /// guards have the same token.
    ///
    /// It costs nothing where the store returns it with the grant, or where
    /// [`fencing(true)`](crate::LockRequest::fencing) asked for it. Otherwise the first use costs one round trip.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost) when the lock is lost, [`Unavailable`](LockErrorKind::Unavailable) when the store
    /// does not answer.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn fencing_token(&self) -> Result<FencingToken> {
        self.lease().check_own_process()?;
        self.lease().fence().await
    }

    /// Returns a view of this lock for the code under it. The view does not hold the lock.
    #[must_use]
    pub fn handle(&self) -> LockHandle {
        LockHandle::new(Arc::clone(self.lease()), Arc::clone(&self.hub))
    }

    /// Sets the lease to `ttl` from now on, and renews it at once. A lease is never shortened: a shorter `ttl` takes
    /// effect with the next renewal that would end later.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) when the store cannot hold such a lease,
    /// [`Lost`](LockErrorKind::Lost), [`Unavailable`](LockErrorKind::Unavailable): then the old lease continues.
    ///
    /// # Cancel safety
    /// Cancel safe; the lease may or may not have been extended.
    pub async fn extend(&self, ttl: Duration) -> Result<()> {
        let lease = self.lease();
        lease.check_own_process()?;
        lease.check()?;
        lease.engine.capability.check_ttl(ttl).map_err(|error| error.with_key(&lease.claim.key))?;
        let renewed = lease.renew_now(ttl).await;
        let (sent, length) = renewed.map_err(|error| error.or_key(&lease.claim.key))?;
        // Where its runtime is gone, nobody renews the lease any more. Then the runtime of the caller does.
        let schedule = lease.schedule().map_or_else(|| self.hub.renewers.here(), Ok)?;
        schedule.watch_extended(lease, sent, length);
        Ok(())
    }

    /// Releases the lock, and waits for the store's answer.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost) when the lock was lost before; [`Unavailable`](LockErrorKind::Unavailable) when
    /// the store did not answer: then the release continues in the background until the lease is over;
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) in a forked child: its parent still holds the lock.
    ///
    /// # Cancel safety
    /// Dropping the future hands the release to the background.
    pub async fn release(mut self) -> Result<Released> {
        // Taken before the check: in a forked child, the drop of this guard must not count as that of the last one.
        let Some(lease) = self.lease.take() else { return Ok(Released::Released) };
        let now = lease.now();
        lease.check_process(now)?;
        // Before `leave`: a lease that has ended can no longer be lost.
        let lost = lease.loss_at(now);
        if !lease.leave() {
            return Ok(Released::StillHeld);
        }
        let releasing = Releasing::new(lease);
        if let Some(reason) = lost {
            // The store forgets a lost grant by itself. Dropping `releasing` has the background release it sooner.
            return Err(LockError::lost(releasing.key(), reason));
        }
        releasing.release().await
    }
}

impl LockGuard {
    /// Releases the lock as the request says: waits for at most `patience`, after which the release continues in the
    /// background, or not at all. A release that fails is reported by the lock itself. For the layers above.
    #[doc(hidden)]
    pub async fn release_within(self, patience: Duration) {
        let lease = Arc::clone(self.lease());
        if lease.options.release == Release::Background {
            return self.begin_release();
        }
        // A timeout drops the release, and so hands it to the background.
        if tokio::time::timeout(patience, self.release()).await.is_err() {
            lease.record_release_failed(ReleaseError::Unanswered, None);
        }
    }
}

impl LockGuard {
    /// Releases the lock to the store in the background: nobody of this process gets the grant, and it does not linger.
    pub(crate) fn release_to_store(mut self) {
        if let Some(lease) = self.lease.take()
            && lease.leave()
        {
            drop(Releasing::to_store(lease));
        }
    }

    /// Releases the lock without waiting for the store's answer.
    fn begin_release(mut self) {
        let Some(lease) = self.lease.take() else { return };
        let now = lease.now();
        // In a forked child nothing is released.
        if lease.check_process(now).is_err() {
            return;
        }
        let is_lost = lease.loss_at(now).is_some();
        if !lease.leave() {
            return;
        }
        let releasing = Releasing::new(lease);
        if !is_lost {
            releasing.begin(now);
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(self.lease(), f.debug_struct("LockGuard"))
    }
}

impl LockGuard {
    /// Ends the guard without a release: another lease has the grant now.
    pub(crate) fn supersede(mut self) {
        if let Some(lease) = self.lease.take() {
            lease.supersede();
            // Counted down as for a release, which does not follow: the other lease is counted by itself.
            lease.engine.lease_ended();
        }
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        // In a forked child, a hand-off reaches nobody, and nothing is released.
        if let Some(lease) = self.lease.take().filter(|lease| lease.leave()) {
            drop(Releasing::new(lease));
        }
    }
}
