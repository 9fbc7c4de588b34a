//! Tests the error at the end of a wait. If the store fails at that time, the error reports an outage. If the store
//! answers that another holder has the key, the error reports a held key.

use lock_core::backend::Backend;
use lock_core::backend::memory::Memory;
use lock_core::testkit::{Fault, Flaky, FlakyControl, Operation};
use lock_core::{LockError, LockErrorKind, LockManager, LockRequest, strategy};
use tokio::task::JoinSet;

use crate::millis;
use crate::queue_store::QueueStore;

/// The wait time of the first request of a case. Each further request waits a little longer.
const WAIT: u64 = 3_000;

/// The number of requests of one process that wait for one key.
const WAITERS: u64 = 3;

type Ask = fn(&LockManager) -> LockRequest;

/// The kinds of locks. The `bool` tells whether the [`QueueStore`] supports the kind.
const KINDS: [(&str, bool, Ask); 6] = [
    ("lock", true, |locks| locks.lock("k")),
    ("fair", true, |locks| locks.fair("k")),
    ("write", false, |locks| locks.write("k")),
    ("read", false, |locks| locks.read("k")),
    ("semaphore", false, |locks| locks.semaphore("k", 1)),
    ("several", false, |locks| locks.all(["j", "k"])),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outage {
    Never,
    /// The store fails during the whole wait.
    Always,
    /// The store fails from the middle of the wait on.
    Later,
    /// The store fails from shortly before the end of the wait on.
    AtTheEnd,
    /// The store fails in the middle of the wait, but not at its end.
    Over,
}

const OUTAGES: [Outage; 5] = [Outage::Never, Outage::Always, Outage::Later, Outage::AtTheEnd, Outage::Over];

fn fail(control: &FlakyControl, fault: Fault) {
    for operation in [Operation::Acquire, Operation::Enqueue, Operation::Heartbeat, Operation::Latch] {
        control.fail_always(operation, fault);
    }
}

/// Makes the store fail at the times of `outage`, while requests wait.
async fn play(control: FlakyControl, outage: Outage, fault: Fault) {
    let (from, until) = match outage {
        Outage::Never | Outage::Always => return,
        Outage::Later => (1_000, None),
        Outage::AtTheEnd => (WAIT - 800, None),
        Outage::Over => (500, Some(1_500)),
    };
    tokio::time::sleep(millis(from)).await;
    fail(&control, fault);
    if let Some(until) = until {
        tokio::time::sleep(millis(until - from)).await;
        control.heal();
    }
}

/// Sends several requests for a held key, which all fail. Returns the error of each request, and whether its strategy
/// may skip the request.
async fn waits<B: Backend + Clone>(
    store: B,
    holder: Ask,
    ask: Ask,
    outage: Outage,
    fault: Fault,
) -> Vec<(bool, LockError)> {
    let (flaky, control) = Flaky::new(store.clone());
    let other = LockManager::builder(store).build().unwrap();
    let held = holder(&other).ttl(millis(60_000)).acquire().await.expect("it is free");
    let locks = LockManager::builder(flaky).build().unwrap();
    if outage == Outage::Always {
        fail(&control, fault);
    }
    let mut waiters = JoinSet::new();
    for waiter in 0..WAITERS {
        let (request, skips) = (ask(&locks).ttl(millis(60_000)), waiter % 2 == 0);
        let request = match skips {
            true => request.strategy(strategy::retry_or_skip()),
            false => request.strategy(strategy::retry()),
        };
        let request = request.wait(millis(WAIT + 137 * waiter));
        waiters.spawn(async move {
            (skips, request.acquire().await.expect_err("it is held, or the store fails"))
        });
    }
    play(control, outage, fault).await;
    let errors = waiters.join_all().await;
    drop(held);
    errors
}

fn check(errors: Vec<(bool, LockError)>, outage: Outage, case: &str) {
    for (skips, error) in errors {
        match outage {
            Outage::Never | Outage::Over => {
                assert_eq!(error.kind(), LockErrorKind::TimedOut, "{case}: {error}");
                assert_eq!(error.is_skipped(), skips, "{case}: {error}");
            }
            Outage::Always | Outage::Later | Outage::AtTheEnd => {
                assert_eq!(error.kind(), LockErrorKind::Unavailable, "{case}: {error}");
                assert!(!error.is_skipped() && error.is_temporary(), "{case}: {error}");
                assert!(error.to_string().contains("planned fault"), "{case}: {error}");
                assert!(error.waited() >= Some(millis(WAIT)), "{case}: {error}");
                assert!(error.key().is_some(), "{case}: {error}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_answer_of_the_store_decides_how_the_end_of_a_wait_is_told() {
    for (kind, exclusive, ask) in KINDS {
        for outage in OUTAGES {
            for fault in [Fault::Refuse, Fault::LoseRequest] {
                // Readers do not exclude each other, so the holder is a writer.
                let holder: Ask = if kind == "read" { |locks| locks.write("k") } else { ask };
                let case = |store| format!("{store} {kind} {outage:?} {fault:?}");
                let of = case("memory");
                check(waits(Memory::new(), holder, ask, outage, fault).await, outage, &of);
                if exclusive {
                    let of = case("queue");
                    check(waits(QueueStore::default(), holder, ask, outage, fault).await, outage, &of);
                }
                if outage == Outage::Never {
                    break;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_ends_an_outage_for_all_who_wait() {
    let store = QueueStore::default();
    let (flaky, control) = Flaky::new(store.clone());
    let locks = LockManager::builder(flaky).build().unwrap();
    for ask in [KINDS[0].2, KINDS[1].2] {
        let other = store.manager();
        let held = ask(&other).ttl(millis(60_000)).acquire().await.expect("it is free");
        let mut waiters = JoinSet::new();
        for _ in 0..WAITERS {
            waiters.spawn(ask(&locks).ttl(millis(60_000)).wait(millis(10_000)).acquire());
        }
        tokio::time::sleep(millis(500)).await;
        fail(&control, Fault::Refuse);
        tokio::time::sleep(millis(1_500)).await;
        control.heal();
        held.release().await.expect("an answer");
        // One task holds the lock, and the others wait for it.
        let (mut guards, mut errors) = (Vec::new(), 0);
        while let Some(waiter) = waiters.join_next().await {
            match waiter.expect("no panic") {
                Ok(guard) => guards.push(guard),
                Err(error) => {
                    assert_eq!(error.kind(), LockErrorKind::TimedOut, "{error}");
                    errors += 1;
                }
            }
        }
        assert_eq!((guards.len(), errors), (1, 2));
        drop(guards);
        tokio::time::sleep(millis(3_000)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_wait_is_told_of_an_outage() {
    for (kind, _, ask) in KINDS {
        let (flaky, control) = Flaky::new(Memory::new());
        let locks = LockManager::builder(flaky).build().unwrap();
        fail(&control, Fault::Refuse);
        for error in [
            ask(&locks).strategy(strategy::fail_fast()).acquire().await.expect_err("it fails"),
            ask(&locks).strategy(strategy::skip()).acquire().await.expect_err("it fails"),
            ask(&locks)
                .strategy(strategy::shed(strategy::fail_fast(), 1))
                .acquire()
                .await
                .expect_err("it fails"),
        ] {
            assert!(error.is_unavailable() && !error.is_skipped(), "{kind}: {error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_latch_says_that_the_store_failed() {
    let (flaky, control) = Flaky::new(Memory::new());
    let locks = LockManager::builder(flaky).build().unwrap();
    let latch = locks.latch("l");
    latch.set(1).await.expect("an answer");
    for (outage, expected) in [(false, LockErrorKind::TimedOut), (true, LockErrorKind::Unavailable)] {
        let latch = latch.clone();
        let waiting = tokio::spawn(async move { latch.wait_within(millis(WAIT)).await });
        tokio::time::sleep(millis(1_000)).await;
        if outage {
            fail(&control, Fault::Refuse);
        }
        let error = waiting.await.expect("no panic").expect_err("nobody counts it down");
        assert_eq!(error.kind(), expected, "{error}");
    }
}
