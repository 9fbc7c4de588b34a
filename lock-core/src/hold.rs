//! One grant in use: its local deadline, how many guards share it, and whether it is lost.

use std::sync::atomic::{self, AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Notify, OnceCell};

use crate::backend::{Claim, FencingToken, Grant, Mode, Placement, Queue};
use crate::clock::Moment;
use crate::engine::{self, Engine};
use crate::error::{LockError, LockErrorKind, LossReason, Result};
use crate::gate::{Lease, Turn};
use crate::kind::Kind;
use crate::renewal::Keeper;

/// For the granularity of expiry in the store and of timers here.
const GRANULARITY: Duration = Duration::from_millis(2);

/// What is taken off a lease, so that a loss is told before anybody else can have the key: the granularity, and for a
/// store in another process 1 % for clocks that run at different speeds ("Distributed Locks with Redis" takes both).
pub(crate) fn drift(placement: Placement, lease: Duration) -> Duration {
    match placement {
        Placement::Embedded => GRANULARITY.min(lease / 4),
        Placement::Remote => lease / 100 + GRANULARITY,
    }
}

/// When the store has certainly forgotten a lease of `ttl` that was asked for at `now`.
pub(crate) fn forgotten(now: Moment, ttl: Duration) -> Moment {
    now.plus(ttl).plus(ttl / 100 + GRANULARITY)
}

/// Whether a lease that the store has until `store_until` is longer than `ttl`, asked for now.
pub(crate) fn outlasts(store_until: Moment, ttl: Duration, now: Moment) -> bool {
    let fits = forgotten(now, ttl).plus(SLACK);
    store_until.remaining(now) > fits.remaining(now)
}

/// Two that ask for the same ttl are not to be told apart by the time that a request took.
const SLACK: Duration = Duration::from_millis(20);

/// How a hold is to be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) kind: Kind,
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
}

/// What the fencing tokens of the turns on one grant count on from.
///
/// Where a token is at least the store's time in microseconds ([`Capability::fence_is_time`]), a process numbers its own
/// turns: each the next number, and never further from the first than microseconds have passed since that one arrived.
/// So no number is ahead of the store's clock, and whoever gets the key after a crash gets a larger one.
///
/// [`Capability::fence_is_time`]: crate::backend::Capability::fence_is_time
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Numbering {
    first: FencingToken,
    /// When the first arrived, which is later than when the store made it.
    arrived: Moment,
    last: FencingToken,
}

impl Numbering {
    /// The next number, if the store's clock has certainly passed it.
    fn next(self, now: Moment) -> Option<Self> {
        let passed = u64::try_from(now.since(self.arrived).as_micros()).unwrap_or(u64::MAX);
        let last = self.last.get() + 1;
        (last - self.first.get() <= passed).then_some(Self { last: FencingToken::new(last), ..self })
    }
}

/// The states of a hold; every other value of the byte is a [`LossReason`].
mod state {
    pub(super) const HELD: u8 = 0;
    /// Renewals are late; still ours.
    pub(super) const ENDANGERED: u8 = 1;
    /// The last guard is gone; renewals end, losses are not told any more.
    pub(super) const ENDED: u8 = 2;
    pub(super) const EXPIRED: u8 = 3;
    pub(super) const TAKEN: u8 = 4;
    pub(super) const MAX_HOLD: u8 = 5;
    pub(super) const FORCED: u8 = 6;
    pub(super) const SHUT_DOWN: u8 = 7;
}

fn code(reason: LossReason) -> u8 {
    match reason {
        LossReason::Expired => state::EXPIRED,
        LossReason::Taken => state::TAKEN,
        LossReason::MaxHold => state::MAX_HOLD,
        LossReason::Forced => state::FORCED,
        LossReason::ShutDown => state::SHUT_DOWN,
    }
}

fn reason(code: u8) -> Option<LossReason> {
    match code {
        state::EXPIRED => Some(LossReason::Expired),
        state::TAKEN => Some(LossReason::Taken),
        state::MAX_HOLD => Some(LossReason::MaxHold),
        state::FORCED => Some(LossReason::Forced),
        state::SHUT_DOWN => Some(LossReason::ShutDown),
        _ => None,
    }
}

