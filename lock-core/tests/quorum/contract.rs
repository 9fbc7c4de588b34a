//! Runs the contract suite on quorums, with all nodes and with a minority of bad nodes.

use std::time::Duration;

use lock_core::backend::Backend;
use lock_core::backend::memory::Memory;
use lock_core::backend::redlock::quorum::Quorum;
use lock_core::testkit::contract::{self, Report, Subject};
use lock_core::testkit::{Fault, Flaky, FlakyControl, Operation};

use super::node::{Health, Node, Weather};
use super::{millis, nodes, quorum};

/// Runs all cases on the same quorum, so that leftovers of one case affect the next.
async fn keeps_the_contract(quorum: Quorum<impl Backend>) -> Report {
    contract::run_all(|| std::future::ready(Subject::new(quorum.clone()))).await
}

fn of_memory(count: usize) -> Quorum<Memory> {
    Quorum::new((0..count).map(|_| Memory::new()).collect()).expect("an odd number")
}

#[tokio::test(start_paused = true)]
async fn a_quorum_of_one() {
    let report = keeps_the_contract(of_memory(1)).await;
    assert!(report.ran.iter().any(|case| case.starts_with("permit::")), "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_quorum_of_three() {
    let report = keeps_the_contract(of_memory(3)).await;
    report.assert_complete(&[
        "@write",
        "@semaphore",
        "cancel::a_place_in_a_queue",
        "cancel::a_wait",
        "release::a_waiter_is_told",
        "fifo::",
        "session::",
        "line::",
        "permit::",
        "permits::",
        "latch::",
        "listener::",
        "inspect::",
        "downgrade::serves_readers_that_wait",
        "downgrade::overtakes_no_writer",
        "several::names_the_key_that_is_in_use",
        "several::overtakes_nobody",
        "refusal::a_token_that_it_cannot_give",
        "refusal::a_downgrade_that_it_cannot_do",
    ]);
}

#[tokio::test(start_paused = true)]
async fn a_quorum_of_five() {
    keeps_the_contract(of_memory(5)).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_that_have_tokens_and_clocks_of_their_own() {
    let nodes = nodes::<3>();
    for (node, skew) in nodes.iter().zip([0, 40, 3]) {
        node.skew(millis(skew));
        node.weather(Weather { delay: millis(3), lost: 0 });
    }
    keeps_the_contract(quorum(&nodes)).await;
}

#[tokio::test(start_paused = true)]
async fn with_a_minority_that_is_not_there() {
    for health in [Health::Down, Health::Stuck, Health::Mute] {
        let three = nodes::<3>();
        three[1].is(health);
        keeps_the_contract(quorum(&three)).await;
        let five = nodes::<5>();
        five[0].is(health);
        five[3].is(health);
        keeps_the_contract(quorum(&five)).await;
    }
}

/// Makes calls of all kinds fail without end. A fixed seed decides the order of the faults.
async fn trouble(control: FlakyControl) {
    use {Fault as F, Operation as O};
    let mut rng = fastrand::Rng::with_seed(7);
    let operations = [O::Acquire, O::Renew, O::Release, O::Fence, O::Downgrade];
    let faults = [F::Refuse, F::LoseRequest, F::LoseAnswer, F::Hang, F::HangAnswer];
    loop {
        for operation in operations {
            control.fail_next(operation, faults[rng.usize(0..faults.len())], rng.u64(1..4));
        }
        tokio::time::sleep(millis(rng.u64(1..20))).await;
        control.heal();
        tokio::time::sleep(Duration::from_micros(rng.u64(0..2_000))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn with_a_minority_that_fails_now_and_then() {
    for count in [3, 5] {
        let (nodes, controls): (Vec<_>, Vec<_>) = (0..count).map(|_| Flaky::new(Memory::new())).unzip();
        let troubles: Vec<_> =
            controls.into_iter().take(count / 2).map(|control| tokio::spawn(trouble(control))).collect();
        keeps_the_contract(Quorum::new(nodes).expect("an odd number")).await;
        troubles.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// Shows that the suite can fail on a quorum.
#[tokio::test(start_paused = true)]
async fn without_a_majority_the_contract_is_not_kept() {
    let nodes = nodes::<3>();
    nodes[1].is(Health::Down);
    nodes[2].is(Health::Down);
    let quorum: Quorum<Node> = quorum(&nodes);
    let report = contract::run(|| std::future::ready(Subject::new(quorum.clone()))).await;
    assert!(report.failures.len() > 20, "{report}");
}
