//! Tests the effects of guards, losses and deadlines on a hold.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use crate::backend::memory::Memory;
use crate::backend::{
    Ask, Attempt, Backend, Capability, Claim, FencingToken, Grant, Listener, Placement, Released, Renew,
    Renewal,
};
use crate::clock::{Clock, Moment, Suspended, with_clock};
use crate::error::{LossReason, Result};
use crate::guard::LockGuard;
use crate::manager::LockManager;

async fn guard() -> LockGuard {
    LockManager::in_memory().lock("k").acquire().await.expect("it is free")
}

#[tokio::test(start_paused = true)]
async fn both_halves_of_the_deadline_count_and_neither_moves_back() {
    let guard = guard().await;
    let lease = guard.lease();
    let (mono, boot) = lease.deadline().parts();
    lease.leased(Moment::from_parts((mono + 5, boot - 5)), Duration::ZERO);
    assert_eq!(lease.deadline().parts(), (mono + 5, boot));
    lease.leased(Moment::from_parts((mono - 5, boot + 7)), Duration::ZERO);
    assert_eq!(lease.deadline().parts(), (mono + 5, boot + 7));
}

/// The rest of `min_hold` counts from the time that the caller passes, because the store counts from the same time.
#[tokio::test(start_paused = true)]
async fn what_is_left_of_min_hold_is_that_at_the_time_of_the_caller() {
    let (min, part) = (Duration::from_secs(2), Duration::from_millis(500));
    let request = LockManager::in_memory().lock("k").min_hold(min);
    let guard = request.acquire().await.expect("it is free");
    let lease = guard.lease();
    tokio::time::advance(part).await;
    let left = |time| lease.keep_for(lease.since.plus(time));
    assert_eq!(left(Duration::ZERO), Some(min), "earlier than now");
    assert_eq!(left(part), Some(min - part), "now");
    assert_eq!(left(3 * part), Some(min - 3 * part), "later than now");
    assert_eq!((left(min), left(min + part)), (None, None), "nothing is left of it");
}

/// After a hand-off, the next holder has the same owner, and does not know of a longer lease.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_handed_off_is_not_extended() {
    let locks = LockManager::in_memory();
    let request = || locks.lock("k").ttl(Duration::from_secs(10));
    let guard = request().acquire().await.expect("it is free");
    let lease = Arc::clone(guard.lease());
    let next = tokio::spawn(request().strategy(crate::strategy::wait()).acquire());
    while lease.engine.local_queue.waiters(&lease.claim().key) == 0 {
        tokio::task::yield_now().await;
    }
    guard.release().await.expect("an answer");
    let next = next.await.expect("no panic").expect("its turn");
    assert_eq!(next.lease().claim().owner, lease.claim().owner, "handed off");
    assert!(lease.renew_now(Duration::from_secs(600)).await.expect_err("it has ended").is_lost());
    let info = locks.inspect("k").await.expect("an answer").expect("it is held");
    let left = info.holders[0].remaining.expect("a lease");
    assert!(left <= Duration::from_secs(10), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_enters_after_the_last_guard_or_a_loss() {
    let ended = guard().await;
    let lease = Arc::clone(ended.lease());
    assert!(lease.enter() && !lease.leave(), "one of two is gone");
    drop(ended);
    assert!(lease.has_ended() && !lease.enter());
    assert!(!lease.lose(LossReason::Taken), "what was given back cannot be lost");
    assert_eq!(lease.loss(), None);

    let lost = guard().await;
    assert!(lost.lease().lose(LossReason::Taken));
    assert!(!lost.lease().enter());
}

#[tokio::test(start_paused = true)]
async fn the_first_reason_of_a_loss_stays_and_danger_is_told_once() {
    let guard = guard().await;
    let lease = guard.lease();
    assert!(lease.endanger() && !lease.endanger());
    assert!(lease.lose(LossReason::Taken) && !lease.lose(LossReason::ShutDown));
    assert!(!lease.endanger());
    lease.renewed(lease.now(), Duration::from_secs(60));
    assert_eq!(lease.loss(), Some(LossReason::Taken), "no renewal brings it back");
}

/// A log subscriber that panics at every event. A test makes a second one, which keeps all call sites enabled: with
/// only one, a test in another thread could disable them.
struct Panics;

impl tracing::Subscriber for Panics {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        panic!("a full disk");
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_told_to_those_whom_it_concerns_before_the_log() {
    let guard = guard().await;
    let handle = guard.handle();
    let told = tokio::spawn(async move { handle.lost().await });
    tokio::task::yield_now().await;
    let lease = Arc::clone(guard.lease());
    let _second = tracing::Dispatch::new(Panics);
    let log = || tracing::subscriber::with_default(Panics, || lease.lose(LossReason::Taken));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(log)).is_err());
    let told = tokio::time::timeout(Duration::from_millis(1), told).await.expect("at once");
    assert_eq!(told.expect("no panic"), LossReason::Taken);
}

