//! Handles a lingering grant: a grant that this process keeps after its guard was released. The next acquisition uses
//! the grant, or releases it before its own request.

use super::run::Acquire;
use crate::backend::{Mode, Queue};
use crate::local_queue::{Expected, Handoff};

impl Acquire<'_> {
    /// Takes the grant that lingers in this process, if this request may use it. Otherwise releases the grant, because
    /// the store would refuse the request while the grant exists.
    pub(super) async fn lingering(&mut self) -> Option<Handoff> {
        for key in self.plan.keys() {
            let Some(handoff) = self.engine().local_queue.take_lingering(key) else { continue };
            if self.may_have(&handoff) {
                return Some(handoff);
            }
            // This future is boxed, because it is rarely needed and would enlarge the future of every acquisition.
            Box::pin(self.give_back(handoff)).await;
        }
        if self.plan.options.linger.is_some() {
            // This value is made before the request, because the notification that another process waits may arrive
            // before the answer.
            self.expected = Some(Expected::new(&self.engine().local_queue, &self.plan.key));
        }
        None
    }

    fn may_have(&self, handoff: &Handoff) -> bool {
        let (plan, engine, grant, now) = (self.plan, self.engine(), handoff.grant(), self.now());
        // The rules are the same as for a hand-off. A kind that queues in the store must wait in that queue. If the
        // lease were longer than requested and the new holder crashed, the key would stay locked for too long.
        plan.options.kind.queue() == Queue::Barging
            && plan.options.kind.mode() == Mode::Exclusive
            && plan.more.is_empty()
            && !grant.deadline().is_past(now)
            && !engine.outlasts(grant.store_until(), plan.ttl, now)
            && engine.lost.reason(grant.claim.owner).is_none()
    }

    /// Releases a grant, and waits for the answer. If the store does not answer, the release continues in the
    /// background.
    async fn give_back(&self, mut handoff: Handoff) {
        handoff.begin_release();
        // The grant stays in `handoff` until the answer. If the future is dropped at this await, the drop of `handoff`
        // releases the grant in the background.
        if self.engine().release(handoff.claim(), None).await.is_ok() {
            drop(handoff.accept());
        }
    }
}