/// One grant, shared by its guards and handles; the keeper has a weak reference.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) engine: Arc<Engine>,
    pub(crate) claim: Claim,
    pub(crate) terms: Terms,
    pub(crate) since: Moment,
    pub(crate) span: tracing::Span,
    state: AtomicU8,
    /// Guards that share the grant: the outermost and those of nested calls.
    entries: AtomicUsize,
    /// The local deadline. Its two halves only grow, so a torn read is an earlier deadline, never a later one.
    deadline: (AtomicI64, AtomicI64),
    /// Until when the store may have the grant, whatever was answered: counted from when a request was sent, so later
    /// than the deadline. Only grows.
    store_until: (AtomicI64, AtomicI64),
    /// Who renews it.
    keeper: Weak<Keeper>,
    /// The lease that renewals ask for, in nanoseconds; `extend` changes it.
    ttl: AtomicU64,
    /// When the last request was sent that was answered with yes.
    confirmed: (AtomicI64, AtomicI64),
    fence: OnceCell<Numbering>,
    /// Of the turns before this one.
    earlier: Option<Numbering>,
    changed: Notify,
    /// When the keeper looks at this hold next; entries of its queue with another time are stale.
    pub(crate) next_look: AtomicI64,
    pub(crate) renewal_in_flight: AtomicBool,
}

impl Hold {
    pub(crate) fn new(
        engine: Arc<Engine>,
        keeper: &Arc<Keeper>,
        claim: Claim,
        terms: Terms,
        grant: &Grant,
        span: tracing::Span,
    ) -> Arc<Self> {
        Self::since(grant.sent, engine, keeper, claim, terms, grant, span)
    }

    /// As [`new`](Self::new), with `max_hold` and `min_hold` counted from `since`.
    pub(crate) fn since(
        since: Moment,
        engine: Arc<Engine>,
        keeper: &Arc<Keeper>,
        claim: Claim,
        terms: Terms,
        grant: &Grant,
        span: tracing::Span,
    ) -> Arc<Self> {
        let ttl = claim.ttl;
        let hold = Self::unleased(engine, keeper, claim, terms, ttl, since, span, None);
        if let Some(first) = grant.fence {
            let arrived = hold.now();
            let _ = hold.fence.set(Numbering { first, arrived, last: first });
        }
        hold.asked(ttl.max(grant.lease));
        hold.leased(grant.sent, grant.lease);
        Arc::new(hold)
    }

    /// The next turn on a grant of this process, for `ttl` from the next renewal on.
    pub(crate) fn turn(
        engine: Arc<Engine>,
        keeper: &Arc<Keeper>,
        lease: Lease,
        ttl: Duration,
        terms: Terms,
        span: tracing::Span,
    ) -> Arc<Self> {
        let now = engine.clock.now();
        let Lease { claim, deadline, store_until, confirmed, numbering } = lease;
        let hold = Self::unleased(engine, keeper, claim, terms, ttl, now, span, numbering);
        raise(&hold.deadline, deadline);
        raise(&hold.store_until, store_until);
        raise(&hold.confirmed, confirmed);
        Arc::new(hold)
    }

    #[allow(clippy::too_many_arguments, reason = "the two public ways to make one say what each is")]
    fn unleased(
        engine: Arc<Engine>,
        keeper: &Arc<Keeper>,
        claim: Claim,
        terms: Terms,
        ttl: Duration,
        since: Moment,
        span: tracing::Span,
        earlier: Option<Numbering>,
    ) -> Self {
        let never = || (AtomicI64::new(i64::MIN), AtomicI64::new(i64::MIN));
        Self {
            terms,
            since,
            span,
            state: AtomicU8::new(state::HELD),
            entries: AtomicUsize::new(1),
            deadline: never(),
            store_until: never(),
            confirmed: never(),
            keeper: Arc::downgrade(keeper),
            ttl: AtomicU64::new(nanos(ttl)),
            fence: OnceCell::new(),
            earlier,
            changed: Notify::new(),
            next_look: AtomicI64::new(i64::MAX),
            renewal_in_flight: AtomicBool::new(false),
            engine,
            claim,
        }
    }

