//! Defines [`LockGuard`], the value that holds a lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::extend::extend;
use super::handle::{LockHandle, describe};
use super::hold::Hold;
use super::release::Releasing;
use crate::backend::{FencingToken, Released};
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::{LossReason, Result};
use crate::hub::Hub;
use crate::lease::Lease;
use crate::observe::ReleaseError;
use crate::options::Release;

/// Holds a lock until the guard is released or dropped, or the lock is lost.
///
/// - **Renewal** runs in the background while the guard lives. Nevertheless a lock is *lost* if the store cannot be
///   reached until the lease ends, if the key is deleted, or if the process is stopped for longer than the lease.
///   [`is_held`](Self::is_held) reports a loss without I/O, and [`lost`](Self::lost) completes on a loss. The protected
///   resource should refuse an old [`fencing_token`](Self::fencing_token).
/// - **Release**: [`release`](Self::release) waits for the store's answer and returns it.
/// - **Drop** releases the lock in the background, as a best effort. A drop also works outside of a runtime, during
///   unwinding and at the end of a runtime. The release is repeated until the lease is over. If the process exits right
///   after the drop, the key may stay locked until its ttl is over;
///   [`LockManager::shutdown`](crate::LockManager::shutdown) waits for the release. The next request of this process
///   for the key waits for the answer to the release, for at most a second. So the pending release does not make that
///   request fail, but it may make a request of another process fail.
/// - **Another executor**: a lock must be acquired inside a tokio runtime. The other methods of a guard also work
///   outside of a runtime, because they use the runtime of the manager. A body that [`run`](Self::run) polls outside of
///   a runtime has no runtime either.
/// - **Fork**: a process that holds a lock must not fork without `exec`. The child would have copies of the guards and
///   of the connections, and dropping a copy would release the lock of the parent. [`Command`](std::process::Command)
///   is safe.
/// - **A forgotten guard** ([`mem::forget`](std::mem::forget), an `Arc` in a cycle) is renewed for as long as its
///   manager lives, and no other request gets the key. [`max_hold`](crate::LockRequest::max_hold) limits that time.
/// - **`let _ = ..`** drops a guard at once, without a warning from the compiler. Bind the guard to a name:
///   `let _guard = ..`.
/// - **Poisoning** does not exist. A panic while the guard is held releases the lock.
/// - **Re-entrancy**: nested calls enter a lock only inside its [`LockScope`](crate::LockScope). A guard from
///   [`acquire`](crate::LockRequest::acquire) is in no scope, so make nested calls inside [`run`](Self::run).
#[must_use = "a guard that is not kept releases the lock at once"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    hold: Hold,
    /// Keeps the manager's background runtime alive, which renews the lease.
    hub: Arc<Hub>,
}

impl LockGuard {
    pub(crate) fn new(hold: Hold, hub: Arc<Hub>) -> Self {
        Self { hold, hub }
    }

    pub(crate) fn into_parts(self) -> (Arc<Hub>, Hold) {
        (self.hub, self.hold)
    }

    pub(crate) fn lease(&self) -> &Arc<Lease> {
        self.hold.lease()
    }

    /// Returns the key, with its namespace.
    #[must_use]
    pub fn key(&self) -> &str {
        self.lease().claim().key.as_str()
    }

