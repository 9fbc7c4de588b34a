//! Handing the grant of a lease off to the next holder of this process.

use std::sync::Arc;
use std::sync::atomic::{self, Ordering};
use std::time::Duration;

use super::deadline::{Bounds, ends_by_itself};
use super::lease::{Lease, LeaseOptions, Start};
use super::schedule::Schedule;
use super::state;
use crate::backend::{Mode, Queue};
use crate::engine::Engine;
use crate::expiry;
use crate::local_queue::{Handoff, HandoffLease};

impl Lease {
    /// A lease for a grant that was handed off, which asks for `ttl` from its next renewal on.
    pub(crate) fn from_handoff(
        engine: Arc<Engine>,
        schedule: &Arc<Schedule<Self>>,
        handed: HandoffLease,
        ttl: Duration,
        options: LeaseOptions,
        span: tracing::Span,
    ) -> Arc<Self> {
        let now = engine.clock.now();
        let HandoffLease { claim, mut deadline, mut store_until, confirmed, sequence } = handed;
        if ends_by_itself(&engine, &options) {
            // The holder before it may have counted the whole lease of the session.
            let safe = expiry::safe(engine.capability.placement, ttl);
            deadline = deadline.earlier(confirmed.plus(safe), now);
            store_until = store_until.earlier(expiry::forgotten(confirmed, ttl), now);
        }
        let bounds = Bounds { deadline, store_until, confirmed };
        let start = Start { since: now, ttl, bounds, fence: None, earlier: sequence };
        Self::start(engine, schedule, claim, options, start, span)
    }

    /// Returns the grant for the next holder. Returns `None` where it must go back to the store: it is lost, its
    /// `min_hold` is not over, its kind queues in the store, or the manager closes.
    ///
    /// `ttl` is what the next holder asks for; `None` where there is none yet, who then looks for itself. What is left of the lease must not be longer, or a crash of the next
    /// holder would keep others out for longer than it said. Where all grants live in a session, every crash costs what
    /// is left of that.
    ///
    /// For the last guard, once it has left: nobody uses the grant any more, and nobody else can hand it off.
    pub(crate) fn as_handoff(&self, ttl: Option<Duration>) -> Option<Handoff> {
        // A waiter of a local queue waits for one key, so a grant of several would keep the others taken. A manager
        // that closes waits for the guards it has, and a hand-off would make another.
        let passes = self.options.kind.queue() == Queue::Barging
            && self.claim.mode == Mode::Exclusive
            && self.claim.more.is_empty()
            && self.engine.check_open().is_ok()
            && self.keep_for().is_none();
        let now = self.now();
        // A loss that was reported is still seen here, because `leave` does not change the state of a lost lease.
        if !passes
            || self.deadline().is_past(now)
            || self.is_revoked()
            || ttl.is_some_and(|ttl| self.engine.outlasts(self.store_until(), ttl, now))
        {
            return None;
        }
        // Pairs with the fence in `fence`. Either this sees the number that was just given, or the lease that gave it
        // sees that it has ended, and keeps the number to itself.
        atomic::fence(Ordering::SeqCst);
        let known = *self.fence.lock();
        let sequence = match known {
            // The store's token is ahead of this process: the next holder asks the store.
            Some(_) if self.claim.is_fence_ahead() => None,
            Some(made) => Some(made),
            None => self.earlier,
        };
        let mut claim = self.claim.clone();
        // The store makes one token for each number of hand-offs: with the old number, the next holder would get the
        // token of this one.
        claim.handoffs += 1;
        let handed = HandoffLease {
            claim,
            deadline: self.deadline(),
            store_until: self.store_until(),
            confirmed: self.confirmed.get(),
            sequence,
        };
        Some(Handoff::new(Arc::clone(&self.engine.cleanup), Box::new(handed)))
    }

    /// Ends the lease without a release: another lease has the grant now.
    pub(crate) fn supersede(&self) {
        self.state.store(state::ENDED, Ordering::Release);
    }
}