    /// The grant as the next turn gets it; `None` where it must go back to the store: it is lost, is to be kept for a
    /// while yet, is of a kind whose waiters stand in the store's queue, or the manager closes.
    ///
    /// `ttl` is what the next one asks for. What is left of the lease must not be longer, or a crash of the next one would
    /// keep others out for longer than it said.
    ///
    /// For the last guard, once it has left.
    pub(crate) fn as_turn(&self, ttl: Duration) -> Option<Turn> {
        let passes = self.claim.queue == Queue::Barging
            && self.claim.mode == Mode::Exclusive
            && self.claim.more.is_empty()
            && self.engine.check_open().is_ok()
            && self.keep_for().is_none();
        let now = self.now();
        if !passes
            || self.deadline().is_past(now)
            || self.is_revoked()
            || outlasts(self.store_until(), ttl, now)
        {
            return None;
        }
        atomic::fence(Ordering::SeqCst);
        let numbering = match self.fence.get() {
            Some(_) if self.claim.is_fence_ahead() => None,
            Some(made) => Some(*made),
            None => self.earlier,
        };
        let mut claim = self.claim.clone();
        claim.turn += 1;
        let lease = Lease {
            claim,
            deadline: self.deadline(),
            store_until: self.store_until(),
            confirmed: moment(&self.confirmed),
            numbering,
        };
        Some(Turn::new(Arc::clone(&self.engine), Box::new(lease)))
    }

    /// When the last request was sent that the store has answered with yes.
    pub(crate) fn confirmed(&self) -> Moment {
        moment(&self.confirmed)
    }

    /// Ends the hold without giving the grant back: another one has it now.
    pub(crate) fn dissolve(&self) {
        self.state.store(state::ENDED, Ordering::Release);
    }

    /// Lets nobody enter any more; `false` where others have.
    pub(crate) fn seal(&self) -> bool {
        self.entries.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Takes [`seal`](Self::seal) back.
    pub(crate) fn unseal(&self) {
        self.entries.store(1, Ordering::Release);
    }

    /// Whether a loss was told; the clock is not asked.
    fn is_revoked(&self) -> bool {
        self.state.load(Ordering::Acquire) > state::ENDED
    }

    fn now(&self) -> Moment {
        self.engine.clock.now()
    }

    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_nanos(self.ttl.load(Ordering::Acquire))
    }

    pub(crate) fn set_ttl(&self, ttl: Duration) {
        self.ttl.store(nanos(ttl), Ordering::Release);
    }

    /// A request for a lease of `ttl` is about to be sent, or was just answered.
    pub(crate) fn asked(&self, ttl: Duration) {
        raise(&self.store_until, forgotten(self.now(), ttl));
    }

    /// From here on the store has forgotten the grant by itself.
    pub(crate) fn store_until(&self) -> Moment {
        moment(&self.store_until)
    }

    /// Who renews it; `None` when that runtime is gone.
    pub(crate) fn keeper(&self) -> Option<Arc<Keeper>> {
        self.keeper.upgrade()
    }

    /// The store promised `lease` from `sent` on. A deadline never moves back.
    pub(crate) fn leased(&self, sent: Moment, lease: Duration) {
        let safe = lease.saturating_sub(drift(self.engine.capability.placement, lease));
        raise(&self.deadline, sent.plus(safe));
        raise(&self.confirmed, sent);
    }

