//! Defines [`Lease`]: a grant in use, shared by its guards.

use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use once_cell::sync::OnceCell;
use tokio::runtime::Id;

use super::bounds;
use super::state;
use crate::backend::Claim;
use crate::clock::{self, Moment};
use crate::engine::Engine;
use crate::local_queue::{FenceSequence, HeldGrant};
use crate::observe::HoldRecorder;
use crate::options::LeaseOptions;
use crate::pending::Granted;
use crate::sync::{Notify, OutsideOfLocks};

/// The initial values of a lease.
#[derive(Clone, Copy)]
pub(super) struct Start {
    pub(super) since: Moment,
    pub(super) ttl: Duration,
    /// The number of hand-offs of the grant so far.
    pub(super) handoffs: u64,
    pub(super) fence: Option<FenceSequence>,
}

/// A grant in use, shared by its guards and handles. The schedule has only a weak reference. So a lease without guards
/// and handles is neither renewed nor watched.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) engine: Arc<Engine>,
    pub(super) grant: Arc<HeldGrant>,
    pub(crate) options: LeaseOptions,
    pub(crate) since: Moment,
    pub(crate) span: tracing::Span,
    pub(crate) recorder: HoldRecorder,
    pub(super) state: AtomicU8,
    /// The number of guards that share the grant: the outermost guard, the guards of nested calls, and further guards
    /// from a handle.
    pub(super) entries: AtomicUsize,
    /// The runtime whose renewer watches the lease. When that runtime ends, so does its renewer.
    pub(super) runtime: Id,
    /// The length that renewals request, in nanoseconds. `extend` changes it.
    pub(super) ttl: AtomicU64,
    /// The number of earlier hand-offs of the grant. Each holder has a different number, and so its own fencing token.
    pub(super) handoffs: u64,
    /// The fencing token. If two calls make a token at the same time, the first token stays.
    pub(super) fence: OnceCell<FenceSequence>,
    pub(super) changed: Notify,
    /// When the renewer checks this lease next: the time of its entry in the schedule.
    pub(super) next_look: AtomicI64,
    pub(super) renewal_in_flight: AtomicBool,
    /// A lease must not be dropped under a mutex, because the drop ends the span, which runs the application's log
    /// subscriber.
    _outside: OutsideOfLocks,
}

impl Lease {
    /// Makes a lease for a grant from the store. `max_hold` and `min_hold` count from `since`. The renewer of `runtime`
    /// watches the lease.
    pub(crate) fn new(
        since: Moment,
        engine: Arc<Engine>,
        runtime: Id,
        claim: Claim,
        options: LeaseOptions,
        granted: &Granted,
        span: tracing::Span,
    ) -> Arc<Self> {
        let (ttl, Granted { grant, arrived }) = (claim.ttl, granted);
        let bounds = bounds::of_grant(&engine, &options, ttl, granted);
        // The store made the token before the answer arrived. Because the sequence starts at the arrival, its numbers
        // stay below the store's time.
        let fence = grant.fence.map(|first| FenceSequence::new(first, *arrived));
        let start = Start { since, ttl, handoffs: claim.handoffs, fence };
        let grant = Arc::new(HeldGrant::new(&engine.cleanup, claim, bounds));
        Self::start(engine, runtime, grant, options, start, span)
    }

    pub(super) fn start(
        engine: Arc<Engine>,
        runtime: Id,
        grant: Arc<HeldGrant>,
        options: LeaseOptions,
        start: Start,
        span: tracing::Span,
    ) -> Arc<Self> {
        let Start { since, ttl, handoffs, fence } = start;
        Arc::new(Self {
            options,
            since,
            span,
            recorder: HoldRecorder::default(),
            state: AtomicU8::new(state::HELD),
            entries: AtomicUsize::new(1),
            handoffs,
            runtime,
            ttl: AtomicU64::new(nanos(ttl)),
            // A `OnceLock` with a value would be slow to make, because its value is set with the synchronization for
            // competing threads.
            fence: fence.map_or_else(OnceCell::new, OnceCell::with_value),
            changed: Notify::new(),
            next_look: AtomicI64::new(i64::MAX),
            renewal_in_flight: AtomicBool::new(false),
            _outside: OutsideOfLocks::default(),
            engine,
            grant,
        })
    }

    /// Returns the claim that the store granted. Successive holders of one grant usually share the claim.
    pub(crate) fn claim(&self) -> &Claim {
        &self.grant.claim
    }

    /// Returns a copy of the claim with this holder's number of hand-offs. The number distinguishes the holder from
    /// earlier and later holders of the grant.
    pub(crate) fn own_claim(&self) -> Claim {
        Claim { handoffs: self.handoffs, ..self.claim().clone() }
    }

    pub(crate) fn now(&self) -> Moment {
        self.engine.clock.now()
    }

    /// Removes the only guard, so that no nested call can enter the lease. If other guards share the lease, does
    /// nothing and returns `false`.
    pub(crate) fn seal(&self) -> bool {
        // This is one atomic step. With two steps, a nested call could enter between the check and the change. After a
        // downgrade, that call would then write while others read.
        self.entries.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Adds a guard. Returns `false` if the grant is lost, or if the last guard is gone.
    pub(crate) fn enter(&self) -> bool {
        if self.loss().is_some() {
            return false;
        }
        // The count never rises from zero. At zero, the last guard may already be releasing the grant, so a new body
        // would run without the lock.
        let more = |entries: usize| (entries > 0).then_some(entries + 1);
        self.entries.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Removes a guard. Returns `true` for the last guard, which must then release the grant. After that the lease is
    /// not renewed.
    pub(crate) fn leave(&self) -> bool {
        let fewer = |entries: usize| entries.checked_sub(1);
        // The count never falls below zero, even if the lock was released early. Almost every lease has exactly one
        // guard, so `seal` is the fast path.
        if !self.seal() && self.entries.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer) != Ok(1) {
            return false;
        }
        self.end();
        true
    }

    /// Removes the guard like [`leave`](Self::leave), if it is the only one. Otherwise does nothing and returns
    /// `false`.
    pub(crate) fn leave_alone(&self) -> bool {
        let is_last = self.seal();
        if is_last {
            self.end();
        }
        is_last
    }

    /// Ends a lease that can no longer be entered. The caller must then send the release, and [record
    /// it](Self::record_released).
    pub(crate) fn end(&self) {
        // The state changes before the release is sent. If a renewal is still under way, its answer then neither
        // reports a loss nor schedules another renewal. A lost lease stays lost, with its reason.
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| {
            (now <= state::ENDANGERED).then_some(state::ENDED)
        });
        // This memory fence pairs with the one in `note_verified`. Either the check after `note_verified` sees that the
        // lease has ended, or the release sees the mark on the claim.
        atomic::fence(Ordering::SeqCst);
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    clock::nanos(duration).unsigned_abs()
}
