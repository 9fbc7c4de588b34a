//! The Rust value that holds.

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

/// Holds a lock until it is released, dropped or lost.
///
/// - **Renewal** runs in the background while the guard lives. A lock can be *lost* all the same: when the store cannot
///   be reached for as long as the lease lasts, when somebody deletes the key, when the process was stopped for longer
///   than the lease. [`is_held`](Self::is_held) says so without I/O, [`lost`](Self::lost) tells when it happens; what the
///   lock protects should refuse an old [`fencing_token`](Self::fencing_token).
/// - **Release**: [`release`](Self::release) waits for the store's answer and reports it.
/// - **Drop** gives the lock back in the background, best effort: it works outside a runtime, while unwinding and at
///   the end of a runtime, and retries until the lease is over. A process that exits right after it may leave the key to
///   its ttl; [`LockManager::shutdown`](crate::LockManager::shutdown) waits.
/// - **Fork**: the lock stays the parent's. In the child, dropping the copy of a guard does nothing to the store, and whatever
///   answers with a `Result` is [`InvalidRequest`](LockErrorKind::InvalidRequest).
/// - **A forgotten guard** ([`mem::forget`](std::mem::forget), an `Arc` in a cycle) is renewed for as long as its manager lives,
///   and nobody else gets the key: [`max_hold`](crate::LockRequest::max_hold) ends that.
/// - **`let _ = ..`** drops a guard at once, and the compiler says nothing: bind it to a name, `let _guard = ..`.
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
    /// A guard for one entry of `hold`, which the caller has counted.
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

    /// The key, with its namespace.
    #[must_use]
    pub fn key(&self) -> &str {
        self.lease().claim.key.as_str()
    }

    /// For how long the lock is certainly held yet, if no renewal is answered any more. Zero when it is lost. No I/O.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.lease().remaining()
    }

    /// Whether the lock is certainly held now. Local, no I/O: from the deadline of the lease on it is `false`, whatever
    /// the network does.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.lease().is_held()
    }

    /// Whether a renewal has failed and none was answered since. The lock is still held; it will be lost at its
    /// deadline unless a renewal gets through.
    #[must_use]
    pub fn is_endangered(&self) -> bool {
        self.lease().is_endangered()
    }

    /// Returns an error once the lock is lost: `guard.check()?` before each step that must not be done without it.
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

    /// The fencing token of this grant: a number larger than that of every earlier owner of the key. Nested guards have
    /// the same.
    ///
    /// Free where the store gives it with the grant or [`fencing(true)`](crate::LockRequest::fencing) asked for it; else
    /// one round trip on first use.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost) when the grant is not ours any more, [`Unavailable`](LockErrorKind::Unavailable)
    /// when the store does not answer.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn fencing_token(&self) -> Result<FencingToken> {
        self.lease().check_own_process()?;
        self.lease().fence().await
    }

    /// A view of this lock for the code under it. It does not hold.
    #[must_use]
    pub fn handle(&self) -> LockHandle {
        LockHandle::new(Arc::clone(self.lease()), Arc::clone(&self.hub))
    }

    /// Sets the lease to `ttl` from now on, and renews at once. A lease is never shortened: a shorter `ttl` counts from
    /// the next renewal that would end later.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) when the store cannot hold such a lease,
    /// [`Lost`](LockErrorKind::Lost), [`Unavailable`](LockErrorKind::Unavailable): then the old lease goes on.
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
        let schedule = lease.schedule().map_or_else(|| self.hub.renewers.here(), Ok)?;
        schedule.watch_extended(lease, sent, length);
        Ok(())
    }

    /// Gives the lock back and waits for the store's answer.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost) when the lock was lost before; [`Unavailable`](LockErrorKind::Unavailable) when the
    /// store did not answer: then the release goes on in the background until the lease is over;
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) in a forked child, whose parent goes on holding.
    ///
    /// # Cancel safety
    /// Dropping the future hands the release to the background.
    pub async fn release(mut self) -> Result<Released> {
        let Some(lease) = self.lease.take() else { return Ok(Released::Released) };
        let now = lease.now();
        lease.check_process(now)?;
        let lost = lease.loss_at(now);
        if !lease.leave() {
            return Ok(Released::StillHeld);
        }
        let releasing = Releasing::new(lease);
        if let Some(reason) = lost {
            // The store forgets a lost grant by itself; the background sees to it that it does so soon.
            return Err(LockError::lost(releasing.key(), reason));
        }
        releasing.release().await
    }
}

impl LockGuard {
    /// Releases the lock, and waits for at most `patience`: then the background goes on. A release that fails is reported
    /// by the lock itself. For the layers above.
    #[doc(hidden)]
    pub async fn release_within(self, patience: Duration) {
        let lease = Arc::clone(self.lease());
        if tokio::time::timeout(patience, self.release()).await.is_err() {
            lease.record_release_failed(ReleaseError::Unanswered, None);
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(self.lease(), f.debug_struct("LockGuard"))
    }
}

impl LockGuard {
    /// Ends the guard without giving anything back: the grant has another hold now.
    pub(crate) fn supersede(mut self) {
        if let Some(lease) = self.lease.take() {
            lease.supersede();
            lease.engine.lease_ended();
        }
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        // In a forked child, what the copy of a guard hands over goes nowhere, and nothing is given back.
        if let Some(lease) = self.lease.take().filter(|lease| lease.leave()) {
            drop(Releasing::new(lease));
        }
    }
}
