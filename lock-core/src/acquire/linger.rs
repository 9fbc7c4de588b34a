//! Handles the grant that lingers in this process: the next acquisition uses it, or releases it before its own request.

use super::run::Acquire;
use crate::backend::{Mode, Queue};
use crate::local_queue::{Expected, Handoff};

impl Acquire<'_> {
    /// Takes the grant that lingers in this process, if this request may use it. Otherwise the grant is released first,
    /// because the store would refuse the request while the grant exists.
    pub(super) async fn lingering(&mut self) -> Option<Handoff> {
        for key in self.plan.keys() {
            let Some(handoff) = self.engine().local_queue.take_lingering(key) else { continue };
            if self.may_have(&handoff) {
                return Some(handoff);
            }
            // This future is boxed because it is rarely needed, and would otherwise enlarge the future of every
            // acquisition.
            Box::pin(self.give_back(handoff)).await;
        }
        if self.plan.options.linger.is_some() {
            // This comes before the request, because the notification that another process waits may arrive before the
            // answer.
            self.expected = Some(Expected::new(&self.engine().local_queue, &self.plan.key));
        }
        None
    }

    fn may_have(&self, handoff: &Handoff) -> bool {
        let (plan, engine, grant, now) = (self.plan, self.engine(), handoff.grant(), self.now());
        // The rule is the same as for a hand-off. A kind that queues in the store must wait in that queue. A lease that
        // is longer than requested would lock the key for too long if the new holder crashed.
        plan.options.kind.queue() == Queue::Barging
            && plan.options.kind.mode() == Mode::Exclusive
            && plan.more.is_empty()
            && !grant.deadline().is_past(now)
            && !engine.outlasts(grant.store_until(), plan.ttl, now)
            && engine.reported_lost(grant.claim.owner).is_none()
    }

    /// Releases a grant, and waits for the answer. If the store does not answer, the release continues in the
    /// background.
    async fn give_back(&self, mut handoff: Handoff) {
        handoff.begin_release();
        // Only the answer settles the grant: if the future is dropped at this await, the grant is released in the
        // background.
        if self.engine().release(handoff.claim(), None).await.is_ok() {
            drop(handoff.accept());
        }
    }
}
