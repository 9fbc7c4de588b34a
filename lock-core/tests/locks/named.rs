//! Requests with an owner name.
#![cfg(target_os = "linux")]

use std::process::Command;
use std::time::Duration;

use lock_core::backend::memory::Memory;
use lock_core::backend::{Ask, Attempt, Backend, Claim, Fencing};
use lock_core::key::Key;
use lock_core::owner::{Owner, OwnerRecord};
use lock_core::{FencingToken, LockErrorKind, LockEvent, LockEvents, LockManager, strategy};
use tokio::time::Instant;

use crate::millis;
use crate::queue_store::QueueStore;
use crate::scripted::{Asked, Scripted, no_answer};

const LONG: Duration = Duration::from_secs(300);

/// Returns the id of a process that has ended.
fn dead_pid() -> u32 {
    let mut child = Command::new("true").spawn().expect("`true` is installed");
    let id = child.id();
    child.wait().expect("it ends");
    id
}

/// Returns the record of a request of this process with the name `import-3`, after a change to its text.
async fn record(change: impl Fn(String) -> String) -> OwnerRecord {
    let locks = LockManager::in_memory();
    let _guard = locks.lock("other").owner("import-3").acquire().await.unwrap();
    let own = locks.inspect("other").await.unwrap().unwrap().holders[0].record.clone().unwrap();
    let token = Owner::from_token(&"0".repeat(48)).unwrap().token();
    OwnerRecord::from_value(&change(own.to_value(&token))).expect("a record")
}

/// Returns the record of the same after its death.
async fn of_the_dead() -> OwnerRecord {
    let (own, dead) = (format!("pid={} ", std::process::id()), format!("pid={} ", dead_pid()));
    record(|text| text.replace(&own, &dead)).await
}

/// Lets another process, whose record that is, hold `k`. Returns its fencing token.
async fn held_by(store: &impl Backend, record: OwnerRecord) -> FencingToken {
    let owner = Owner::from_token(&"1".repeat(48)).unwrap();
    let mut claim = Claim::new(Key::new("k").unwrap(), owner, LONG, record);
    claim.fencing = true;
    match store.acquire(&claim, Ask::Try).await.unwrap() {
        Attempt::Granted(grant) => grant.fence.expect("a token"),
        held @ Attempt::Held(_) => panic!("{held:?}"),
    }
}

fn manager(store: &Memory) -> LockManager {
    LockManager::builder(store.clone()).build().unwrap()
}

/// Returns what the events say of owner names: the names of the variants, and whether the holder is alive.
async fn told(events: &mut LockEvents) -> Vec<&'static str> {
    let mut told = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout(millis(1), events.next()).await {
        match event {
            LockEvent::SameOwner { alive: true, .. } => told.push("alive"),
            LockEvent::SameOwner { .. } => told.push("unknown"),
            LockEvent::TakenOver { .. } => told.push("taken over"),
            _ => {}
        }
    }
    told
}