    /// A renewal was answered with yes.
    pub(crate) fn renewed(&self, sent: Moment, lease: Duration) {
        self.leased(sent, lease);
        let _ =
            self.state.compare_exchange(state::ENDANGERED, state::HELD, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Renewals are late. Returns whether that is news.
    pub(crate) fn endanger(&self) -> bool {
        self.state
            .compare_exchange(state::HELD, state::ENDANGERED, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    pub(crate) fn is_endangered(&self) -> bool {
        self.state.load(Ordering::Acquire) == state::ENDANGERED
    }

    /// Until when the grant is certainly ours: the lease, or `max_hold` if that is earlier.
    pub(crate) fn deadline(&self) -> Moment {
        moment(&self.deadline)
    }

    pub(crate) fn max_hold_end(&self) -> Option<Moment> {
        self.terms.max_hold.map(|max| self.since.plus(max))
    }

    /// What is left, by the clock; zero once lost or ended.
    pub(crate) fn remaining(&self) -> Duration {
        if self.state.load(Ordering::Acquire) > state::ENDANGERED {
            return Duration::ZERO;
        }
        let now = self.now();
        let lease = self.deadline().remaining(now);
        self.max_hold_end().map_or(lease, |end| end.remaining(now).min(lease))
    }

    pub(crate) fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state.load(Ordering::Acquire) == state::ENDED
    }

    /// Why the grant is lost, if it is. Reads the clock: a lease that ran out is lost from then on, told or not.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        let known = self.state.load(Ordering::Acquire);
        if known > state::ENDANGERED {
            return reason(known);
        }
        let now = self.now();
        if self.deadline().is_past(now) {
            self.lose(LossReason::Expired);
        } else if self.max_hold_end().is_some_and(|end| end.is_past(now)) {
            self.lose(LossReason::MaxHold);
        }
        reason(self.state.load(Ordering::Acquire))
    }

    /// Tells everybody that the grant is lost. The first reason stays; an ended hold cannot be lost.
    pub(crate) fn lose(&self, why: LossReason) -> bool {
        let told = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| {
            (now <= state::ENDANGERED).then_some(code(why))
        });
        if told.is_ok() {
            tracing::error!(parent: &self.span, lock.key = %self.claim.key, reason = %why, "lock lost");
            self.changed.notify_waiters();
            // Who waits here waited for this guard, and now has to ask the store.
            self.claim.keys().for_each(|key| self.engine.gate.freed(key));
        }
        told.is_ok()
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self.loss() {
            Some(reason) => Err(LockError::lost(&self.claim.key, reason)),
            None if self.has_ended() => {
                Err(LockError::new(LockErrorKind::Lost, "it was given back").with_key(&self.claim.key))
            }
            None => Ok(()),
        }
    }

    /// Completes when the grant is lost; never for one that was given back.
    pub(crate) async fn lost(&self) -> LossReason {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(reason) = self.loss() {
                return reason;
            }
            // Over a store in this process the keeper may have gone with its runtime, so nobody else looks at the clock.
            let by_itself = self.engine.capability.placement == Placement::Embedded && !self.has_ended();
            let left = self.remaining();
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(left), if by_itself => {}
            }
        }
    }

    /// One more guard shares the grant; `false` when it is lost, or the last guard has gone.
    pub(crate) fn enter(&self) -> bool {
        if self.loss().is_some() {
            return false;
        }
        let more = |entries: usize| (entries > 0).then_some(entries + 1);
        self.entries.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// One guard less. `true` for the last one, which gives the grant back: from then on nothing renews it.
    pub(crate) fn leave(&self) -> bool {
        if self.entries.fetch_sub(1, Ordering::AcqRel) > 1 {
            return false;
        }
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| {
            (now <= state::ENDANGERED).then_some(state::ENDED)
        });
        true
    }

    /// The end of `min_hold`: until then the key stays taken after the release.
    pub(crate) fn keep_until(&self) -> Option<Moment> {
        self.terms.min_hold.map(|min| self.since.plus(min))
    }

    /// What is left of `min_hold`.
    pub(crate) fn keep_for(&self) -> Option<Duration> {
        self.keep_until().and_then(|end| engine::left(end, self.now()))
    }

    /// The fencing token of this turn; asks the store once, unless it came with the grant or can be numbered here.
    pub(crate) async fn fence(&self) -> Result<FencingToken> {
        self.check()?;
        let made = self.fence.get_or_try_init(|| async {
            let here = self.earlier.filter(|_| self.engine.capability.fence_is_time);
            if let Some(numbering) = here.and_then(|earlier| earlier.next(self.now())) {
                self.claim.number_fence(numbering.last);
                return Ok(numbering);
            }
            let token = self.engine.backend.fence_dyn(&self.claim).await?;
            Ok(Numbering { first: token, arrived: self.now(), last: token })
        });
        match made.await {
            Ok(numbering) => {
                // Should the turn have ended meanwhile, the next one did not know of this number and may have a smaller
                // one. Pairs with the fence in `as_turn`: one of the two sees what the other wrote.
                atomic::fence(Ordering::SeqCst);
                self.check()?;
                Ok(numbering.last)
            }
            Err(error) => {
                let error: LockError = error;
                if error.is_lost() {
                    self.lose(error.loss_reason().unwrap_or(LossReason::Taken));
                }
                Err(error.with_key(&self.claim.key))
            }
        }
    }

    /// The fencing token, if it is known; for a hold that takes this one's place.
    pub(crate) fn known_fence(&self) -> Option<FencingToken> {
        self.fence.get().map(|numbering| numbering.last)
    }

    pub(crate) fn downgrade(self: &Arc<Self>) -> Weak<Self> {
        Arc::downgrade(self)
    }
}

