//! The claim of an acquisition, made when it is first needed.

use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use super::plan::Plan;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::pending::{LeftEntry, PendingClaim};

/// A claim that is made before the store is first asked for it. Whoever is handed the grant of another never needs one.
pub(super) struct LazyClaim<'a> {
    plan: &'a Plan,
    /// When the request began.
    started: Moment,
    /// Boxed: most of those who wait are handed a grant, and an allocator serves the rest of [`Acquire`](super::run::Acquire)
    /// faster without it.
    made: OnceLock<Box<PendingClaim>>,
}

impl<'a> LazyClaim<'a> {
    /// A claim for a request that began at `started`.
    pub(super) fn new(plan: &'a Plan, started: Moment) -> Self {
        Self { plan, started, made: OnceLock::new() }
    }

    /// A claim that is there already.
    pub(super) fn made(plan: &'a Plan, started: Moment, claim: PendingClaim) -> Self {
        Self { plan, started, made: OnceLock::from(Box::new(claim)) }
    }

    fn make(&self) -> PendingClaim {
        let engine = self.plan.engine();
        PendingClaim::new(&engine.cleanup, self.plan.claim_since(self.started, engine.clock.now()))
    }

    /// As [`PendingClaim::is_queued`].
    pub(super) fn is_queued(&self) -> bool {
        self.made.get().is_some_and(|claim| claim.is_queued())
    }

    /// As [`PendingClaim::notified`].
    pub(super) async fn notified(&self) -> usize {
        match self.made.get() {
            Some(claim) => claim.notified().await,
            None => std::future::pending().await,
        }
    }

    /// As [`PendingClaim::take_notification`].
    pub(super) fn take_notification(&self) -> Option<usize> {
        self.made.get()?.take_notification()
    }

    /// As [`PendingClaim::leave`].
    pub(super) async fn leave(&mut self, engine: &Engine) {
        if let Some(claim) = self.made.get_mut() {
            claim.leave(engine).await;
        }
    }

    /// As [`PendingClaim::take_entry`].
    pub(super) fn take_entry(&mut self) -> Option<LeftEntry> {
        self.made.get_mut()?.take_entry()
    }
}

impl Deref for LazyClaim<'_> {
    type Target = PendingClaim;

    fn deref(&self) -> &PendingClaim {
        self.made.get_or_init(|| Box::new(self.make()))
    }
}

impl DerefMut for LazyClaim<'_> {
    fn deref_mut(&mut self) -> &mut PendingClaim {
        if self.made.get().is_none() {
            self.made = OnceLock::from(Box::new(self.make()));
        }
        self.made.get_mut().expect("BUG: it was just made")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::manager::LockManager;

    /// Whoever becomes the head of the local queue late has waited all the same.
    #[tokio::test(start_paused = true)]
    async fn the_record_says_when_the_request_began() {
        const WAITED: Duration = Duration::from_secs(30);
        let locks = LockManager::in_memory();
        let plan = locks.lock("k").plan().expect("it is a good request");
        let started = plan.engine().clock.now();
        let (early, late) = (LazyClaim::new(&plan, started), LazyClaim::new(&plan, started));
        let early = early.claim.record.since_epoch();
        tokio::time::advance(WAITED).await;
        let late = late.claim.record.since_epoch();
        // Whatever the wall clock says by now, which is not paused.
        assert!(late + WAITED / 2 < early, "{early:?}, {late:?}");
    }

    #[test]
    fn nothing_is_made_for_whoever_asks_nothing() {
        let locks = LockManager::in_memory();
        let plan = locks.lock("k").plan().expect("it is a good request");
        let mut claim = LazyClaim::new(&plan, plan.engine().clock.now());
        assert!(!claim.is_queued() && claim.take_notification().is_none() && claim.take_entry().is_none());
        assert!(claim.made.get().is_none());
    }
}