    /// Returns how long the lock is certainly held, even if no further renewal succeeds. The result is zero after a
    /// loss. This needs no I/O.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.lease().remaining()
    }

    /// Returns whether the lock is certainly held now. This needs no I/O. When the lease has ended, the result is
    /// `false`, even if the network is down.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.lease().is_held()
    }

    /// Returns whether the last renewal failed. The lock is still held, and will be lost at the end of its lease if no
    /// renewal succeeds before then.
    #[must_use]
    pub fn is_endangered(&self) -> bool {
        self.lease().is_endangered()
    }

    /// Checks the lock like [`check`](Self::check), but accepts a lock that was [released
    /// early](LockHandle::release_early). Integrations such as the HTTP layer call it after a body that may release the
    /// lock.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost), with the reason.
    pub fn check_loss(&self) -> Result<()> {
        self.lease().check_loss()
    }

    /// Returns an error if the lock is lost. Call `guard.check()?` before each step that must not run without the lock.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost), with the reason.
    pub fn check(&self) -> Result<()> {
        self.lease().check()
    }

    /// Completes when the lock is lost, before another owner can get it. There are exceptions: after a
    /// [`force_release`](crate::LockManager::force_release), a deletion in the store or a failover, another owner may
    /// get the lock before the next renewal detects the loss. Never completes for a lock that is released.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lost(&self) -> LossReason {
        self.lease().lost().await
    }

    /// Returns the fencing token of this grant. The token is a number. It is larger than the token of every earlier
    /// owner of the key. Nested guards have the same token.
    ///
    /// The call needs no request if the store returns a token with each grant, or if
    /// [`fencing(true)`](crate::LockRequest::fencing) was set. Otherwise the first call costs one round trip.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost) if the lock is lost, [`Unavailable`](LockErrorKind::Unavailable) if the store does
    /// not answer.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn fencing_token(&self) -> Result<FencingToken> {
        self.lease().engine.inside(self.lease().fence()).await
    }

    /// Returns a handle of this lock for the code that runs under the lock. The handle does not hold the lock, but a
    /// guard from [`LockHandle::to_guard`] does.
    #[must_use]
    pub fn handle(&self) -> LockHandle {
        LockHandle::new(Arc::clone(self.lease()), Arc::clone(&self.hub))
    }

    /// Sets the lease to `ttl`, counted from now, and renews it at once. A lease is never shortened: if `ttl` is
    /// shorter than the rest of the lease, the current end stays, and later renewals use `ttl`.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) if the store does not support such a lease;
    /// [`Lost`](LockErrorKind::Lost); [`Unavailable`](LockErrorKind::Unavailable) if the store does not answer. In the
    /// last case the old lease continues.
    ///
    /// # Cancel safety
    /// Cancel safe. If the future is dropped, the lease may or may not have been extended.
    pub async fn extend(&self, ttl: Duration) -> Result<()> {
        self.lease().engine.inside(extend(self.lease(), &self.hub, ttl)).await
    }

    /// Releases the lock, and waits for the store's answer. If the lock was already [released
    /// early](LockHandle::release_early), this only returns [`Released::Released`].
    ///
    /// A loss that only this request finds is not an error: the result is `Ok` with [`Released::Expired`] if the key was
    /// free, and with [`Released::Taken`] if another owner has it. For example, the key was deleted after the last renewal.
    /// The log also warns of such a loss, at most once in 10 s for each template. A caller that must know whether it held
    /// the lock until the end matches on the result.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost) if the lock was lost before; [`Unavailable`](LockErrorKind::Unavailable) if the
    /// store did not answer. In the second case the release continues in the background until the lease is over.
    ///
    /// # Cancel safety
    /// If the future is dropped, the release continues in the background.
    pub async fn release(self) -> Result<Released> {
        let Self { hold, hub: _hub } = self;
        let Some(lease) = hold.take() else { return Ok(Released::Released) };
        // Check the loss before `leave`, which ends the lease. An expiry is no longer noticed in an ended lease.
        let lost = lease.loss();
        if !lease.leave() {
            return match lost {
                Some(reason) => Err(lease.lost_error(reason)),
                // An ended lease was released early, and no other guard can share it.
                None if lease.has_ended() => Ok(Released::Released),
                None => Ok(Released::StillHeld),
            };
        }
        let releasing = Releasing::new(lease);
        if let Some(reason) = lost {
            // A lost grant expires at the store. After `releasing` is dropped, the background releases the grant even
            // earlier.
            return Err(releasing.lost_error(reason));
        }
        releasing.release().await
    }
}

impl LockGuard {
    /// Releases the lock, and waits for the answer for at most `patience`. With [`Release::Background`], does not wait.
    /// If no answer arrives, the release continues in the background. A failed release is logged and counted. Use it in
    /// integrations such as the HTTP layer, in which the response does not depend on the release.
    ///
    /// # Cancel safety
    /// If the future is dropped, the release continues in the background.
    pub async fn release_within(self, patience: Duration) {
        if self.lease().options.release == Release::Background {
            return self.begin_release();
        }
        self.answered_within(patience).await;
    }

    /// Releases the lock, and waits for the answer for at most `patience`. After that the release continues in the
    /// background. Returns the store's answer, or `None` if no answer arrived. A failed release is logged and counted.
    pub(crate) async fn answered_within(self, patience: Duration) -> Option<Released> {
        let lease = Arc::clone(self.lease());
        // A timeout drops the future of the release, so the release continues in the background.
        let within = lease.engine.inside(async { Ok(tokio::time::timeout(patience, self.release()).await) });
        match within.await {
            Ok(Ok(released)) => released.ok(),
            Ok(Err(_)) | Err(_) => {
                lease.record_release_failed(ReleaseError::Unanswered, None);
                None
            }
        }
    }
}

impl LockGuard {
    /// Releases the lock without waiting for the store's answer.
    fn begin_release(self) {
        let Self { hold, hub: _hub } = self;
        let Some(lease) = hold.take() else { return };
        let is_lost = lease.loss().is_some();
        if !lease.leave() {
            return;
        }
        let releasing = Releasing::new(lease);
        if !is_lost {
            releasing.begin();
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(self.lease(), f.debug_struct("LockGuard"))
    }
}
