//! The value that represents the lead.

use std::future::Future;
use std::time::Duration;

use super::candidate::Seat;
use crate::backend::{FencingToken, Released};
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::{LossReason, Result};
use crate::guard::{LockGuard, LockHandle};

/// Leads until it resigns, is dropped or is deposed. [`LeaderElection::campaign`](super::LeaderElection::campaign)
/// returns it.
///
/// It is a [`LockGuard`] with a known fencing token: its lease is renewed in the background, and can be lost. Dropping
/// it resigns in the background, best effort.
#[derive(Debug)]
#[must_use = "a leadership that is not kept resigns at once"]
#[clippy::has_significant_drop]
pub struct Leadership {
    /// This is dropped before the seat, so that the term has ended when its end is reported.
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

    /// Returns the fencing token, which came with the election: larger than the token of every earlier leader. Send it
    /// with each write, and let the resource refuse smaller ones.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.seat.term.token
    }

    /// Returns whether the candidate certainly leads now. Local, no I/O; see [`LockGuard::is_held`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.guard.is_held()
    }

    /// Returns an error after the candidate was deposed. Call it before each step that only the leader may take.
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost), with the reason.
    pub fn check(&self) -> Result<()> {
        self.guard.check()
    }

    /// Completes when the candidate is deposed: before another can lead, except after a
    /// [`force_release`](crate::LockManager::force_release), a deletion in the store or a failover.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lost(&self) -> LossReason {
        self.guard.lost().await
    }

    /// Returns a handle of the lock for the code of the leader. The handle does not keep the lead; a guard made of it
    /// ([`LockHandle::to_guard`]) does.
    #[must_use]
    pub fn handle(&self) -> LockHandle {
        self.guard.handle()
    }

    /// Runs `body` while the candidate leads, and keeps the lead afterwards; see [`LockGuard::run`].
    ///
    /// # Errors
    /// [`Lost`](LockErrorKind::Lost) when it was deposed before the body ended: the body is dropped.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body. The leadership is not affected.
    pub async fn run<F: Future>(&self, body: F) -> Result<F::Output> {
        self.guard.run(body).await
    }

    /// Gives up the lead and waits for the store's answer. The next candidate leads at once.
    ///
    /// # Errors
    /// As [`LockGuard::release`]: [`Lost`](LockErrorKind::Lost) when it was deposed before.
    ///
    /// # Cancel safety
    /// Dropping the future hands the resignation to the background.
    pub async fn resign(self) -> Result<Released> {
        let Self { guard, seat } = self;
        let released = guard.release().await;
        seat.term.note_answer(released.as_ref().ok().copied());
        released
    }

    /// Gives up the lead, and waits for at most `patience`, after which the release continues in the background.
    pub(super) async fn resign_within(self, patience: Duration) {
        let Self { guard, seat } = self;
        seat.term.note_answer(guard.answered_within(patience).await);
    }
}
