//! The contract suite on the memory store, and the proof that the suite can fail.

#![cfg(feature = "testkit")]

#[path = "contract_memory/broken.rs"]
mod broken;
#[path = "contract_memory/heartbeats.rs"]
mod heartbeats;
#[path = "contract_memory/sessions.rs"]
mod sessions;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use broken::{Broken, Fault};
use heartbeats::{Beating, Kept};
use lock_core::backend::memory::Memory;
use lock_core::backend::{Ask, Attempt, Backend, Claim, Mode, Queue};
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
    let report = contract::run(|| std::future::ready(Subject::new(memory.clone()))).await;
    report.assert_complete(&[
        "fifo::without_a_place_there_is_nothing_to_keep",
        "listener::one_who_is_served_is_told",
        "refusal::more_than_it_can",
        "refusal::a_token_that_it_cannot_give",
        "refusal::a_downgrade_that_it_cannot_do",
        "refusal::a_latch_that_it_does_not_have",
        "session::",
    ]);
}

/// Checks the number of cases of each topic. This is the only place to change when a case is added, because the test of
/// each store lists only the cases that do not apply to that store.
#[test]
fn no_case_is_missing() {
    let expected = [
        ("cancel", 5),
        ("downgrade", 6),
        ("listener", 3),
        ("exclusive", 9),
        ("expiry", 4),
        ("fencing", 6),
        ("fifo", 12),
        ("inspect", 13),
        ("latch", 9),
        ("line", 7),
        ("permit", 5),
        ("permits", 6),
        ("refusal", 6),
        ("release", 8),
        ("renewal", 9),
        ("session", 9),
        ("several", 12),
        ("shared", 5),
    ];
    let mut topics = BTreeMap::<&str, usize>::new();
    let cases = contract::cases();
    for case in cases.iter().filter(|case| !case.name.contains('@')) {
        *topics.entry(case.name.split("::").next().expect("the topic")).or_default() += 1;
    }
    assert_eq!(topics, BTreeMap::from(expected));
    for variant in ["@write", "@semaphore"] {
        let of_it = cases.iter().filter(|case| case.name.ends_with(variant)).count();
        assert_eq!(of_it, 37, "{variant}: what a mutex must do");
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_that_lacks_a_case_is_not_complete() {
    let memory = Memory::new();
    let whole = contract::run(|| std::future::ready(Subject::new(memory.clone()))).await;
    let none = ["fifo::without_a_place_there_is_nothing_to_keep", "listener::one_who_is_served_is_told"];
    let refusals = [
        "refusal::more_than_it_can",
        "refusal::a_token_that_it_cannot_give",
        "refusal::a_downgrade_that_it_cannot_do",
        "refusal::a_latch_that_it_does_not_have",
        "session::",
    ];
    let exact = [&none[..], &refusals].concat();
    whole.assert_complete(&exact);
    let wrong = |report: Report, expected: Vec<&'static str>| {
        let told =
            std::panic::catch_unwind(move || report.assert_complete(&expected)).expect_err("not complete");
        told.downcast_ref::<String>().expect("a text").clone()
    };
    let text = wrong(whole.clone(), exact[1..].to_vec());
    assert!(text.contains("these did not apply") && text.contains(exact[0]), "{text}");
    let text = wrong(whole.clone(), [&exact[..], &["latch::"]].concat());
    assert!(text.contains("these apply by now") && text.contains("latch::is_set_once"), "{text}");
    let text = wrong(whole.clone(), [&exact[..], &["@reader"]].concat());
    assert!(text.contains("stand for no case"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_store_whose_places_live_on_beats_keeps_the_contract() {
    let store = Beating::new(Kept::All);
    let report = contract::run_all(|| std::future::ready(Subject::new(store.clone()))).await;
    for case in ["fifo::without_a_place_there_is_nothing_to_keep", "listener::one_who_is_served_is_told"] {
        assert!(report.ran.contains(&case), "{report}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_with_broken_beats_is_caught() {
    for (kept, case) in [
        (Kept::AllButGone, "fifo::without_a_place_there_is_nothing_to_keep"),
        (Kept::AllButWord, "listener::one_who_is_served_is_told"),
        (Kept::AllButLease, "fifo::a_holder_that_dies"),
        (Kept::AllButLeaving, "fifo::one_who_leaves_when_served"),
    ] {
        let report = report(Beating::new(kept)).await;
        assert!(failed(&report).contains(case), "{kept:?}: {report}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_can_less_is_asked_for_less() {
    let report = report(Broken::with(Fault::None).limited()).await;
    assert!(report.failures.is_empty(), "{report}");
    assert!(report.ran.contains(&"refusal::more_than_it_can"));
    assert!(
        !report
            .ran
            .iter()
            .any(|case| case.starts_with("fifo") || case.starts_with("fencing") || case.contains('@')),
        "{report}"
    );
}

fn failed(report: &Report) -> BTreeSet<&'static str> {
    report.failures.iter().map(|failure| failure.case).collect()
}

/// Every broken store must fail the case about its bug, and every case must fail for at least one broken store.
#[tokio::test(start_paused = true)]
async fn every_broken_backend_is_caught_and_every_case_catches_one() {
    let mut catching = BTreeSet::new();
    for fault in Fault::ALL {
        let report = report(Broken::with(fault)).await;
        let caught = failed(&report);
        assert!(caught.contains(fault.caught_by()), "{fault:?} is caught by {caught:?}");
        catching.extend(caught);
    }
    let whole = report(Memory::new()).await;
    let idle: Vec<_> = whole.ran.iter().filter(|case| !catching.contains(*case)).collect();
    assert!(idle.is_empty(), "no store is broken in the way that these are about: {idle:?}");
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_approximates_what_it_cannot_do_is_caught() {
    let report = report(Broken::with(Fault::Approximates).limited()).await;
    let refusals = [
        "refusal::a_downgrade_that_it_cannot_do",
        "refusal::a_latch_that_it_does_not_have",
        "refusal::a_token_that_it_cannot_give",
        "refusal::more_than_it_can",
    ];
    assert_eq!(failed(&report), BTreeSet::from(refusals), "{report}");
}

/// A function that returns the key and the mode of the lock that a worker requests in a round.
type Plan = fn(worker: usize, round: usize) -> (&'static str, Mode);

const MUTEX: Plan = |_, _| ("k", Mode::Exclusive);
const READ_WRITE: Plan =
    |worker, round| ("k", if (worker + round).is_multiple_of(4) { Mode::Exclusive } else { Mode::Shared });
const PERMITS: Plan = |_, _| ("k", Mode::Permit { of: 3 });

/// Runs eight workers on one key, with leases that expire in the middle of some holds.
async fn work(backend: impl Backend + Clone, plan: Plan) -> History {
    let history = History::new(backend.capability().placement.clock());
    let workers: Vec<_> =
        (0..8).map(|worker| tokio::spawn(work_of(worker, backend.clone(), history.clone(), plan))).collect();
    for worker in workers {
        worker.await.expect("no panic");
    }
    history
}

async fn work_of(worker: usize, backend: impl Backend, history: History, plan: Plan) {
    let claims = Claims::new().expect("random bytes");
    let ttl = Duration::from_millis(20);
    for round in 0..50 {
        let (key, mode) = plan(worker, round);
        let queue = if (worker + round).is_multiple_of(2) { Queue::Fifo } else { Queue::Barging };
        let claim: Claim = claims.claim(&Key::new(key).expect("a key"), mode, queue, ttl);
        let (asked, grant) = loop {
            let asked = history.now();
            match backend.acquire(&claim, Ask::Enqueue { room: None }).await.expect("an answer") {
                Attempt::Granted(grant) => break (asked, grant),
                Attempt::Held(_) => backend.changed(&claim).await,
            }
        };
        let acquired = history.now();
        // This time is sometimes longer than the lease.
        tokio::time::sleep(Duration::from_millis(((worker * 7 + round * 3) % 25) as u64)).await;
        let ended = history.now().min(history.at(grant.sent.plus(grant.lease)));
        let (key, fence) = (key.to_owned(), grant.fence);
        history.record(Hold { worker, key, mode, asked, acquired, ended, fence });
        backend.release(&claim, None).await.expect("an answer");
    }
}

#[tokio::test(start_paused = true)]
async fn a_history_of_memory_shows_no_violation() {
    for plan in [MUTEX, READ_WRITE, PERMITS] {
        let history = work(Memory::new(), plan).await;
        assert_eq!(history.holds().len(), 400);
        assert_eq!(history.check(), Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_history_of_a_broken_store_shows_it() {
    for (fault, plan) in [(Fault::TwoHolders, MUTEX), (Fault::WriterBesideReaders, READ_WRITE)] {
        let overlap = work(Broken::with(fault), plan).await.check();
        assert!(matches!(overlap, Err(Violation::Overlap { .. })), "{overlap:?}");
    }
    let many = work(Broken::with(Fault::OnePermitTooMany), PERMITS).await.check();
    assert!(matches!(&many, Err(Violation::TooMany { holds }) if holds.len() == 4), "{many:?}");
    for plan in [MUTEX, READ_WRITE] {
        let order = work(Broken::with(Fault::TokensFall), plan).await.check();
        assert!(matches!(order, Err(Violation::TokenOrder { .. })), "{order:?}");
    }
}
