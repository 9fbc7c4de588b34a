//! Tests locks on a store whose grants live in the session of their process. There, no grant expires on its own.

use std::sync::Weak;
use std::time::Duration;

use lock_core::backend::{
    Ask, Attempt, Backend, Capability, Claim, Listener, Placement, Released, Renew, Renewal,
};
use lock_core::testkit::{Fault, Flaky, FlakyControl, Operation, SessionControl, SessionStore};
use lock_core::{LockManager, LossReason, Result};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::{is_free, millis, patient};

/// The length of the lease of a session.
const SESSION: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3_600);

/// Returns a manager whose calls can fail, another manager on the same store, and the sessions of both.
fn managers() -> (LockManager, LockManager, FlakyControl, SessionControl) {
    let (store, sessions) = SessionStore::new();
    let (flaky, control) = Flaky::new(store.clone());
    let locks = LockManager::builder(flaky).build().unwrap();
    (locks, LockManager::builder(store).build().unwrap(), control, sessions)
}

#[tokio::test(start_paused = true)]
async fn a_release_goes_on_until_it_is_answered_however_long_that_takes() {
    for awaited in [false, true] {
        let (locks, other, control, sessions) = managers();
        let guard = locks.lock("k").acquire().await.unwrap();
        control.fail_always(Operation::Release, Fault::LoseRequest);
        match awaited {
            true => assert!(guard.release().await.unwrap_err().is_unavailable()),
            false => drop(guard),
        }
        tokio::time::sleep(10 * SESSION).await;
        assert_eq!(sessions.grants(), 1, "the store keeps it for as long as the process is connected");
        control.heal();
        let healed = Instant::now();
        drop(patient(&other, "k", HOUR).acquire().await.unwrap());
        assert!(healed.elapsed() <= millis(1_000), "{:?}", healed.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_unanswered_request_may_have_taken_is_released_however_long_that_takes() {
    let (locks, other, control, sessions) = managers();
    control.fail_next(Operation::Acquire, Fault::LoseAnswer, 1);
    control.fail_always(Operation::Release, Fault::LoseRequest);
    let request = locks.lock("k").strategy(lock_core::strategy::fail_fast());
    assert!(request.acquire().await.unwrap_err().is_unavailable());
    tokio::time::sleep(10 * SESSION).await;
    assert_eq!(sessions.grants(), 1);
    control.heal();
    tokio::time::sleep(millis(1_000)).await;
    assert!(is_free(&other, "k").await);
}

/// The guard is not dropped, as if its body never returned.
#[tokio::test(start_paused = true)]
async fn a_lost_lock_is_released_though_nobody_drops_its_guard() {
    let unrenewed = |locks: &LockManager| locks.lock("k").ttl(millis(500)).renew(false);
    let limited = |locks: &LockManager| locks.lock("k").max_hold(millis(5_000));
    let (locks, other, control, _sessions) = managers();
    for (request, lost, free) in [
        (unrenewed(&locks), LossReason::Expired, millis(510)),
        (limited(&locks), LossReason::MaxHold, millis(5_000) + SESSION + SESSION / 50),
    ] {
        let start = Instant::now();
        let guard = request.acquire().await.unwrap();
        assert_eq!(guard.lost().await, lost);
        tokio::time::sleep(millis(1)).await;
        assert!(!is_free(&other, "k").await, "{lost:?}: the body has not had the time to be dropped");
        std::mem::forget(guard);
        patient(&other, "k", HOUR).acquire().await.unwrap().release().await.unwrap();
        assert!(start.elapsed() <= free, "{lost:?}: {:?}", start.elapsed());
    }
    // Renewals get no answer for longer than the lease.
    let guard = locks.lock("k").acquire().await.unwrap();
    control.fail_always(Operation::Renew, Fault::LoseRequest);
    assert_eq!(guard.lost().await, LossReason::Expired);
    std::mem::forget(guard);
    tokio::time::sleep(SESSION / 50).await;
    assert!(is_free(&other, "k").await);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_releases_what_the_session_would_keep() {
    let (locks, other, _control, sessions) = managers();
    std::mem::forget(locks.lock("k").acquire().await.unwrap());
    let start = Instant::now();
    let report = locks.shutdown(millis(100)).await;
    assert_eq!((report.revoked.as_slice(), report.unanswered), (&["k".to_owned()][..], 0));
    assert!(start.elapsed() < millis(200), "{:?}", start.elapsed());
    assert_eq!(sessions.grants(), 0);
    assert!(is_free(&other, "k").await);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_ends_every_lock_of_its_process_and_no_other() {
    let (locks, other, _control, sessions) = managers();
    let [ends, _stays] = sessions.processes()[..] else { panic!("two managers") };
    let kept = other.lock("kept").acquire().await.unwrap();
    let guards = [locks.lock("a").acquire().await.unwrap(), locks.fair("b").acquire().await.unwrap()];
    let body = tokio::spawn(locks.lock("k").run(std::future::pending::<()>()));
    tokio::time::sleep(millis(1)).await;
    let waiting = tokio::spawn(patient(&other, "k", HOUR).acquire());
    let again = tokio::spawn(patient(&locks, "kept", HOUR).acquire());
    tokio::time::sleep(millis(1)).await;

    let ended = Instant::now();
    sessions.end(ends);
    for guard in &guards {
        assert!(!guard.is_held());
        assert_eq!(guard.lost().await, LossReason::SessionEnded);
    }
    let error = body.await.unwrap().unwrap_err();
    assert_eq!(error.loss_reason(), Some(LossReason::SessionEnded));
    drop(waiting.await.unwrap().unwrap());
    assert_eq!(ended.elapsed(), Duration::ZERO, "the next has it at once");

    assert!(kept.is_held());
    // The waiter of the ended session queues again in the next session.
    tokio::time::sleep(millis(10)).await;
    let freed = Instant::now();
    kept.release().await.unwrap();
    drop(again.await.unwrap().unwrap());
    assert_eq!(freed.elapsed(), Duration::ZERO);
    assert!(locks.lock("a").acquire().await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn an_end_that_nobody_reports_is_found_out_by_the_next_renewal() {
    let (locks, _other, _control, sessions) = managers();
    let guard = locks.lock("k").acquire().await.unwrap();
    sessions.lose_notifications(true);
    let ended = Instant::now();
    sessions.end_all();
    assert_eq!(guard.lost().await, LossReason::Taken);
    assert!(ended.elapsed() <= SESSION / 3, "{:?}", ended.elapsed());
}

/// On a session store, a hand-off inside a process does not compare leases, because after a crash the key is held for
/// the rest of the session in any case.
#[tokio::test(start_paused = true)]
async fn a_lock_is_handed_off_to_a_waiter_with_a_shorter_ttl() {
    let (locks, _other, control, _sessions) = managers();
    let holder = locks.lock("k").ttl(millis(10_000)).acquire().await.unwrap();
    let request = locks.lock("k").ttl(millis(500)).renew(false).strategy(lock_core::strategy::wait());
    let waiting = tokio::spawn(request.acquire());
    tokio::time::sleep(millis(10)).await;
    holder.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(control.calls(Operation::Release), 0, "it was handed off");
    assert!(guard.remaining() <= millis(500), "one that is not renewed is held for its ttl");
    let start = Instant::now();
    assert_eq!(guard.lost().await, LossReason::Expired);
    assert!(start.elapsed() >= millis(490), "{:?}", start.elapsed());
}

/// A session store with a changed capability, or with another runtime for its session.
#[derive(Debug)]
struct Altered {
    store: SessionStore,
    /// The longest ttl that the store accepts, even if its session is shorter.
    max_ttl: Option<Duration>,
    /// The runtime that renews the session, as in a store that only has the callers' runtime.
    runtime: Option<Handle>,
}

impl Backend for Altered {
    fn capability(&self) -> Capability {
        let mut capability = self.store.capability();
        capability.max_ttl = self.max_ttl.unwrap_or(capability.max_ttl);
        capability
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        self.store.acquire(claim, ask).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        self.store.renew(batch).await
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.store.release(claim, keep_for).await
    }

    fn attach(&self, process: u128, listener: Weak<dyn Listener>, background: Option<&Handle>) {
        self.store.attach(process, listener, self.runtime.as_ref().or(background));
    }
}

/// Within the lease of the session, the renewal is repeated several times, even if the ttl is much longer than that
/// lease.
#[tokio::test(start_paused = true)]
async fn an_unanswered_renewal_is_repeated_while_the_session_is_certain() {
    const TIMEOUT: Duration = Duration::from_millis(600);
    let (store, _sessions) = SessionStore::with_keep_alive(TIMEOUT, Placement::Embedded);
    let (flaky, control) = Flaky::new(Altered { store, max_ttl: Some(HOUR), runtime: None });
    let locks = LockManager::builder(flaky).build().unwrap();
    let guard = locks.lock("k").ttl(100 * TIMEOUT).acquire().await.unwrap();
    control.fail_always(Operation::Renew, Fault::LoseRequest);
    tokio::time::sleep(TIMEOUT * 2 / 3).await;
    assert!(control.calls(Operation::Renew) > 1, "{} have failed", control.calls(Operation::Renew));
    control.heal();
    tokio::time::sleep(3 * TIMEOUT).await;
    assert!(guard.is_held(), "{:?}", guard.check());
}

/// The test uses real time, because the clock of the library's thread cannot be paused.
#[test]
fn a_session_outlives_bodies_that_block_every_worker() {
    const TIMEOUT: Duration = Duration::from_secs(4);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for on_caller in [false, true] {
        let (store, sessions) = SessionStore::with_keep_alive(TIMEOUT, Placement::Remote);
        let builder = match on_caller {
            true => LockManager::builder(Altered {
                store,
                max_ttl: None,
                runtime: Some(runtime.handle().clone()),
            }),
            false => LockManager::builder(store),
        };
        let locks = builder.ttl(TIMEOUT / 2).build().unwrap();
        let body = |key| runtime.spawn(locks.lock(key).run(async { std::thread::sleep(TIMEOUT * 3 / 2) }));
        let bodies = [body("a"), body("b")];
        let outcomes = bodies.map(|body| runtime.block_on(body).unwrap());
        let survived = outcomes.iter().all(|outcome| outcome.is_ok());
        assert_eq!(survived, !on_caller, "driven by the caller: {on_caller}, {outcomes:?}");
        assert_eq!(sessions.ended() > 0, on_caller);
    }
}
