//! The value that holds a lock.

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

/// Holds a lock until it is released, dropped or lost.
///
/// - **Renewal** runs in the background while the guard lives. A lock can still be *lost*: when the store cannot be
///   reached for as long as the lease lasts, when the key is deleted, or when the process is stopped for longer than
///   the lease. [`is_held`](Self::is_held) says so without I/O, and [`lost`](Self::lost) completes when it happens. The
///   protected resource should refuse an old [`fencing_token`](Self::fencing_token).
/// - **Release**: [`release`](Self::release) waits for the store's answer and reports it.
/// - **Drop** releases the lock in the background, best effort. It works outside a runtime, while unwinding and at the
///   end of a runtime, and retries until the lease is over. If the process exits right after the drop, the key may stay
///   locked until its ttl is over; [`LockManager::shutdown`](crate::LockManager::shutdown) waits for the release. The next
///   request of this process for the key waits for the answer to the release, for at most a second, and is not refused
///   because of it. Another process may be.
/// - **Another executor**: a lock is taken inside a tokio runtime. The other calls of a guard, polled outside of one,
///   borrow the runtime of the manager; a body that [`run`](Self::run) polls has none.
/// - **Fork**: a process that holds a lock must not fork without `exec`. The child would have a copy of each guard and of
///   the connections, and a drop of its copy releases the lock of its parent. [`Command`](std::process::Command) is safe.
/// - **A forgotten guard** ([`mem::forget`](std::mem::forget), an `Arc` in a cycle) is renewed for as long as its
///   manager lives, and no other request gets the key. [`max_hold`](crate::LockRequest::max_hold) ends that.
/// - **`let _ = ..`** drops a guard at once, without a warning from the compiler. Bind it to a name: `let _guard = ..`.
/// - **Poisoning**: none. A panic while the guard is held releases the lock.
/// - **Re-entrancy**: a guard from [`acquire`](crate::LockRequest::acquire) is entered again only from within a
///   [`LockScope`](crate::LockScope) that knows it; use [`run`](crate::LockRequest::run) for nested calls.
#[must_use = "a guard that is not kept releases the lock at once"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    hold: Hold,
    /// Keeps the manager's background alive, which renews the lease.
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

    /// As [`check`](Self::check), but a lock that was [released early](LockHandle::release_early) is no error: for layers,
    /// after a body that may release it.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost), with the reason.
    pub fn check_loss(&self) -> Result<()> {
        self.lease().check_loss()
    }

    /// Returns an error once the lock is lost. Call `guard.check()?` before each step that must not run without it.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost), with the reason.
    pub fn check(&self) -> Result<()> {
        self.lease().check()
    }

    /// Completes when the lock is lost: before another owner can get it, except after a
    /// [`force_release`](crate::LockManager::force_release), a deletion in the store or a failover, which the next
    /// renewal reveals. Never completes for a lock that is released.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lost(&self) -> LossReason {
        self.lease().lost().await
    }

    /// Returns the fencing token of this grant: a number larger than the token of every earlier owner of the key.
    /// Nested guards have the same token.
    ///
    /// It costs nothing if the store returns it with each grant, or if the request had
    /// [`fencing(true)`](crate::LockRequest::fencing). Otherwise the first use costs one round trip.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost) when the lock is lost, [`Unavailable`](LockErrorKind::Unavailable) when the store
    /// does not answer.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn fencing_token(&self) -> Result<FencingToken> {
        self.lease().engine.inside(self.lease().fence()).await
    }

    /// Returns a handle of this lock for the code under it. The handle does not hold the lock; a guard made of it
    /// ([`LockHandle::to_guard`]) does.
    #[must_use]
    pub fn handle(&self) -> LockHandle {
        LockHandle::new(Arc::clone(self.lease()), Arc::clone(&self.hub))
    }

    /// Sets the lease to `ttl`, counted from now, and renews it at once. A lease is never shortened: a shorter `ttl`
    /// counts as soon as a renewal with it ends later than the present lease.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) when the store cannot hold such a lease;
    /// [`Lost`](LockErrorKind::Lost); [`Unavailable`](LockErrorKind::Unavailable): then the old lease continues.
    ///
    /// # Cancel safety
    /// Cancel safe; the lease may or may not have been extended.
    pub async fn extend(&self, ttl: Duration) -> Result<()> {
        self.lease().engine.inside(extend(self.lease(), &self.hub, ttl)).await
    }

    /// Releases the lock, and waits for the store's answer. Does nothing for a lock that was
    /// [released early](LockHandle::release_early), and returns [`Released::Released`].
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost) when the lock was lost before; [`Unavailable`](LockErrorKind::Unavailable) when
    /// the store did not answer: then the release continues in the background until the lease is over.
    ///
    /// # Cancel safety
    /// Dropping the future hands the release to the background.
    pub async fn release(self) -> Result<Released> {
        let Self { hold, hub: _hub } = self;
        let Some(lease) = hold.take() else { return Ok(Released::Released) };
        // This comes before `leave`: a lease that has ended can no longer be lost.
        let lost = lease.loss();
        if !lease.leave() {
            return match lost {
                Some(reason) => Err(lease.lost_error(reason)),
                // A lease that has ended was released early. No other guard can share it.
                None if lease.has_ended() => Ok(Released::Released),
                None => Ok(Released::StillHeld),
            };
        }
        let releasing = Releasing::new(lease);
        if let Some(reason) = lost {
            // A lost grant expires at the store. Dropping `releasing` has the background release it sooner.
            return Err(releasing.lost_error(reason));
        }
        releasing.release().await
    }
}

impl LockGuard {
    /// Releases the lock as the request says. Waits for the answer for at most `patience`, or not at all with
    /// [`Release::Background`]; then the release continues in the background. A release that fails is logged and
    /// counted. For layers, whose answer does not depend on the release.
    ///
    /// # Cancel safety
    /// Dropping the future continues the release in the background.
    pub async fn release_within(self, patience: Duration) {
        if self.lease().options.release == Release::Background {
            return self.begin_release();
        }
        self.answered_within(patience).await;
    }

    /// Releases the lock, and waits for at most `patience`, after which the release continues in the background.
    /// Returns the answer of the store, if there is one. A release that fails is logged and counted.
    pub(crate) async fn answered_within(self, patience: Duration) -> Option<Released> {
        let lease = Arc::clone(self.lease());
        // A timeout drops the release, and so hands it to the background.
        let within =
            lease.engine.cleanup.inside(async { tokio::time::timeout(patience, self.release()).await });
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
