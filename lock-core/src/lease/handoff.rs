//! Hands the grant of a lease off to the next holder in this process.

use std::sync::Arc;
use std::sync::atomic::{self, Ordering};
use std::time::Duration;

use tokio::runtime::Id;

use super::bounds::ends_by_itself;
use super::lease::{Lease, Start};
use super::state;
use crate::backend::Mode;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::expiry;
use crate::local_queue::{Handoff, HeldGrant};
use crate::options::LeaseOptions;

impl Lease {
    /// Makes a lease that starts at `now`, for a grant that was handed off. Renewals of the lease request `ttl`.
    pub(crate) fn from_handoff(
        engine: Arc<Engine>,
        runtime: Id,
        handed: Arc<HeldGrant>,
        ttl: Duration,
        options: LeaseOptions,
        span: tracing::Span,
        now: Moment,
    ) -> Arc<Self> {
        let handoffs = handed.handoffs();
        let ends_by_itself = ends_by_itself(&engine, &options);
        let start = Start { since: now, ttl, handoffs, fence: None };
        if ends_by_itself || handed.claim.renews != options.renew {
            let mut bounds = handed.bounds();
            if ends_by_itself {
                // The previous holder may have used the length of the session as its bound, so the bounds are limited
                // to `ttl`.
                let until = expiry::held_until(engine.capability.placement, bounds.confirmed, ttl);
                bounds.deadline = bounds.deadline.earlier(until, now);
                bounds.store_until =
                    bounds.store_until.earlier(expiry::forgotten(bounds.confirmed, ttl), now);
            }
            let grant = Arc::new(handed.copy(options.renew, bounds));
            return Self::start(engine, runtime, grant, options, start, span);
        }
        Self::start(engine, runtime, handed, options, start, span)
    }

    /// Records that a transaction of the application is about to verify the lease. After this, the grant is released at
    /// the store instead of being handed off. The store refuses the key to others until the transaction has ended. Only
    /// the store knows when this happens.
    ///
    /// The caller must check the lease after this call. Either that check finds that the lease has ended, or
    /// `as_handoff` finds this record.
    pub(crate) fn note_verified(&self) {
        // After the end of this lease, the claim may belong to the next holder, so it must not be marked. The caller's
        // check then fails.
        if self.has_ended() {
            return;
        }
        self.claim().mark_verified();
        atomic::fence(Ordering::SeqCst);
    }

    /// Returns the grant for the next holder, or `None` if the grant must be released at the store. The grant must be
    /// released if it is lost, if its `min_hold` is not over, if its kind queues in the store, if a transaction may
    /// have verified it, or if the manager closes.
    ///
    /// `ttl` is the lease that the next holder requests. The rest of the lease must not be longer, because a crash of
    /// the next holder would lock the key for longer than requested. This check does not apply to grants of a session,
    /// because a crash locks their keys until the session ends. `ttl` is `None` if there is no next holder yet; the
    /// later holder then makes the check.
    ///
    /// The last guard calls this after it has left the lease. At that time, no guard uses the grant, and no other
    /// thread can hand it off. `now` is the current time.
    pub(crate) fn as_handoff(&self, ttl: Option<Duration>, now: Moment) -> Option<Handoff> {
        if !self.may_be_handed_off(now)
            || ttl.is_some_and(|ttl| self.engine.outlasts(self.store_until(), ttl, now))
        {
            return None;
        }
        // This memory fence pairs with the one in `fence`. Either this thread sees a number that `fence` has just made,
        // or `fence` sees that the lease has ended, and does not return the number. The memory fence in `note_verified`
        // works in the same way.
        atomic::fence(Ordering::SeqCst);
        if self.claim().is_verified() {
            return None;
        }
        let next = Arc::clone(&self.grant);
        if let Some(made) = self.fence.get() {
            // If the store's token may be ahead of the numbers of this process, the next holder requests its token from
            // the store.
            next.set_earlier(Some(*made).filter(|_| !self.claim().is_fence_ahead()));
        }
        next.count_handoff();
        Some(Handoff::new(next))
    }

    /// Returns whether the grant may pass to another waiter of this process.
    fn may_be_handed_off(&self, now: Moment) -> bool {
        // A waiter in a local queue waits for a single key. If it received a grant of several keys, the other keys
        // would stay locked. A closing manager waits for its guards, and a hand-off would make another guard. A
        // reported loss is still visible here, because `leave` does not change the state of a lost lease.
        self.options.kind.hands_off()
            && self.claim().mode == Mode::Exclusive
            && self.claim().more.is_empty()
            && self.engine.check_open().is_ok()
            && self.keep_for(now).is_none()
            && !self.deadline().is_past(now)
            && !self.is_revoked()
    }

    /// Ends the lease without a release. Another lease has the grant now.
    pub(crate) fn supersede(&self) {
        self.state.store(state::ENDED, Ordering::Release);
    }
}
