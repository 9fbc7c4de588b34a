//! Turns a grant into a [`Hold`], which is the share of one guard in a lease.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Id;

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

/// How often a process renews a grant at the store while it keeps handing the grant off. The notification that other
/// processes wait may be lost; the answer to a renewal also reports them.
const CONFIRM: Duration = Duration::from_secs(1);

impl Acquire<'_> {
    /// Returns the grant that the store announced by a notification, if it can be used without another request.
    pub(super) fn served(&mut self, waiters: usize) -> Happened {
        match self.claim.served(waiters).filter(|_| !self.engine().capability.waiting.confirms()) {
            // All other cases need a heartbeat now. If the store confirms its grants, only the answer to a heartbeat
            // confirms this grant. If the lease will not be renewed, a heartbeat gives the lease its full length.
            Some(granted) if self.plan.options.renew || granted.grant.lease >= self.plan.ttl => {
                Happened::Won(Won::Store(granted))
            }
            _ => {
                self.claim.heartbeat_now();
                Event::Worthless.into()
            }
        }
    }

    /// Takes the notification that the store has granted the claim's entry, if the notification has arrived.
    pub(super) fn notification(&mut self) -> Option<Happened> {
        let waiters = self.claim.take_notification()?;
        Some(self.served(waiters))
    }

    /// Turns a grant into a hold. If the grant is unusable, returns `None`, and the wait continues.
    pub(super) async fn take(&mut self, won: Won, schedule: &Schedule) -> Result<Option<Hold>> {
        let engine = self.engine();
        // A shutdown that has begun by now does not wait for this guard. If this check fails, the drop of the claim or
        // of the hand-off releases the grant.
        engine.check_open()?;
        let (lease, length) = match won {
            Won::Store(granted) => (self.granted(&granted, schedule.runtime()), Some(granted.grant.lease)),
            Won::Handoff(handoff) => (self.handed_off(handoff, schedule.runtime()).await?, None),
        };
        let Some(lease) = lease else { return Ok(None) };
        let keep = |lease: &Arc<Lease>| match length {
            Some(length) => schedule.watch(lease, length),
            None => schedule.watch_handoff(lease),
        };
        let is_complete = !self.plan.fencing || lease.known_fence().is_some();
        // Renewals begin only when the grant has its fencing token. Until then this future may be no longer polled, and
        // renewals would keep the lease alive.
        if is_complete {
            keep(&lease);
        } else {
            schedule.watch_end(&lease);
        }
        if let Some(reason) = engine.lost.reason(lease.claim().owner) {
            // The loss was reported before the lease was in the schedule, so the report did not reach the lease.
            lease.lose(reason);
        }
        let hold = Hold::new(lease);
        if !is_complete {
            // This future and the next are boxed, because otherwise the future of every waiter would reserve memory for
            // them.
            if let Err(error) = Box::pin(hold.lease().fence()).await {
                // The release comes before the pause of `store_failed`, because the grant must not be kept while the
                // store fails.
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

    /// Makes the lease of a grant from the store. Returns `None` if the grant has already been reported as lost.
    fn granted(&mut self, granted: &Granted, runtime: Id) -> Option<Arc<Lease>> {
        let (engine, grant) = (self.engine(), &granted.grant);
        if engine.lost.reason(self.claim.claim.owner).is_some() {
            // The report of the loss arrived before this answer. The store may still have the grant, so the claim
            // releases it.
            self.claim.start_over(&engine.owners);
            // The last answer about the holder is out of date, so this waiter sends its next request after the pause of
            // its strategy.
            self.found = Found::default();
            return None;
        }
        // The span is made first: if the log subscriber panics here, the claim still rolls back.
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
        self.partial_grants.supersede();
        // A grant for one of several keys has no renewals of its own. The wait for the other keys renews this grant, as
        // long as that wait is polled.
        let options =
            LeaseOptions { renew: self.plan.options.renew && !self.plan.is_part, ..self.plan.options };
        let lease = Lease::new(grant.sent, Arc::clone(engine), runtime, claim, options, granted, span);
        engine.lease_began();
        Some(lease)
    }

    /// Makes the lease of a grant that a holder in this process has handed off. Returns `None` if the hand-off is
    /// unusable.
    async fn handed_off(&mut self, handoff: Handoff, runtime: Id) -> Result<Option<Arc<Lease>>> {
        let (engine, plan) = (self.engine(), self.plan);
        // The waiter is no longer in the queue. If the hand-off is unusable, the waiter joins the queue again, and
        // `max_waiters` must not refuse it.
        self.tries.has_queued |= self.waiter.take().is_some();
        let mut now = self.now();
        let handoff = match self.fitness(handoff.grant(), now) {
            // The store may keep the grant for longer than this request allows, or the grant is lost.
            Fitness::Worthless => return Ok(None),
            Fitness::Fits => handoff,
            Fitness::Short => {
                let extended = Box::pin(self.extended(handoff)).await;
                // The check is repeated, because a shutdown may have begun during the renewal.
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
            Lease::from_handoff(Arc::clone(engine), runtime, handed, plan.ttl, plan.options, span, now);
        engine.lease_began();
        Ok(Some(lease))
    }

    /// Returns how usable `grant`, which was handed off, is for this request. A lease without regular renewals must
    /// have the full length that was requested, so such a lease is renewed once before use.
    fn fitness(&self, grant: &HeldGrant, now: Moment) -> Fitness {
        let (engine, plan) = (self.engine(), self.plan);
        // If the store uses heartbeats, the notification that other processes wait may be lost. A recent confirmation
        // by the store also shows whether other processes wait.
        let knows_of_others =
            !engine.capability.waiting.by_heartbeats() || now.since(grant.confirmed()) < CONFIRM;
        match () {
            () if engine.outlasts(grant.store_until(), plan.ttl, now) => Fitness::Worthless,
            () if engine.lost.reason(grant.claim.owner).is_some() => Fitness::Worthless,
            () if !plan.options.renew || !knows_of_others => Fitness::Short,
            () if grant.deadline().remaining(now) < plan.ttl * 2 / 3 => Fitness::Short,
            () => Fitness::Fits,
        }
    }

    /// Renews a handed-off grant. Returns `None` if the renewal fails; the grant is then released.
    async fn extended(&self, handoff: Handoff) -> Option<Handoff> {
        let (engine, ttl) = (self.engine(), self.plan.ttl);
        // The requested lease is recorded before the await. If the hand-off is dropped during the await, its release is
        // repeated until this lease is over too.
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

/// How usable a hand-off is for the waiter that receives it.
enum Fitness {
    Fits,
    /// The grant must be renewed first.
    Short,
    Worthless,
}
