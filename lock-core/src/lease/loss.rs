//! Whether a grant is still held, and the notifications of a loss.

use std::sync::atomic::Ordering;

use super::lease::Lease;
use super::state::{self, code, reason};
use crate::error::{LockError, LockErrorKind, LossReason, Result};

impl Lease {
    /// Notes that renewals are late. Returns whether this was not noted before.
    pub(crate) fn endanger(&self) -> bool {
        self.state
            .compare_exchange(state::HELD, state::ENDANGERED, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    pub(crate) fn is_endangered(&self) -> bool {
        self.state.load(Ordering::Acquire) == state::ENDANGERED
    }

    pub(crate) fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state.load(Ordering::Acquire) == state::ENDED
    }

    /// Returns whether a loss was reported. Does not read the clock.
    pub(super) fn is_revoked(&self) -> bool {
        self.state.load(Ordering::Acquire) > state::ENDED
    }

    /// Returns why the grant is lost, if it is. Reads the clock: a lease that ran out is lost from then on, whether or
    /// not that was reported.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        let known = self.state.load(Ordering::Acquire);
        if known > state::ENDANGERED {
            return reason(known);
        }
        // The clock decides, not the report: the renewer may report late or never, if the log blocks its thread or its
        // runtime has ended.
        let now = self.now();
        if self.deadline().is_past(now) {
            self.lose(LossReason::Expired);
        } else if self.max_hold_end().is_some_and(|end| end.is_past(now)) {
            self.lose(LossReason::MaxHold);
        }
        // The state is read again: another thread may have noted a loss first, with another reason, or released the
        // lease.
        reason(self.state.load(Ordering::Acquire))
    }

    /// Marks the grant as lost, and sends all notifications. The first reason stays; a released lease cannot be lost.
    pub(crate) fn lose(&self, why: LossReason) -> bool {
        let lost = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| {
            (now <= state::ENDANGERED).then_some(code(why))
        });
        if lost.is_ok() {
            // None of these keeps the others from running: a waker may panic, and the log comes last.
            self.changed.notify_waiters();
            // The waiters of this process waited for this guard, and must ask the store now.
            self.claim().keys().for_each(|key| self.engine.local_queue.freed(key, self.claim().owner));
            // The session keeps the grant for as long as this process is connected, even if the guard is never dropped.
            // When the session has ended, there is nothing left to release.
            if self.engine.cleanup.has_session() && why != LossReason::SessionEnded {
                self.release_when_forgotten();
            }
            // The log comes last, because it belongs to the application, which may block or panic.
            self.record_lost(why);
        }
        lost.is_ok()
    }

    /// Fails if the grant is lost, or was released.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_loss()?;
        self.check_ended()
    }

    /// Fails if the grant is lost.
    pub(crate) fn check_loss(&self) -> Result<()> {
        self.loss().map_or(Ok(()), |reason| Err(self.lost_error(reason)))
    }

    /// Makes the error of the grant, which was lost for `reason`.
    pub(crate) fn lost_error(&self, reason: LossReason) -> LockError {
        LockError::new(LockErrorKind::Lost, self.why_lost(reason))
            .with_loss(reason)
            .with_key(&self.claim().key)
    }

    /// Returns why the grant was lost, in words.
    pub(super) fn why_lost(&self, reason: LossReason) -> &'static str {
        match reason {
            // There was no renewal, so the text names none.
            LossReason::Expired if !self.options.renew => {
                "its lease ran out, and it was not renewed (renew = false)"
            }
            reason => reason.text(),
        }
    }

    /// Fails if the grant was released.
    pub(crate) fn check_ended(&self) -> Result<()> {
        if !self.has_ended() {
            return Ok(());
        }
        Err(LockError::new(LockErrorKind::Lost, "it was given back").with_key(&self.claim().key))
    }

    /// Completes when the grant is lost; never for one that was released.
    pub(crate) async fn lost(&self) -> LossReason {
        match self.engine.cleanup.inside(self.until_lost()).await {
            Ok(reason) => reason,
            // Outside of tokio, in a process that cannot start a thread: there is no timer.
            Err(_) => self.until_notified().await,
        }
    }

    /// Completes when the loss is noted.
    async fn until_notified(&self) -> LossReason {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(reason) = self.loss() {
                return reason;
            }
            changed.await;
        }
    }

    async fn until_lost(&self) -> LossReason {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // The waiter registers before the check: otherwise it would miss a loss between the two.
            changed.as_mut().enable();
            if let Some(reason) = self.loss() {
                return reason;
            }
            // The renewer notifies, but may be late: its runtime may have ended, or the log may block its thread.
            let left = self.remaining();
            tokio::select! {
                // `biased` keeps the simulation deterministic.
                biased;
                () = changed => {}
                () = tokio::time::sleep(left), if !self.has_ended() => {}
            }
        }
    }
}
