//! The contract suite on the memory store, and the proof that the suite can fail.

#![cfg(feature = "testkit")]

#[path = "contract_memory/broken.rs"]
mod broken;

use std::time::Duration;

use broken::{Broken, Fault};
use lock_core::backend::memory::Memory;
use lock_core::backend::{Attempt, Backend, Claim, Queue};
use lock_core::key::Key;
use lock_core::testkit::Claims;
use lock_core::testkit::contract::{self, Report, Subject};
use lock_core::testkit::history::{History, Hold, Violation};

async fn report(backend: impl Backend + Clone) -> Report {
    contract::run(|| std::future::ready(Subject::new(backend.clone()))).await
}

#[tokio::test(start_paused = true)]
async fn memory_keeps_the_contract() {
    let memory = Memory::new();
    let report = contract::run_all(|| std::future::ready(Subject::new(memory.clone()))).await;
    assert!(report.ran.len() >= 40, "{report}");
    assert_eq!(report.not_applicable, ["refusal::more_than_it_can", "refusal::a_token_that_it_cannot_give"]);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_can_less_is_asked_for_less() {
    let report = report(Broken::with(Fault::None).limited()).await;
    assert!(report.failures.is_empty(), "{report}");
    assert!(report.ran.contains(&"refusal::more_than_it_can"));
    assert!(
        !report.ran.iter().any(|case| case.starts_with("fifo") || case.starts_with("fencing")),
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn every_broken_backend_is_caught() {
    for fault in Fault::ALL {
        let report = report(Broken::with(fault)).await;
        let caught: Vec<_> = report.failures.iter().map(|failure| failure.case).collect();
        assert!(caught.contains(&fault.caught_by()), "{fault:?} is caught by {caught:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_approximates_what_it_cannot_do_is_caught() {
    let report = report(Broken::with(Fault::Approximates).limited()).await;
    let caught: Vec<_> = report.failures.iter().map(|failure| failure.case).collect();
    assert_eq!(caught, ["refusal::more_than_it_can"], "{report}");
}

/// Eight workers on one key with leases that run out in the middle of some holds.
async fn work(backend: impl Backend + Clone) -> History {
    let history = History::new(backend.capability().placement.clock());
    let workers: Vec<_> =
        (0..8).map(|worker| tokio::spawn(work_of(worker, backend.clone(), history.clone()))).collect();
    for worker in workers {
        worker.await.expect("no panic");
    }
    history
}

async fn work_of(worker: usize, backend: impl Backend, history: History) {
    let (claims, key) = (Claims::new().expect("random bytes"), Key::new("k").expect("a key"));
    let ttl = Duration::from_millis(20);
    for round in 0..50 {
        let queue = if (worker + round).is_multiple_of(2) { Queue::Fifo } else { Queue::Barging };
        let claim: Claim = claims.claim(&key, lock_core::backend::Mode::Exclusive, queue, ttl);
        let (asked, grant) = loop {
            let asked = history.now();
            match backend.try_acquire(&claim).await.expect("an answer") {
                Attempt::Granted(grant) => break (asked, grant),
                Attempt::Held(_) => backend.changed(&claim).await,
            }
        };
        let acquired = history.now();
        // Now and then longer than the lease.
        tokio::time::sleep(Duration::from_millis(((worker * 7 + round * 3) % 25) as u64)).await;
        let ended = history.now().min(history.at(grant.sent.plus(grant.lease)));
        history.record(Hold {
            worker,
            key: key.as_str().to_owned(),
            asked,
            acquired,
            ended,
            fence: grant.fence,
        });
        backend.release(&claim, None).await.expect("an answer");
    }
}

#[tokio::test(start_paused = true)]
async fn a_history_of_memory_shows_one_holder_and_growing_tokens() {
    let history = work(Memory::new()).await;
    assert_eq!(history.holds().len(), 400);
    assert_eq!(history.check(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_history_of_a_broken_store_shows_it() {
    let overlap = work(Broken::with(Fault::TwoHolders)).await.check();
    assert!(matches!(overlap, Err(Violation::Overlap { .. })), "{overlap:?}");
    let order = work(Broken::with(Fault::TokensFall)).await.check();
    assert!(matches!(order, Err(Violation::TokenOrder { .. })), "{order:?}");
}