#[tokio::test(start_paused = true)]
async fn all_locks_of_a_session_are_told_of_its_end_where_the_log_panics_at_that() {
    let _second = tracing::Dispatch::new(Panics);
    let locks = LockManager::in_memory();
    let mut guards = Vec::new();
    for key in ["a", "b", "c"] {
        guards.push(locks.lock(key).acquire().await.expect("it is free"));
    }
    let owners: Vec<_> = guards.iter().map(|guard| guard.lease().claim().owner).collect();
    tracing::subscriber::with_default(Panics, || Listener::session_ended(&**locks.hub(), &owners));
    assert!(guards.iter().all(|guard| guard.lease().loss() == Some(LossReason::SessionEnded)), "{guards:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_released_where_the_log_panics_at_that() {
    let _second = tracing::Dispatch::new(Panics);
    let locks = LockManager::in_memory();
    let ways: [fn(LockGuard); 3] = [
        drop,
        |guard| {
            let _ = pin!(guard.release()).poll(&mut Context::from_waker(Waker::noop()));
        },
        |guard| {
            let _ = pin!(guard.handle().release_early()).poll(&mut Context::from_waker(Waker::noop()));
        },
    ];
    for (at, way) in ways.into_iter().enumerate() {
        let guard = locks.lock("k").acquire().await.expect("it is free");
        let log = || tracing::subscriber::with_default(Panics, || way(guard));
        assert!(
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(log)).is_err(),
            "way {at} told the log"
        );
        let next = locks.lock("k").wait(Duration::from_millis(1)).acquire().await;
        assert!(next.is_ok(), "way {at} keeps the key");
    }
    let report = locks.shutdown(Duration::from_millis(1)).await;
    assert_eq!(report, crate::ShutdownReport::default(), "a guard is counted that is gone");
}

/// A remote store whose answers have the times of a machine that is sometimes suspended.
#[derive(Debug)]
struct Elsewhere(Memory, Clock);

impl Backend for Elsewhere {
    fn capability(&self) -> Capability {
        Capability { placement: Placement::Remote, ..self.0.capability() }
    }

    async fn acquire(&self, claim: &Claim, _ask: Ask) -> Result<Attempt> {
        match self.0.acquire(claim, Ask::Try).await? {
            Attempt::Granted(grant) => Ok(Attempt::Granted(Grant { sent: self.1.now(), ..grant })),
            held @ Attempt::Held(_) => Ok(held),
        }
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        let renewed =
            |renew: &Renew<'_>| Renewal::Renewed { sent: self.1.now(), lease: renew.ttl, waiters: None };
        batch.iter().map(renewed).collect()
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.0.release(claim, keep_for).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.0.fence(claim).await
    }
}

/// tokio's timers and the monotonic clock stop during a suspend, but the body and its guard still learn of the loss.
#[tokio::test]
async fn a_machine_that_was_suspended_for_longer_than_the_lease_finds_its_locks_lost() {
    let machine = Suspended::machine();
    let clock = Clock::Suspended(machine);
    let store = Elsewhere(Memory::new(), clock);
    let locks = with_clock(clock, || LockManager::builder(store).build()).expect("a manager");
    let ttl = Duration::from_secs(300);
    let guard = locks.lock("guard").ttl(ttl).acquire().await.expect("it is free");
    let body = tokio::spawn(locks.lock("body").ttl(ttl).run(std::future::pending::<()>()));
    while locks.held() < 2 {
        tokio::task::yield_now().await;
    }
    machine.suspend(ttl / 2);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(guard.is_held() && !body.is_finished(), "half of the lease is left");

    machine.suspend(ttl);
    assert!(!guard.is_held() && guard.remaining().is_zero(), "from this moment on");
    assert_eq!(guard.check().expect_err("lost").loss_reason(), Some(LossReason::Expired));
    // By the clocks that stopped, the next renewal is due much later.
    let body = tokio::time::timeout(Duration::from_secs(60), body).await.expect("it is dropped");
    assert_eq!(body.expect("no panic").expect_err("lost").loss_reason(), Some(LossReason::Expired));
    assert!(guard.release().await.expect_err("lost").is_lost());
}

/// A store that makes fencing tokens slowly, and reads the claim again after it has made one.
#[derive(Debug, Default)]
struct SlowFence {
    memory: Memory,
    /// The number of hand-offs of the claim, before and after the pause of each request.
    seen: Arc<crate::sync::Mutex<Vec<(u64, u64)>>>,
    /// Two facts about each released grant: whether the store has its token, and whether its holder renews it.
    released: Arc<crate::sync::Mutex<Vec<(bool, bool)>>>,
    go: Arc<tokio::sync::Notify>,
}

impl Backend for SlowFence {
    fn capability(&self) -> Capability {
        self.memory.capability()
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        match self.memory.acquire(claim, ask).await? {
            Attempt::Granted(grant) => Ok(Attempt::Granted(Grant { fence: None, ..grant })),
            held @ Attempt::Held(_) => Ok(held),
        }
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        self.memory.renew(batch).await
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.released.lock().push((claim.is_fenced(), claim.renews));
        self.memory.release(claim, keep_for).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        claim.mark_fenced();
        let before = claim.handoffs;
        self.go.notified().await;
        self.seen.lock().push((before, claim.handoffs));
        self.memory.fence(claim).await
    }
}