fn moment((mono, boot): &(AtomicI64, AtomicI64)) -> Moment {
    Moment::from_parts((mono.load(Ordering::Acquire), boot.load(Ordering::Acquire)))
}

/// Moves a moment forward, never back.
fn raise((mono, boot): &(AtomicI64, AtomicI64), to: Moment) {
    let (to_mono, to_boot) = to.parts();
    mono.fetch_max(to_mono, Ordering::AcqRel);
    boot.fetch_max(to_boot, Ordering::AcqRel);
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::guard::LockGuard;
    use crate::manager::LockManager;

    async fn guard() -> LockGuard {
        LockManager::in_memory().lock("k").acquire().await.expect("it is free")
    }

    #[test]
    fn a_process_numbers_its_turns_no_faster_than_time_passes() {
        let start = Clock::Suspend.now();
        let at = |us| start.plus(Duration::from_micros(us));
        let first = FencingToken::new(1_000);
        let numbering = Numbering { first, arrived: start, last: first };
        assert_eq!(numbering.next(at(0)), None, "the store's clock may show the first number yet");
        let one = numbering.next(at(1)).expect("a microsecond has passed");
        assert_eq!((one.last.get(), one.first, one.arrived), (1_001, first, start));
        assert_eq!(one.next(at(1)), None);
        assert_eq!(one.next(at(50)).expect("time has passed").last.get(), 1_002, "the next, not the time");
    }

    #[test]
    fn what_is_taken_off_a_lease() {
        let ms = Duration::from_millis;
        for (placement, lease, off) in [
            (Placement::Embedded, ms(10_000), ms(2)),
            (Placement::Embedded, ms(4), ms(1)),
            (Placement::Remote, ms(10_000), ms(102)),
            (Placement::Remote, ms(500), ms(7)),
        ] {
            assert_eq!(drift(placement, lease), off, "{placement:?} {lease:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn both_halves_of_the_deadline_count_and_neither_moves_back() {
        let guard = guard().await;
        let hold = guard.hold();
        let (mono, boot) = hold.deadline().parts();
        hold.leased(Moment::from_parts((mono + 5, boot - 5)), Duration::ZERO);
        assert_eq!(hold.deadline().parts(), (mono + 5, boot));
        hold.leased(Moment::from_parts((mono - 5, boot + 7)), Duration::ZERO);
        assert_eq!(hold.deadline().parts(), (mono + 5, boot + 7));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_enters_after_the_last_guard_or_a_loss() {
        let ended = guard().await;
        let hold = Arc::clone(ended.hold());
        assert!(hold.enter() && !hold.leave(), "one of two is gone");
        drop(ended);
        assert!(hold.has_ended() && !hold.enter());
        assert!(!hold.lose(LossReason::Taken), "what was given back cannot be lost");
        assert_eq!(hold.loss(), None);

        let lost = guard().await;
        assert!(lost.hold().lose(LossReason::Taken));
        assert!(!lost.hold().enter());
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_reason_of_a_loss_stays_and_danger_is_told_once() {
        let guard = guard().await;
        let hold = guard.hold();
        assert!(hold.endanger() && !hold.endanger());
        assert!(hold.lose(LossReason::Taken) && !hold.lose(LossReason::ShutDown));
        assert!(!hold.endanger());
        hold.renewed(hold.now(), Duration::from_secs(60));
        assert_eq!(hold.loss(), Some(LossReason::Taken), "no renewal brings it back");
    }
}
