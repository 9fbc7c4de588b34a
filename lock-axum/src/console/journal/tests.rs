//! Tests the journal with the events of a real manager, because only a manager can make events.

use lock_core::{LockEvents, LockManager, ManagerBuilder, backend::memory::Memory};

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn manager() -> (LockManager, LockEvents) {
    let locks =
        ManagerBuilder::namespace(LockManager::builder(Memory::new()), "shop").build().expect("a manager");
    let events = locks.events();
    (locks, events)
}

/// Returns the events of a lock that is granted and released.
async fn one(key: &str) -> [LockEvent; 2] {
    let (locks, mut events) = manager();
    locks.lock(key).run(async {}).await.expect("it is free");
    [events.next().await.expect("a grant"), events.next().await.expect("a release")]
}

/// Returns the event of a request that is refused.
async fn refused(key: &str) -> LockEvent {
    let (locks, mut events) = manager();
    let holder = locks.lock(key).acquire().await.expect("it is free");
    assert!(locks.lock(key).try_acquire().await.expect("an answer").is_none());
    events.next().await.expect("a grant");
    let refused = events.next().await.expect("a refusal");
    drop(holder);
    refused
}

#[tokio::test(start_paused = true)]
async fn the_name_of_a_key_without_a_template_is_its_first_part() {
    for (key, expected) in [("order:42", "order:*"), ("a:b:c", "a:*"), ("import", "import"), (":x", ":*")] {
        let [granted, _] = one(key).await;
        let mut journal = Journal::new(0, "shop");
        journal.add(Duration::ZERO, granted);
        let heat = journal.heat(Duration::ZERO);
        assert_eq!((heat[0].template.as_str(), heat[0].granted), (expected, 1), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn heat_is_that_of_the_last_quarter_of_an_hour() {
    let mut journal = Journal::new(1_000, "shop");
    let [granted, released] = one("order:1").await;
    journal.add(Duration::ZERO, granted.clone());
    journal.add(MINUTE, released);
    journal.add(MINUTE, refused("order:2").await);
    let counts = |now: u32| {
        let heat = journal.heat(MINUTE * now);
        heat.first().map(|heat| (heat.granted, heat.refused, heat.held_p99_ms.is_some()))
    };
    let table = [
        (1, Some((1, 1, true))),
        (14, Some((1, 1, true))),
        (15, Some((0, 1, true))),
        (16, None),
        (1_000, None),
    ];
    for (now, expected) in table {
        assert_eq!(counts(now), expected, "{now}");
    }
    // Old slots are dropped when a new one begins.
    journal.add(MINUTE * 60, granted);
    assert_eq!(journal.templates["order:*"].len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_longest_waits_are_the_first_and_templates_are_bounded() {
    let mut journal = Journal::new(0, "shop");
    for number in 0..TEMPLATES + 5 {
        let [granted, _] = one(&format!("key{number}")).await;
        journal.add(Duration::ZERO, granted);
    }
    assert_eq!(journal.templates.len(), TEMPLATES + 1);
    let heat = journal.heat(Duration::ZERO);
    let others = heat.iter().find(|heat| heat.template == FURTHER).expect("they are counted together");
    assert_eq!(others.granted, 5);
    assert!(heat.is_sorted_by(|a, b| a.waited_p99_ms >= b.waited_p99_ms));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_outlives_many_grants() {
    let mut journal = Journal::new(5_000, "shop");
    journal.add(Duration::from_secs(1), refused("order:1").await);
    let [granted, _] = one("order:2").await;
    for _ in 0..3 * EVENTS {
        journal.add(Duration::from_secs(2), granted.clone());
    }
    let history = journal.history(MINUTE);
    assert_eq!(history.len(), EVENTS + 1);
    assert!(history.is_sorted_by(|a, b| a.seq > b.seq), "the newest first");
    let oldest = serde_json::to_value(history.last().expect("events")).expect("plain data");
    assert_eq!((&oldest["event"], &oldest["at_ms"]), (&"refused".into(), &6_000.into()));
    assert_eq!(oldest["lock"]["key"], "shop:order:1");
    assert_eq!(journal.history(Duration::from_secs(2) + SPAN).len(), 0);
    assert_eq!(journal.began_ms(), 5_000);
}

#[test]
fn an_event_without_a_lock_is_kept() {
    let mut journal = Journal::new(0, "");
    journal.add(Duration::ZERO, LockEvent::Missed(7));
    let entry = serde_json::to_value(&journal.history(Duration::ZERO)[0]).expect("plain data");
    assert_eq!(entry, serde_json::json!({ "seq": 0, "at_ms": 0, "event": "missed", "count": 7 }));
}
