//! Defines [`Leadership`], the value that represents leading.

use std::future::Future;
use std::time::Duration;

use super::candidate::Seat;
use crate::backend::{FencingToken, Released};
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::{LossReason, Result};
use crate::guard::{LockGuard, LockHandle};

/// The leadership of a candidate, which lasts until this value resigns, is dropped or loses the lock.
/// [`LeaderElection::campaign`](super::LeaderElection::campaign) returns this value.
///
/// This type wraps a [`LockGuard`] with a known fencing token. The lease is renewed in the background, and can be lost.
/// If the value is dropped, the candidate resigns in the background, as a best effort.
#[derive(Debug)]
#[must_use = "a leadership that is not kept resigns at once"]
#[clippy::has_significant_drop]
pub struct Leadership {
    /// The guard is declared first, so that its drop releases the lock before the drop of `seat` ends the term.
    guard: LockGuard,
    seat: Seat,
}

impl Leadership {
    pub(super) fn new(guard: LockGuard, seat: Seat) -> Self {
        Self { guard, seat }
    }

    /// Returns the guard of the lock.
    pub fn guard(&self) -> &LockGuard {
        &self.guard
    }

    /// Returns the fencing token, which came with the election. It is larger than the token of every earlier leader.
    /// Send the token with each write, and let the resource refuse smaller tokens.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.seat.term.token
    }

    /// Returns whether the candidate certainly leads now. The check needs no I/O; see [`LockGuard::is_held`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.guard.is_held()
    }

    /// Returns an error if the leadership was lost. Call this method before each step that only the leader may do.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost), with the reason.
    pub fn check(&self) -> Result<()> {
        self.guard.check()
    }

    /// Completes when the leadership is lost, before another candidate can lead. There are exceptions: after a
    /// [`force_release`](crate::LockManager::force_release), a deletion in the store or a failover, another candidate
    /// may lead before this completes.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lost(&self) -> LossReason {
        self.guard.lost().await
    }

    /// Returns a handle of the lock for the code of the leader. The handle does not keep the leadership, but a guard
    /// from [`LockHandle::to_guard`] does.
    #[must_use]
    pub fn handle(&self) -> LockHandle {
        self.guard.handle()
    }

    /// Runs `body` while the candidate leads. The leadership continues after the body has ended; see
    /// [`LockGuard::run`].
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost) if the leadership was lost before the body ended. The body is then dropped.
    ///
    /// # Cancel safety
    /// If the future is dropped, the body is dropped too. The leadership is not affected.
    pub async fn run<F: Future>(&self, body: F) -> Result<F::Output> {
        self.guard.run(body).await
    }

    /// Resigns, and waits for the store's answer. The next candidate leads at once. As for [`LockGuard::release`], `Ok`
    /// with [`Released::Expired`] or [`Released::Taken`] is a loss that only this request finds.
    ///
    /// # Errors
    /// The same errors as [`LockGuard::release`], such as [`Lost`](LockErrorKind::Lost) if the leadership was lost
    /// before.
    ///
    /// # Cancel safety
    /// If the future is dropped, the release continues in the background.
    pub async fn resign(self) -> Result<Released> {
        let Self { guard, seat } = self;
        let released = guard.release().await;
        seat.term.note_answer(released.as_ref().ok().copied());
        released
    }

    /// Resigns, and waits for the answer for at most `patience`. After that time, the release continues in the
    /// background.
    pub(super) async fn resign_within(self, patience: Duration) {
        let Self { guard, seat } = self;
        seat.term.note_answer(guard.answered_within(patience).await);
    }
}