#[tokio::test(start_paused = true)]
async fn the_lock_of_a_dead_namesake_is_taken_over_at_once_with_a_larger_token() {
    for fair in [false, true] {
        for waits in [false, true] {
            let store = Memory::new();
            let before = held_by(&store, of_the_dead().await).await;
            let locks = manager(&store);
            let mut events = locks.events();
            let request = if fair { locks.fair("k") } else { locks.lock("k") };
            let request = request.owner("import-3");
            let began = Instant::now();
            let guard = if waits {
                request.strategy(strategy::wait()).acquire().await.unwrap()
            } else {
                request.try_acquire().await.unwrap().expect("it was freed")
            };
            assert_eq!(began.elapsed(), Duration::ZERO);
            assert!(guard.fencing_token().await.unwrap() > before);
            assert_eq!(told(&mut events).await, ["taken over"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_else_is_robbed() {
    let boot = |text: String| {
        let at = text.find(" run=").expect("a run") + " run=".len();
        format!("{}{}{}", &text[..at], "f".repeat(32), &text[at + 32..])
    };
    let pid = format!("pid={} ", std::process::id());
    let dead = format!("pid={} ", dead_pid());
    let nameless = |text: String| text.replace(" owner=import-3", "");
    let table: [(&str, OwnerRecord, &[&str]); 5] = [
        ("alive", record(|text| text).await, &["alive"]),
        ("elsewhere", record(|text| boot(text).replace(&pid, &dead)).await, &["unknown"]),
        ("untold", record(|text| text.replace(" run=", " was=").replace(&pid, &dead)).await, &["unknown"]),
        ("nameless", record(|text| nameless(text).replace(&pid, &dead)).await, &[]),
        ("another", record(|text| text.replace("import-3", "import-4").replace(&pid, &dead)).await, &[]),
    ];
    for (what, record, expected) in table {
        let store = Memory::new();
        held_by(&store, record.clone()).await;
        let locks = manager(&store);
        let mut events = locks.events();
        let request = locks.lock("k").owner("import-3").strategy(strategy::retry().within(millis(5_000)));
        let refused = request.acquire().await.unwrap_err();
        assert_eq!(refused.kind(), LockErrorKind::TimedOut, "{what}");
        assert_eq!(refused.to_string().contains("as import-3"), record.owner_name() == Some("import-3"));
        assert_eq!(told(&mut events).await, expected, "{what}");
        let held = locks.inspect("k").await.unwrap().expect("still held");
        assert_eq!(held.holders[0].record.as_ref(), Some(&record), "{what}");
    }
}

/// The store compares: a grant that came later, even of an equal record, is another one.
#[tokio::test(start_paused = true)]
async fn a_request_without_the_name_waits_for_the_dead() {
    let store = Memory::new();
    held_by(&store, of_the_dead().await).await;
    let locks = manager(&store);
    assert!(locks.lock("k").try_acquire().await.unwrap().is_none());
    assert!(locks.lock("k").owner("import-4").try_acquire().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn two_tasks_of_one_name_take_turns() {
    let locks = LockManager::in_memory();
    let mut events = locks.events();
    let request = || locks.lock("k").owner("import-3").strategy(strategy::wait());
    let first = request().acquire().await.unwrap();
    let second = tokio::spawn(request().acquire());
    tokio::time::sleep(LONG).await;
    assert!(!second.is_finished() && first.is_held());
    assert_eq!(told(&mut events).await, ["alive"]);
    let token = first.fencing_token().await.unwrap();
    first.release().await.unwrap();
    assert!(second.await.unwrap().unwrap().fencing_token().await.unwrap() > token);
}

/// Who waited before goes first.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_freed_goes_to_the_next_in_line() {
    let store = Memory::new();
    held_by(&store, of_the_dead().await).await;
    let (locks, others) = (manager(&store), manager(&store));
    let waits = tokio::spawn(others.fair("k").strategy(strategy::wait()).acquire());
    tokio::time::sleep(millis(5)).await;
    let named = tokio::spawn(locks.fair("k").owner("import-3").strategy(strategy::wait()).acquire());
    let first = waits.await.unwrap().unwrap();
    assert!(!named.is_finished());
    first.release().await.unwrap();
    assert!(named.await.unwrap().unwrap().is_held());
}

/// An entry of an earlier run may be served within its two seconds, and nothing but an answer tells of that. After that
/// a waiter with a name costs as little as any other.
#[tokio::test(start_paused = true)]
async fn a_waiter_with_a_name_looks_often_while_an_earlier_run_may_have_a_place() {
    for (name, first, second) in [(Some("import-3"), 19..=22, 2..=4), (None, 2..=4, 2..=4)] {
        for fair in [false, true] {
            let store = QueueStore::default();
            let (holds, waits) = (store.manager(), store.manager());
            let held = holds.lock("k").ttl(LONG).acquire().await.unwrap();
            let request = if fair { waits.fair("k") } else { waits.lock("k") };
            let request = request.ttl(LONG).strategy(strategy::wait());
            let request = if let Some(name) = name { request.owner(name) } else { request };
            let waiting = tokio::spawn(request.acquire());
            for expected in [&first, &second] {
                let before = store.calls().beats;
                tokio::time::sleep(Duration::from_secs(2)).await;
                let beats = store.calls().beats - before;
                assert!(expected.contains(&beats), "{name:?}, fair {fair}: {beats} heartbeats");
            }
            held.release().await.unwrap();
            drop(waiting.await.unwrap().unwrap());
        }
    }
}

/// What its owner asked to keep is not an orphan.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_kept_after_its_release_is_not_taken() {
    let (locks, store) = Scripted::manager(|_| {});
    let record = of_the_dead().await;
    let owner = Owner::from_token(&"1".repeat(48)).unwrap();
    let claim = Claim::new(Key::new("k").unwrap(), owner, LONG, record);
    assert!(matches!(store.acquire(&claim, Ask::Try).await.unwrap(), Attempt::Granted(_)));
    store.release(&claim, Some(LONG)).await.unwrap();
    assert!(locks.lock("k").owner("import-3").try_acquire().await.unwrap().is_none());
}

/// It is waited for as if it were alive, until the store answers.
#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_say_who_holds_delays_the_take_over() {
    let (locks, store) = Scripted::manager(|_| {});
    held_by(&store, of_the_dead().await).await;
    store.script().inspect.extend([Err(no_answer())]);
    let began = Instant::now();
    let request = locks.lock("k").owner("import-3").strategy(strategy::wait());
    let guard = request.acquire().await.unwrap();
    assert!(began.elapsed() <= Duration::from_secs(61), "{:?}", began.elapsed());
    assert!(guard.is_held() && store.asked(&Asked::Inspect) == 2);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_refused_where_nothing_could_be_taken_over_safely() {
    let locks = LockManager::in_memory();
    let invalid = [
        locks.lock("k").owner(""),
        locks.lock("k").owner("x".repeat(129)),
        locks.read("k").owner("a"),
        locks.semaphore("k", 2).owner("a"),
        locks.all(["a", "b"]).owner("a"),
        locks.lock("k").owner("a").fencing(false),
    ];
    for request in invalid {
        let text = format!("{request:?}");
        assert_eq!(request.check().unwrap_err().kind(), LockErrorKind::InvalidRequest, "{text}");
    }
    locks.write("k").owner("a").check().unwrap();
    let (silent, _store) = Scripted::manager(|store| store.lists = false);
    let (tokenless, _store) = Scripted::manager(|store| store.fencing = Fencing::None);
    for locks in [silent, tokenless] {
        let refused = locks.lock("k").owner("a").check().unwrap_err();
        assert_eq!(refused.kind(), LockErrorKind::Unsupported, "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_started_again_leads_at_once() {
    let store = Memory::new();
    let before = held_by(&store, of_the_dead().await).await;
    let began = Instant::now();
    let led = manager(&store).leader("k").owner("import-3").campaign().await.unwrap();
    assert!(began.elapsed() == Duration::ZERO && led.fencing_token() > before);
}