/// The holders share the claim, but each has its own token.
#[tokio::test(start_paused = true)]
async fn a_request_for_a_token_stays_that_of_its_holder_after_a_hand_off() {
    for first in [0, 1] {
        tokens_are_asked_for(first).await;
    }
}

/// Checks the tokens that the holders request after `first` hand-offs.
async fn tokens_are_asked_for(first: u64) {
    let store = SlowFence::default();
    let (seen, released, go) = (Arc::clone(&store.seen), Arc::clone(&store.released), Arc::clone(&store.go));
    let locks = LockManager::builder(store).build().expect("a manager");
    let request = || locks.lock("k").strategy(crate::strategy::wait());
    let mut guard = request().acquire().await.expect("it is free");
    let mut asked = Vec::new();
    let ask = |guard: &LockGuard| {
        let handle = guard.handle();
        tokio::spawn(async move { handle.fencing_token().await })
    };
    for handoffs in 0..3 {
        if handoffs >= first {
            // This request is under way while the grant is handed off.
            asked.push(ask(&guard));
        }
        let next = tokio::spawn(request().acquire());
        let lease = Arc::clone(guard.lease());
        while lease.engine.local_queue.waiters(&lease.claim().key) == 0 {
            tokio::task::yield_now().await;
        }
        guard.release().await.expect("an answer");
        guard = next.await.expect("no panic").expect("its turn");
        assert_eq!(guard.lease().claim().owner, lease.claim().owner, "handed off");
    }
    let last = ask(&guard);
    tokio::task::yield_now().await;
    go.notify_waiters();
    for asked in asked {
        let token = asked.await.expect("no panic");
        assert!(token.is_err_and(|error| error.is_lost()), "it was given back");
    }
    last.await.expect("no panic").expect("a token");
    assert_eq!(*seen.lock(), (first..=3).map(|of| (of, of)).collect::<Vec<_>>());
    assert!(guard.lease().claim().is_fenced(), "what was recorded of a copy counts for the claim");
    guard.release().await.expect("an answer");
    assert_eq!(*released.lock(), [(true, true)]);
}

/// A store may read `renews` during a renewal and during a release.
#[tokio::test(start_paused = true)]
async fn a_claim_says_whether_its_present_holder_renews() {
    for renews in [true, false] {
        let store = SlowFence::default();
        let released = Arc::clone(&store.released);
        let locks = LockManager::builder(store).build().expect("a manager");
        let request = |renews| locks.lock("k").renew(renews).strategy(crate::strategy::wait());
        let guard = request(!renews).acquire().await.expect("it is free");
        let lease = Arc::clone(guard.lease());
        let next = tokio::spawn(request(renews).acquire());
        while lease.engine.local_queue.waiters(&lease.claim().key) == 0 {
            tokio::task::yield_now().await;
        }
        guard.release().await.expect("an answer");
        let guard = next.await.expect("no panic").expect("its turn");
        assert_eq!(guard.lease().claim().owner, lease.claim().owner, "handed off");
        guard.release().await.expect("an answer");
        assert_eq!(*released.lock(), [(false, renews)]);
    }
}

/// The next holder may be dropped before the answer, so its release must be repeated until the requested lease is over.
#[tokio::test(start_paused = true)]
async fn what_is_asked_for_a_hand_off_counts_before_it_is_answered() {
    let guard = guard().await;
    let (lease, longer) = (guard.lease(), Duration::from_secs(600));
    let now = lease.now();
    let handoff = lease.as_handoff(None, now).expect("nothing speaks against it");
    assert!(handoff.grant().store_until().is_past(now.plus(longer)));
    handoff.asked(longer);
    assert!(!handoff.grant().store_until().is_past(now.plus(longer)));
    assert!(handoff.grant().deadline().is_past(now.plus(longer)), "nothing was promised");
}

/// An earlier holder shares the grant with the current holder. A call on the earlier holder's handle must not affect
/// the current holder.
#[tokio::test(start_paused = true)]
async fn a_lease_that_has_ended_changes_nothing_of_the_shared_grant() {
    let locks = LockManager::in_memory();
    let request = || locks.lock("k").strategy(crate::strategy::wait());
    let mut guard = request().acquire().await.expect("it is free");
    let mut earlier = Arc::clone(guard.lease());
    for _ in 0..2 {
        earlier = Arc::clone(guard.lease());
        let next = tokio::spawn(request().acquire());
        while earlier.engine.local_queue.waiters(&earlier.claim().key) == 0 {
            tokio::task::yield_now().await;
        }
        guard.release().await.expect("an answer");
        guard = next.await.expect("no panic").expect("its turn");
    }
    let lease = guard.lease();
    assert!(std::ptr::eq(lease.claim(), earlier.claim()), "they share it");
    let until = lease.store_until();
    earlier.note_verified();
    assert!(!lease.claim().is_verified());
    let longer = Duration::from_secs(600);
    assert!(earlier.renew_now(longer).await.expect_err("it has ended").is_lost());
    assert!(!super::lease::Lease::renew_together(&[&earlier], longer).await);
    assert_eq!(lease.store_until(), until);
}
