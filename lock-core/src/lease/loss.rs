//! Checks whether a grant is still held, and notifies of a loss.

use std::sync::atomic::Ordering;

use super::lease::Lease;
use super::state::{self, code, reason};
use crate::error::{LockError, LockErrorKind, LossReason, Result};

impl Lease {
    /// Marks the lease as endangered, because a renewal has failed. Returns whether this call changed the state.
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

    /// Returns why the grant is lost, or `None` if it is not lost. Reads the clock: an expired lease is lost at once,
    /// even if the loss was not reported yet.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        let known = self.state.load(Ordering::Acquire);
        if known > state::ENDANGERED {
            return reason(known);
        }
        // The clock decides, because the renewer may report late or never. For example, the log subscriber may block
        // the renewer's thread, or the renewer's runtime may have ended.
        let now = self.now();
        if self.deadline().is_past(now) {
            self.lose(LossReason::Expired);
        } else if self.max_hold_end().is_some_and(|end| end.is_past(now)) {
            self.lose(LossReason::MaxHold);
        }
        // The state is read again, because another thread may have recorded a loss with another reason, or released the
        // lease.
        reason(self.state.load(Ordering::Acquire))
    }

    /// Marks the grant as lost, and sends all notifications. Returns whether this call changed the state. If the grant
    /// is lost already, the first reason stays. A released lease cannot be lost.
    pub(crate) fn lose(&self, why: LossReason) -> bool {
        let lost = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| {
            (now <= state::ENDANGERED).then_some(code(why))
        });
        if lost.is_ok() {
            // The most important steps come first, because a waker or the log subscriber may panic.
            self.changed.notify_waiters();
            // The waiters in this process relied on a hand-off by this guard. Now they must send a request.
            self.claim().keys().for_each(|key| self.engine.local_queue.freed(key, self.claim().owner));
            // A live session keeps the grant at the store, even if the guard is never dropped. So the grant must be
            // released. If the session has ended, the store has already dropped the grant.
            if self.engine.cleanup.has_session() && why != LossReason::SessionEnded {
                self.release_when_forgotten();
            }
            // The log comes last, because the application's log subscriber may block or panic.
            self.record_lost(why);
        }
        lost.is_ok()
    }

    /// Returns an error if the grant is lost, or was released.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_loss()?;
        self.check_ended()
    }

    /// Returns an error if the grant is lost.
    pub(crate) fn check_loss(&self) -> Result<()> {
        self.loss().map_or(Ok(()), |reason| Err(self.lost_error(reason)))
    }

    /// Makes the error for a grant that was lost for `reason`.
    pub(crate) fn lost_error(&self, reason: LossReason) -> LockError {
        LockError::new(LockErrorKind::Lost, self.why_lost(reason))
            .with_loss(reason)
            .with_key(&self.claim().key)
    }

    /// Returns a text that says why the grant was lost.
    pub(super) fn why_lost(&self, reason: LossReason) -> &'static str {
        match reason {
            // This lease had no renewals, so the text must not mention a failed renewal.
            LossReason::Expired if !self.options.renew => {
                "its lease ran out, and it was not renewed (renew = false)"
            }
            reason => reason.text(),
        }
    }

    /// Returns an error if the grant was released.
    pub(crate) fn check_ended(&self) -> Result<()> {
        if !self.has_ended() {
            return Ok(());
        }
        Err(LockError::new(LockErrorKind::Lost, "it was given back").with_key(&self.claim().key))
    }

    /// Completes when the grant is lost. Never completes for a released grant.
    pub(crate) async fn lost(&self) -> LossReason {
        match self.engine.inside(async { Ok(self.until_lost().await) }).await {
            Ok(reason) => reason,
            // The call comes from outside of tokio, and the process cannot start a thread. Without a runtime there is
            // no timer.
            Err(_) => self.changed.until(|| self.loss()).await,
        }
    }

    async fn until_lost(&self) -> LossReason {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // `enable` registers for the notification before the check. Otherwise a loss between the two steps would be
            // missed.
            changed.as_mut().enable();
            if let Some(reason) = self.loss() {
                return reason;
            }
            // The renewer's notification may be late, because its runtime may have ended, or the log subscriber may
            // block its thread.
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
