//! From a grant to the hold of a guard.

use std::sync::Arc;
use std::time::Duration;

use super::event::{Taken, Won};
use super::run::Acquire;
use super::spans::hold_span;
use super::state::{Holder, LastQuestion};
use crate::backend::{BoxFuture, Renewal};
use crate::clock::Moment;
use crate::error::Result;
use crate::guard::Hold;
use crate::lease::{Lease, Schedule};
use crate::local_queue::{Handoff, HeldGrant};
use crate::options::LeaseOptions;
use crate::pending::Granted;

/// How often a process that hands a grant off asks the store all the same. If the notification that others wait was
/// lost, the answer says so.
const CONFIRM: Duration = Duration::from_secs(1);

impl Acquire<'_> {
    /// Returns the grant that a notification of the store promised, if it can be used as it is.
    pub(super) fn served(&mut self, waiters: usize) -> Option<Won> {
        match self.claim.served(waiters).filter(|_| !self.engine.capability.waiting.confirms()) {
            // A store that confirms its grants does so with the answer to the next heartbeat, which is due now. A lease
            // that is never renewed must be the whole one, which the next heartbeat brings.
            Some(granted) if self.plan.options.renew || granted.grant.lease >= self.plan.ttl => {
                Some(Won::Queued(granted))
            }
            _ => {
                self.claim.heartbeat_now();
                None
            }
        }
    }

    /// Takes a hand-off that lacks nothing, which is the rule on a hot key: without a future for what the others ask of the
    /// store. The steps and their order are those of [`take`](Self::take).
    pub(super) fn take_now(&mut self, handoff: Handoff, schedule: &Schedule<Lease>) -> Result<Taken> {
        // Dropping the hand-off releases it.
        self.engine.check_open()?;
        let now = self.engine.clock.now();
        if self.lacks_something(handoff.grant(), now) {
            return Ok(Taken::Lacks(handoff));
        }
        self.has_queued |= self.waiter.take().is_some();
        let lease = self.handed_off(handoff, schedule, now);
        schedule.watch_handoff(&lease);
        if let Some(reason) = self.engine.reported_lost(lease.claim().owner) {
            lease.lose(reason);
        }
        Ok(Taken::Hold(Hold::new(lease)))
    }

    /// Returns whether a hand-off must be renewed first, lacks its token, or is worth nothing.
    fn lacks_something(&self, grant: &HeldGrant, now: Moment) -> bool {
        let (plan, left) = (self.plan, grant.deadline().remaining(now));
        if !plan.options.renew || plan.fencing || self.engine.reported_lost(grant.claim.owner).is_some() {
            return true;
        }
        self.engine.outlasts(grant.store_until(), plan.ttl, now)
            || !self.knows_of_others(grant.confirmed(), now)
            || left < plan.ttl * 2 / 3
    }

    /// Makes the hold of a grant. Returns `None` where the grant turned out to be worth nothing, and the wait goes on.
    ///
    /// Boxed, because the future of every waiter would have room for this one.
    pub(super) fn take<'s>(
        &'s mut self,
        won: Won,
        schedule: &'s Schedule<Lease>,
    ) -> BoxFuture<'s, Result<Option<Hold>>> {
        Box::pin(self.taking(won, schedule))
    }

    async fn taking(&mut self, won: Won, schedule: &Schedule<Lease>) -> Result<Option<Hold>> {
        // A shutdown that began meanwhile does not wait for guards that come after it. Dropping the grant releases it.
        self.engine.check_open()?;
        // As in `take_now`.
        let length = match &won {
            Won::Store(granted) | Won::Queued(granted) => Some(granted.grant.lease),
            Won::Handoff(_) => None,
        };
        let Some(lease) = self.lease(won, schedule).await? else { return Ok(None) };
        let keep = |lease: &Arc<Lease>| match length {
            Some(length) => schedule.watch(lease, length),
            None => schedule.watch_handoff(lease),
        };
        let is_incomplete = self.plan.fencing && lease.known_fence().is_none();
        // A future that is not polled any more must not keep its lease, so renewals wait until the grant is complete.
        if is_incomplete {
            schedule.watch_end(&lease);
        } else {
            keep(&lease);
        }
        if let Some(reason) = self.engine.reported_lost(lease.claim().owner) {
            // Reported between the check above and the lease, which nobody knew then.
            lease.lose(reason);
        }
        let hold = Hold::new(lease);
        if is_incomplete && let Err(error) = hold.lease().fence().await {
            // Before the pause: the grant must not be kept while the store fails.
            hold.release_to_store();
            if !error.is_lost() {
                self.store_failed(error).await?;
            }
            return Ok(None);
        }
        if is_incomplete {
            self.engine.check_open()?;
            keep(hold.lease());
        }
        Ok(Some(hold))
    }

    /// Makes a lease of a grant. Returns `None` where it is worth nothing.
    async fn lease(&mut self, won: Won, schedule: &Schedule<Lease>) -> Result<Option<Arc<Lease>>> {
        let handoff = match won {
            // The report overtook the answer. What the store may have of the grant is released by its owner.
            Won::Store(_) | Won::Queued(_) if self.engine.reported_lost(self.claim.claim.owner).is_some() => {
                self.claim.start_over(&self.engine.owners);
                // Whoever held the key before, this waiter asks again after its pause.
                self.holder = Holder::Elsewhere;
                return Ok(None);
            }
            Won::Store(granted) | Won::Queued(granted) => return Ok(Some(self.granted(&granted, schedule))),
            Won::Handoff(handoff) => handoff,
        };
        // It has left the queue. If the hand-off is worth nothing, it joins again, and is not turned down.
        self.has_queued |= self.waiter.take().is_some();
        let handoff = self.extended(handoff).await;
        // Once more: a shutdown may have begun while the renewal was under way.
        self.engine.check_open()?;
        Ok(handoff.map(|(handoff, now)| self.handed_off(handoff, schedule, now)))
    }

    /// Returns whether it is known whether others wait elsewhere. Over a store that takes heartbeats, the notification of
    /// that may be lost.
    fn knows_of_others(&self, confirmed: Moment, now: Moment) -> bool {
        !self.engine.capability.waiting.by_heartbeats() || now.since(confirmed) < CONFIRM
    }

    fn granted(&mut self, granted: &Granted, schedule: &Schedule<Lease>) -> Arc<Lease> {
        // First: a log that panics here leaves the claim, which then rolls back.
        let span = hold_span(self.plan);
        let grant = &granted.grant;
        let contended = grant.waiters.is_some_and(|waiters| waiters > 0);
        let owner = self.claim.claim.owner;
        // Before the local queue knows of the grant: with it, those who wait rely on a lease, and a log may panic.
        self.record_attempts();
        if let Some(mut waiter) = self.waiter.take() {
            waiter.granted(owner, contended);
            if self.question == LastQuestion::Fresh && grant.waiters == Some(0) {
                self.engine.local_queue.record_held(&self.plan.key, false);
            }
        } else if let Some(expected) = &self.expected {
            expected.granted(owner, contended);
        }
        let claim = self.claim.take(&self.engine.owners);
        if contended {
            claim.mark_contended();
        }
        self.partial_grants.supersede();
        // One key of several is renewed by who waits for the others, for as long as that is polled.
        let options =
            LeaseOptions { renew: self.plan.options.renew && !self.plan.is_part, ..self.plan.options };
        let lease = Lease::new(Arc::clone(self.engine), schedule, claim, options, granted, span);
        self.engine.lease_began();
        lease
    }

    /// Extends a hand-off with less than two thirds of the lease that its holder asks for, and every one that will not
    /// be renewed: a holder must not get less than it asks for. Returns it with the time. Returns `None` where that fails,
    /// and the grant is released.
    async fn extended(&self, handoff: Handoff) -> Option<(Handoff, Moment)> {
        let (now, ttl) = (self.engine.clock.now(), self.plan.ttl);
        let grant = handoff.grant();
        if self.engine.outlasts(grant.store_until(), ttl, now)
            || self.engine.reported_lost(grant.claim.owner).is_some()
        {
            // It was meant for another waiter, or is lost.
            return None;
        }
        let known = self.knows_of_others(grant.confirmed(), now);
        if self.plan.options.renew && known && grant.deadline().remaining(now) >= ttl * 2 / 3 {
            return Some((handoff, now));
        }
        // Before the await: a hand-off that is dropped there is released for as long as the store may have the longer
        // lease.
        handoff.asked(ttl);
        let Renewal::Renewed { sent, lease: length, waiters } =
            self.engine.store.renew_one(handoff.claim(), ttl).await
        else {
            return None;
        };
        handoff.leased(sent, length);
        if waiters.is_some_and(|waiters| waiters > 0) {
            self.engine.local_queue.contended(&self.plan.key);
        }
        let now = self.engine.clock.now();
        let late = handoff.grant().deadline().is_past(now);
        (!late).then_some((handoff, now))
    }

    fn handed_off(&mut self, handoff: Handoff, schedule: &Schedule<Lease>, now: Moment) -> Arc<Lease> {
        self.record_attempts();
        let span = hold_span(self.plan);
        let (engine, handed) = (Arc::clone(self.engine), handoff.accept());
        let (ttl, options) = (self.plan.ttl, self.plan.options);
        let lease = Lease::from_handoff(engine, schedule, handed, ttl, options, span, now);
        self.engine.lease_began();
        lease
    }
}
