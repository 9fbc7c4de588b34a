//! The history of holds under load, while servers pause and sessions end.

use std::sync::Mutex;
use std::time::Duration;

use fastrand::Rng;
use lock_core::LockManager;
use lock_core::backend::zookeeper::{Operator, ZooKeeper};
use lock_core::clock::Clock;
use lock_core::testkit::history::{History, Violation};
use lock_tests::ZooKeeperServers;

use crate::load::{End, Kind, Load, count};
use crate::support::{LONG, ms, url};

/// The number of workers of each manager.
const WORKERS: usize = 3;

/// The time at which an operator ended a session.
struct Ended {
    manager: usize,
    from: Duration,
    to: Duration,
}

/// The load under faults ends after this many holds. The times are its shortest and its longest duration.
const END: End = End::With(400, Duration::from_secs(12), Duration::from_secs(300));

async fn load(history: &History, managers: &[LockManager], wait: Duration, end: End) {
    let load =
        Load { kinds: &[Kind::Lock, Kind::Lock, Kind::Fair, Kind::All], ..Load::exclusive(LONG, wait) };
    load.run_into(history, managers, WORKERS, end, &mut Rng::new()).await;
}

/// Ends the sessions in sequence, and stops the server for less and for more than a session timeout.
async fn torment(
    servers: &ZooKeeperServers,
    operators: &[Operator],
    history: &History,
    ended: &Mutex<Vec<Ended>>,
) {
    for round in 0usize.. {
        tokio::time::sleep(ms(300)).await;
        if round % 3 == 2 {
            servers.stop(0);
            tokio::time::sleep(ms(if round % 2 == 0 { 2_800 } else { 250 })).await;
            servers.cont(0);
        } else {
            let manager = round % operators.len();
            let from = history.now();
            ended.lock().expect("no panic").push(Ended { manager, from, to: Duration::MAX });
            for process in operators[manager].processes() {
                let _ = operators[manager].end_session(process).await;
            }
            if let Some(last) = ended.lock().expect("no panic").last_mut() {
                last.to = history.now();
            }
        }
    }
}

/// Leaves out the locks that an operator deleted before their end. They were free before any client could notice.
fn without_ended(history: &History, managers: usize, ended: &[Ended]) -> History {
    let kept = History::new(Clock::Suspend);
    for hold in history.holds() {
        let meets = |ended: &Ended| {
            ended.manager == hold.worker % managers && ended.from <= hold.ended && hold.asked <= ended.to
        };
        if !ended.iter().any(meets) {
            kept.record(hold);
        }
    }
    kept
}

#[tokio::test(flavor = "multi_thread")]
async fn one_holder_at_a_time_and_tokens_in_order_whatever_happens() {
    let servers = ZooKeeperServers::start();
    let (mut operators, mut managers) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let store = ZooKeeper::connect(&url(&servers)).await.expect("a store");
        operators.push(store.operator());
        managers.push(LockManager::builder(store).build().expect("a manager"));
    }
    let (all, ended) = (History::new(Clock::Suspend), Mutex::new(Vec::new()));
    tokio::select! {
        () = load(&all, &managers, Duration::from_secs(12), END) => {}
        () = torment(&servers, &operators, &all, &ended) => unreachable!("it never ends"),
    };
    let history = without_ended(&all, managers.len(), &ended.into_inner().expect("no panic"));
    let (holds, fenced) = count(&history);
    assert!(holds > 100 && fenced > 50, "{holds} holds, {fenced} with a token");
    assert!(holds * 2 > all.holds().len(), "{holds} of {} holds were checked", all.holds().len());
    history.check().unwrap_or_else(|violation| panic!("{violation}"));
}

/// This is the negative control: the same load with locks in two directories overlaps, and the check finds it.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_load_on_two_directories_is_found() {
    let servers = ZooKeeperServers::start();
    let mut managers = Vec::new();
    for path in ["one", "two"] {
        let url = format!("{}?session_timeout=2s", servers.url(path));
        managers.push(LockManager::connect(&url).await.expect("a manager"));
    }
    let history = History::new(Clock::Suspend);
    load(&history, &managers, Duration::from_secs(2), End::After(Duration::from_secs(2))).await;
    let found = history.check().expect_err("they do not exclude each other");
    assert!(matches!(found, Violation::Overlap { .. } | Violation::TokenOrder { .. }), "{found}");
}
