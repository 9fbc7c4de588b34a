//! Waiting in a group of a fair lock, and the answers that concern all of it.

use super::event::Answer;
use super::run::Acquire;
use crate::backend::{Ask, Held};
use crate::error::Result;
use crate::local_queue::{Placed, Waiter};
use crate::owner::OwnerSource;

impl Acquire<'_> {
    /// Joins a group of the fair lock. Returns whether the store must be asked at once.
    pub(super) fn joins_group(&mut self) -> bool {
        let waiter = Waiter::join_group(&self.engine.local_queue, &self.plan.key, self.plan.ttl);
        let asks = waiter.take_ask();
        self.waiter = Some(waiter);
        self.claim.unless_sent(OwnerSource::mint_grouped);
        asks
    }

    /// Returns whether it asks the store now, where it wants a place for its group. A head that steps back is told when to
    /// ask.
    ///
    /// While a grant is handed on here, and others wait for it elsewhere, the tasks that have it next run first. Those
    /// who release it at once come again before this request is sent, and share the place. Otherwise each of them would
    /// have a place of its own, the processes would take turns after each hold, and hardly any grant would be handed on.
    pub(super) async fn asks_now(&mut self, ask: Ask) -> bool {
        if !ask.enqueues() || self.claim.is_queued() {
            return true;
        }
        let gives_way = |waiter: &&Waiter<'_>| waiter.is_grouped() && waiter.gives_way();
        let Some(waiter) = self.waiter.as_ref().filter(gives_way) else { return true };
        // The clock is to be read again.
        self.has_awaited = true;
        // As a rule the runtime polls this task again when its worker has no other one that is ready.
        tokio::task::yield_now().await;
        waiter.asks_or_steps_back()
    }

    /// Returns whether it waits in a group of a fair lock.
    pub(super) fn is_in_group(&self) -> bool {
        self.waiter.as_ref().is_some_and(Waiter::is_grouped)
    }

    /// Leaves its group. A queue entry that others share goes to the next of them; one that nobody shares stays with
    /// the claim, and nobody joins it any more.
    pub(super) fn leave_group(&mut self) {
        let Some(waiter) = self.waiter.take_if(|waiter| waiter.is_grouped()) else { return };
        if let Some(unshared) = waiter.leave_with(self.claim.take_entry()) {
            self.claim.replace(unshared);
        }
    }

    /// Asks the store. Meanwhile the local queue does not take its head for stalled.
    pub(super) async fn answer(&mut self, ask: Ask) -> Result<Answer> {
        loop {
            // Once more: it may have waited for the end of a release.
            self.set_asking(true);
            let answer = self.claim.ask(self.engine, ask).await;
            let has_place = self.has_place(&answer);
            // A group takes nobody in between the answer and the note of it: `granted` makes that of a grant.
            if !(self.is_in_group() && matches!(answer, Ok(Answer::Granted(_)))) {
                self.set_asking(false);
            }
            if has_place {
                return answer;
            }
            // The grant that it was to share has ended. With such an owner, it gets a place of its own.
            self.claim.unless_sent(OwnerSource::mint_strict);
        }
    }

    /// Notes in the local queue whether it awaits an answer of the store.
    pub(super) fn set_asking(&self, asking: bool) {
        if let Some(waiter) = &self.waiter {
            waiter.set_asking(asking, self.engine.clock.now());
        }
    }

    /// Notes an answer for the group of this waiter. Returns `false` where it stands behind a grant that is gone.
    fn has_place(&self, answer: &Result<Answer>) -> bool {
        let Some(waiter) = self.waiter.as_ref().filter(|waiter| waiter.is_grouped()) else { return true };
        let has_place = waiter.answered(match answer {
            // Noted when there is a lease.
            Ok(Answer::Granted(_)) => return true,
            Ok(Answer::Held(Held { behind: Some(owner), .. })) if self.claim.claim.owner.is_grouped() => {
                Placed::Behind(*owner)
            }
            _ if self.claim.is_queued() => Placed::Queued(self.claim.claim.owner),
            _ => Placed::Nowhere,
        });
        if let Ok(Answer::Held(held)) = answer {
            waiter.heard(held.clone());
        }
        has_place
    }

    /// Tells those who wait behind this one that it has the grant with this many others waiting in the store.
    pub(super) fn tell_group_of_grant(&self, waiters: Option<usize>) {
        if let Some(waiter) = self.waiter.as_ref().filter(|waiter| waiter.is_grouped()) {
            let holder = Some(self.claim.claim.record.clone());
            waiter.heard(Held { holder, waiters, ..Held::default() });
        }
    }

    /// Returns what the store has said last to the group of this waiter, if it waits in one.
    pub(super) fn held_by(&self) -> Option<Held> {
        self.waiter.as_ref().filter(|waiter| waiter.is_grouped())?.last_heard()
    }
}
