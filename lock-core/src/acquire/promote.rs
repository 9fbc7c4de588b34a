//! From a grant to the hold of a guard.

use std::sync::Arc;
use std::time::Duration;

use super::event::{Happened, Won};
use super::run::Acquire;
use super::spans::hold_span;
use super::state::Found;
use super::step::{Asked, Event};
use crate::backend::Renewal;
use crate::clock::Moment;
use crate::error::Result;
use crate::guard::Hold;
use crate::lease::{Lease, Schedule};
use crate::local_queue::{Handoff, HeldGrant};
use crate::options::LeaseOptions;
use crate::pending::Granted;

/// How often a process that hands a grant off still asks the store. If the notification that others wait was lost, the
/// answer reports them.
const CONFIRM: Duration = Duration::from_secs(1);

impl Acquire<'_> {
    /// Returns the grant that a notification of the store promised, if it can be used unchanged.
    pub(super) fn served(&mut self, waiters: usize) -> Happened {
        match self.claim.served(waiters).filter(|_| !self.engine().capability.waiting.confirms()) {
            // A store that confirms its grants does so with the answer to the next heartbeat, which is due now. A lease
            // that is never renewed must be granted in full, which the next heartbeat does.
            Some(granted) if self.plan.options.renew || granted.grant.lease >= self.plan.ttl => {
                Happened::Won(Won::Store(granted))
            }
            _ => {
                self.claim.heartbeat_now();
                Event::Worthless.into()
            }
        }
    }

    /// Takes the notification that the store has granted the entry, if it has arrived.
    pub(super) fn notification(&mut self) -> Option<Happened> {
        let waiters = self.claim.take_notification()?;
        Some(self.served(waiters))
    }

    /// Makes the hold of a grant. Returns `None` if the grant is of no use, and the wait continues.
    pub(super) async fn take(&mut self, won: Won, schedule: &Schedule<Lease>) -> Result<Option<Hold>> {
        let engine = self.engine();
        // A shutdown that began meanwhile does not wait for guards that come after it. Dropping the grant releases it.
        engine.check_open()?;
        let (lease, length) = match won {
            Won::Store(granted) => (self.granted(&granted, schedule), Some(granted.grant.lease)),
            Won::Handoff(handoff) => (self.handed_off(handoff, schedule).await?, None),
        };
        let Some(lease) = lease else { return Ok(None) };
        let keep = |lease: &Arc<Lease>| match length {
            Some(length) => schedule.watch(lease, length),
            None => schedule.watch_handoff(lease),
        };
        let is_complete = !self.plan.fencing || lease.known_fence().is_some();
        // A future that is no longer polled must not keep its lease, so renewals wait until the grant is complete.
        if is_complete {
            keep(&lease);
        } else {
            schedule.watch_end(&lease);
        }
        if let Some(reason) = engine.reported_lost(lease.claim().owner) {
            // The loss was reported between the check above and the listing of the lease.
            lease.lose(reason);
        }
        let hold = Hold::new(lease);
        if !is_complete {
            // The future is boxed, here and below, because the future of every waiter would have room for it.
            if let Err(error) = Box::pin(hold.lease().fence()).await {
                // This comes before the pause: the grant must not be kept while the store fails.
                hold.release_to_store();
                if !error.is_lost() {
                    Box::pin(self.store_failed(error)).await?;
                }
                return Ok(None);
            }
            engine.check_open()?;
            keep(hold.lease());
        }
        Ok(Some(hold))
    }

    /// Makes the lease of a grant of the store. Returns `None` if the grant is reported as lost already.
    fn granted(&mut self, granted: &Granted, schedule: &Schedule<Lease>) -> Option<Arc<Lease>> {
        let (engine, grant) = (self.engine(), &granted.grant);
        if engine.reported_lost(self.claim.claim.owner).is_some() {
            // The report overtook the answer. A grant that the store may still have is released by its owner.
            self.claim.start_over(&engine.owners);
            // This waiter asks again after its pause, regardless of the previous holder.
            self.found = Found::nothing();
            return None;
        }
        // This comes first: if a log panics here, the claim rolls back.
        let span = hold_span(self.plan);
        let contended = grant.waiters.is_some_and(|waiters| waiters > 0);
        let owner = self.claim.claim.owner;
        if let Some(mut waiter) = self.waiter.take() {
            waiter.granted(owner, contended);
            if self.state.asked == Asked::Fresh && grant.waiters == Some(0) {
                engine.local_queue.record_held(&self.plan.key, false);
            }
        } else if let Some(expected) = &self.expected {
            expected.granted(owner, contended);
        }
        let claim = self.claim.take(&engine.owners);
        if contended {
            claim.mark_contended();
        }
        self.partial_grants.supersede();
        // One key of several is renewed by the wait for the others, for as long as that wait is polled.
        let options =
            LeaseOptions { renew: self.plan.options.renew && !self.plan.is_part, ..self.plan.options };
        let lease = Lease::new(Arc::clone(engine), schedule, claim, options, granted, span);
        engine.lease_began();
        Some(lease)
    }

    /// Makes the lease of a grant that a holder of this process hands off. Returns `None` if the hand-off is of no use.
    async fn handed_off(
        &mut self,
        handoff: Handoff,
        schedule: &Schedule<Lease>,
    ) -> Result<Option<Arc<Lease>>> {
        let (engine, plan) = (self.engine(), self.plan);
        // The waiter has left the queue. If the hand-off is of no use, it joins again, and is not refused.
        self.tries.has_queued |= self.waiter.take().is_some();
        let mut now = self.now();
        let handoff = match self.fitness(handoff.grant(), now) {
            // The grant was meant for another waiter, or is lost.
            Fitness::Worthless => return Ok(None),
            Fitness::Fits => handoff,
            Fitness::Short => {
                let extended = Box::pin(self.extended(handoff)).await;
                // This is checked again: a shutdown may have begun while the renewal was under way.
                engine.check_open()?;
                let Some(handoff) = extended else { return Ok(None) };
                now = self.now();
                if handoff.grant().deadline().is_past(now) {
                    return Ok(None);
                }
                handoff
            }
        };
        let span = hold_span(plan);
        let handed = handoff.accept();
        let lease =
            Lease::from_handoff(Arc::clone(engine), schedule, handed, plan.ttl, plan.options, span, now);
        engine.lease_began();
        Ok(Some(lease))
    }

    /// Returns the use of a hand-off. A holder must not get less than it requests: a lease that will not be renewed
    /// must be granted in full.
    fn fitness(&self, grant: &HeldGrant, now: Moment) -> Fitness {
        let (engine, plan) = (self.engine(), self.plan);
        // Over a store that takes heartbeats, the notification that others wait elsewhere may be lost.
        let knows_of_others =
            !engine.capability.waiting.by_heartbeats() || now.since(grant.confirmed()) < CONFIRM;
        match () {
            () if engine.outlasts(grant.store_until(), plan.ttl, now) => Fitness::Worthless,
            () if engine.reported_lost(grant.claim.owner).is_some() => Fitness::Worthless,
            () if !plan.options.renew || !knows_of_others => Fitness::Short,
            () if grant.deadline().remaining(now) < plan.ttl * 2 / 3 => Fitness::Short,
            () => Fitness::Fits,
        }
    }

    /// Renews a hand-off. Returns `None` if that fails, and the grant is released.
    async fn extended(&self, handoff: Handoff) -> Option<Handoff> {
        let (engine, ttl) = (self.engine(), self.plan.ttl);
        // This comes before the await: the release of a hand-off that is dropped there is repeated for as long as the
        // store may have the longer lease.
        handoff.asked(ttl);
        let answer = engine.store.renew_one(handoff.claim(), ttl).await;
        let Renewal::Renewed { sent, lease: length, waiters } = answer else { return None };
        handoff.leased(sent, length);
        if waiters.is_some_and(|waiters| waiters > 0) {
            engine.local_queue.contended(&self.plan.key);
        }
        Some(handoff)
    }
}

/// The use of a hand-off for the waiter that takes it.
enum Fitness {
    Fits,
    /// It must be renewed first.
    Short,
    Worthless,
}
