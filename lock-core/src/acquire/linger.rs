//! The grant that lingers in this process: taken by the next acquisition, or released before its request.

use super::run::Acquire;
use crate::backend::{Mode, Queue};
use crate::local_queue::{Expected, Handoff};

impl Acquire<'_> {
    /// Takes the grant that lingers in this process, if this request may have it. A grant that it may not take is
    /// released first: the store would refuse the request because of it.
    pub(super) async fn lingering(&mut self) -> Option<Handoff> {
        for key in self.plan.keys() {
            let Some(handoff) = self.engine().local_queue.take_lingering(key) else { continue };
            if self.may_have(&handoff) {
                return Some(handoff);
            }
            // Boxed, because it is rare, and the future of every acquisition would hold it.
            Box::pin(self.give_back(handoff)).await;
        }
        if self.plan.options.linger.is_some() {
            // This comes before the request: the notification of a waiter may overtake the answer.
            self.expected = Some(Expected::new(&self.engine().local_queue, &self.plan.key));
        }
        None
    }

    fn may_have(&self, handoff: &Handoff) -> bool {
        let (plan, engine, grant, now) = (self.plan, self.engine(), handoff.grant(), self.now());
        // The rule is that of a hand-off: a kind that queues in the store has its place there, and a crash of the new
        // holder must not lock the key for longer than requested.
        plan.options.kind.queue() == Queue::Barging
            && plan.options.kind.mode() == Mode::Exclusive
            && plan.more.is_empty()
            && !grant.deadline().is_past(now)
            && !engine.outlasts(grant.store_until(), plan.ttl, now)
            && engine.reported_lost(grant.claim.owner).is_none()
    }

    /// Releases a grant, and waits for the answer. Without one, the release continues in the background.
    async fn give_back(&self, mut handoff: Handoff) {
        handoff.begin_release();
        // The grant is settled only by the answer: a future that is dropped at this await releases it in the
        // background.
        if self.engine().release(handoff.claim(), None).await.is_ok() {
            drop(handoff.accept());
        }
    }
}
