//! Tests of counters, gauges and histograms.

use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::backend::memory::Memory as Store;
use lock_core::testkit::{Fault, Operation, SessionStore};
use lock_core::{LockErrorKind, LockEvent, LockManager, LossReason, strategy};
use metrics::Unit;

use crate::disowning::Disowning;
use crate::evicting::Evicting;
use crate::recorder::Memory;
use crate::{KEY, TEMPLATE, flaky, millis, order, patient, secs};

const HELD: &str = "lock.client.held{backend=memory,template=order:<id>}";
const PENDING: &str = "lock.client.pending_requests{backend=memory,template=order:<id>}";

/// Returns the name of a series for the template, with one more label.
fn of(name: &str, label: &str, value: &str) -> String {
    let mut labels =
        ["backend=memory".to_owned(), format!("template={TEMPLATE}"), format!("{label}={value}")];
    labels.sort();
    format!("{name}{{{}}}", labels.join(","))
}

fn attempts(recorder: &Memory, result: &str) -> f64 {
    recorder.total(&of("lock.client.acquire.attempts", "result", result))
}

fn waits(recorder: &Memory, result: &str) -> Vec<f64> {
    recorder.samples(&of("lock.client.wait_time", "result", result))
}

fn uses(recorder: &Memory, end: &str) -> Vec<f64> {
    recorder.samples(&of("lock.client.use_time", "end", end))
}

fn losses(recorder: &Memory, reason: &str) -> f64 {
    recorder.total(&of("lock.client.lost", "reason", reason))
}

fn renewals(recorder: &Memory, result: &str) -> f64 {
    recorder.total(&of("lock.client.renewals", "result", result))
}

/// Checks that no lock is held and no request is pending.
fn assert_idle(recorder: &Memory) {
    assert_eq!((recorder.total(HELD), recorder.total(PENDING)), (0.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_used_and_given_back() {
    let (recorder, _here) = Memory::here();
    let locks = LockManager::in_memory();
    let guard = order(&locks).acquire().await.unwrap();
    assert_eq!((recorder.total(HELD), recorder.total(PENDING)), (1.0, 0.0));
    assert_eq!((attempts(&recorder, "acquired"), waits(&recorder, "acquired")), (1.0, vec![0.0]));
    tokio::time::sleep(secs(20)).await;
    let renewed = renewals(&recorder, "renewed");
    assert!((6.0..=8.0).contains(&renewed), "{renewed}: every third of 10 s, and a random bit earlier");
    guard.release().await.unwrap();
    assert_eq!(uses(&recorder, "released"), [20.0]);
    assert_idle(&recorder);

    drop(order(&locks).acquire().await.unwrap());
    order(&locks).run(tokio::time::sleep(millis(1_500))).await.unwrap();
    assert_eq!(uses(&recorder, "released"), [20.0, 0.0, 1.5]);
    assert_eq!(attempts(&recorder, "acquired"), 3.0);
    assert_idle(&recorder);
    assert_eq!((losses(&recorder, "expired"), renewals(&recorder, "unknown")), (0.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn every_way_in_which_a_request_ends() {
    let (recorder, _here) = Memory::here();
    let (locks, control) = flaky(|builder| builder);
    let guard = order(&locks).acquire().await.unwrap();
    let counts = || {
        let all = ["contended", "timeout", "overloaded", "skipped", "store_error", "cancelled", "refused"];
        all.map(|result| attempts(&recorder, result) as u32)
    };
    assert_eq!(counts(), [0; 7], "they are there from the beginning");

    assert!(order(&locks).acquire().await.is_err());
    assert!(order(&locks).try_acquire().await.unwrap().is_none());
    assert_eq!(counts(), [2, 0, 0, 0, 0, 0, 0]);
    assert!(patient(&locks, secs(3)).acquire().await.is_err());
    assert_eq!((counts(), waits(&recorder, "timeout")), ([2, 1, 0, 0, 0, 0, 0], vec![3.0]));
    assert!(order(&locks).strategy(strategy::shed(strategy::retry(), 0)).acquire().await.is_err());
    assert_eq!(counts(), [2, 1, 1, 0, 0, 0, 0]);
    assert!(order(&locks).strategy(strategy::skip()).acquire().await.is_err());
    assert!(order(&locks).strategy(strategy::retry_or_skip().within(secs(1))).acquire().await.is_err());
    assert_eq!((counts(), waits(&recorder, "skipped")), ([2, 1, 1, 2, 0, 0, 0], vec![0.0, 1.0]));

    let waiting = tokio::time::timeout(millis(250), patient(&locks, secs(3)).acquire());
    assert!(waiting.await.is_err());
    assert_eq!((counts()[5], waits(&recorder, "cancelled")), (1, vec![0.25]));
    let task = tokio::spawn(patient(&locks, secs(3)).acquire());
    tokio::time::sleep(millis(10)).await;
    assert_eq!(recorder.total(PENDING), 1.0);
    assert!(patient(&locks, secs(3)).max_waiters(1).acquire().await.is_err());
    assert_eq!(counts()[2], 2);
    task.abort();
    assert!(task.await.is_err());
    assert_eq!((counts()[5], recorder.total(PENDING)), (2, 0.0));

    control.fail_next(Operation::Acquire, Fault::Refuse, 1);
    assert!(order(&locks).acquire().await.is_err());
    assert_eq!(counts()[4], 1);
    let refused =
        guard.run(async { order(&locks).reentrant(false).acquire().await.unwrap_err().kind() }).await;
    assert_eq!((refused.unwrap(), counts()[6]), (LockErrorKind::Reentered, 1));
    drop(guard);
    locks.shutdown(secs(1)).await;
    assert!(order(&locks).acquire().await.is_err());
    assert_eq!((counts()[6], attempts(&recorder, "acquired")), (2, 1.0));
    assert_idle(&recorder);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_entered_again_counts_once() {
    let (recorder, _here) = Memory::here();
    let locks = LockManager::in_memory();
    let nested = order(&locks).run(async {
        let nested = order(&locks).acquire().await.unwrap();
        let held = recorder.total(HELD);
        drop(nested);
        (held, recorder.total(HELD))
    });
    assert_eq!(nested.await.unwrap(), (1.0, 1.0));
    assert_eq!((attempts(&recorder, "acquired"), uses(&recorder, "released").len()), (1.0, 1));
    assert_idle(&recorder);
}

#[tokio::test(start_paused = true)]
async fn losses_by_their_reason_and_the_gauge_is_back_at_once() {
    let (recorder, _here) = Memory::here();
    let (locks, control) = flaky(|builder| builder);

    let guard = order(&locks).renew(false).ttl(secs(1)).acquire().await.unwrap();
    assert_eq!(guard.lost().await, LossReason::Expired);
    assert_eq!(recorder.total(HELD), 0.0, "though the guard is there yet");
    drop(guard);
    assert_eq!((losses(&recorder, "expired"), uses(&recorder, "lost")), (1.0, vec![0.998]));

    let guard = order(&locks).max_hold(millis(300)).acquire().await.unwrap();
    assert_eq!(guard.lost().await, LossReason::MaxHold);
    drop(guard);
    assert_eq!((losses(&recorder, "max_hold"), uses(&recorder, "max_hold")), (1.0, vec![0.3]));

    // This guard is never dropped, and the store does not answer its renewals.
    std::mem::forget(order(&locks).ttl(secs(3)).acquire().await.unwrap());
    control.fail_always(Operation::Renew, Fault::LoseRequest);
    tokio::time::sleep(secs(4)).await;
    control.heal();
    assert_eq!((losses(&recorder, "expired"), recorder.total(HELD)), (2.0, 0.0));
    assert!(renewals(&recorder, "unknown") >= 3.0);

    let guard = order(&locks).acquire().await.unwrap();
    assert_eq!(locks.shutdown(millis(10)).await.revoked, [KEY]);
    drop(guard);
    assert_eq!((losses(&recorder, "shut_down"), uses(&recorder, "shut_down")), (1.0, vec![0.01]));
    assert_eq!(uses(&recorder, "released"), [0.0; 0], "what was lost is not released");
    assert_idle(&recorder);
}

#[tokio::test(start_paused = true)]
async fn the_store_says_that_it_is_anothers() {
    let (recorder, _here) = Memory::here();
    let locks = LockManager::builder(Disowning(Store::new())).build().unwrap();
    let guard = order(&locks).ttl(secs(3)).acquire().await.unwrap();
    assert_eq!(guard.lost().await, LossReason::Taken);
    assert_eq!((losses(&recorder, "taken"), renewals(&recorder, "not_owned")), (1.0, 1.0));
    drop(guard);
    assert_idle(&recorder);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_an_operator_takes_away() {
    let (recorder, _here) = Memory::here();
    let locks = LockManager::in_memory();
    let guard = order(&locks).acquire().await.unwrap();
    let id = locks.locks().await.unwrap().locks[0].holders[0].id.clone();
    assert!(locks.force_release(KEY, &id, "stuck").await.unwrap());
    assert_eq!(guard.lost().await, LossReason::Forced);
    drop(guard);
    assert_eq!((losses(&recorder, "forced"), uses(&recorder, "forced").len()), (1.0, 1));
    assert_idle(&recorder);
}

#[tokio::test(start_paused = true)]
async fn the_locks_of_a_session_that_ends() {
    let (recorder, _here) = Memory::here();
    let (store, sessions) = SessionStore::new();
    let locks = LockManager::builder(store).build().unwrap();
    let mut events = locks.events();
    let guard = order(&locks).acquire().await.unwrap();
    assert!(matches!(events.next().await, Some(LockEvent::Granted { .. })));
    sessions.end_all();
    let total = |name: &str| recorder.total(&format!("lock.client.{name},template={TEMPLATE}}}"));
    assert_eq!(total("lost{backend=session,reason=session_ended"), 1.0);
    assert_eq!(total("held{backend=session"), 0.0, "though the guard is there yet");
    let event = events.next().await;
    assert!(matches!(event, Some(LockEvent::Lost { reason: LossReason::SessionEnded, .. })), "{event:?}");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_panics_leaves_nothing_counted() {
    let (recorder, _here) = Memory::here();
    let locks = LockManager::in_memory();
    let task = tokio::spawn(order(&locks).run(async { panic!("as planned") }));
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(uses(&recorder, "released").len(), 1);
    assert_idle(&recorder);
}

#[tokio::test(start_paused = true)]
async fn waiters_that_are_served_inside_the_process() {
    let (recorder, _here) = Memory::here();
    let locks = LockManager::in_memory();
    let guard = order(&locks).acquire().await.unwrap();
    let tasks: Vec<_> = (0..5)
        .map(|_| tokio::spawn(patient(&locks, secs(60)).run(async { tokio::time::sleep(secs(1)).await })))
        .collect();
    tokio::time::sleep(secs(2)).await;
    assert_eq!((recorder.total(HELD), recorder.total(PENDING)), (1.0, 5.0));
    drop(guard);
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(waits(&recorder, "acquired"), [0.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(uses(&recorder, "released"), [2.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    assert_idle(&recorder);
}

#[tokio::test(start_paused = true)]
async fn several_keys_are_one_lock_and_a_downgrade_is_one_use() {
    let (recorder, _here) = Memory::here();
    let locks = LockManager::in_memory();
    let guard = order(&locks).acquire().await.unwrap();
    let both = locks.all([KEY, "order:43"]).template(TEMPLATE).strategy(strategy::retry().within(secs(9)));
    let task = tokio::spawn(both.run(async { tokio::time::sleep(secs(1)).await }));
    tokio::time::sleep(secs(1)).await;
    drop(guard);
    task.await.unwrap().unwrap();
    assert_eq!((attempts(&recorder, "acquired"), uses(&recorder, "released")), (2.0, vec![1.0, 1.0]));
    assert_idle(&recorder);

    let writer = locks.write("report").template(TEMPLATE).acquire().await.unwrap();
    tokio::time::sleep(secs(1)).await;
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(recorder.total(HELD), 1.0);
    tokio::time::sleep(secs(1)).await;
    reader.release().await.unwrap();
    assert_eq!(uses(&recorder, "released"), [1.0, 1.0, 2.0]);
    assert_idle(&recorder);
}

#[tokio::test(start_paused = true)]
async fn releases_that_go_wrong() {
    let (recorder, _here) = Memory::here();
    let (locks, control) = flaky(|builder| builder);
    let errors = |why| recorder.total(&of("lock.client.release_errors", "reason", why));
    let guard = order(&locks).acquire().await.unwrap();
    control.fail_next(Operation::Release, Fault::LoseRequest, 2);
    assert!(guard.release().await.is_err());
    assert_eq!(errors("unanswered"), 1.0);
    tokio::time::sleep(secs(5)).await;

    let guard = order(&locks).ttl(secs(3)).acquire().await.unwrap();
    control.fail_always(Operation::Release, Fault::LoseRequest);
    drop(guard);
    tokio::time::sleep(secs(10)).await;
    assert_eq!((errors("unanswered"), errors("abandoned")), (1.0, 1.0));
    assert_idle(&recorder);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_held_for_long_says_so_once() {
    let (recorder, _here) = Memory::here();
    let (locks, _) = flaky(|builder| builder.warn_held_after(secs(30)));
    let long = || recorder.total("lock.client.long_held{backend=memory,template=order:<id>}");
    let guard = order(&locks).acquire().await.unwrap();
    tokio::time::sleep(secs(29)).await;
    assert_eq!(long(), 0.0);
    tokio::time::sleep(secs(2)).await;
    assert_eq!(long(), 1.0, "within a second, whenever the next renewal is due");
    tokio::time::sleep(secs(300)).await;
    assert_eq!(long(), 1.0);
    drop(guard);
    // A lock without renewals is checked too.
    let guard = order(&locks).renew(false).ttl(secs(100)).acquire().await.unwrap();
    tokio::time::sleep(secs(31)).await;
    assert_eq!(long(), 2.0);
    drop(guard);
    let default = LockManager::in_memory();
    let _guard = order(&default).acquire().await.unwrap();
    tokio::time::sleep(secs(3_599)).await;
    assert_eq!(long(), 2.0);
    tokio::time::sleep(secs(2)).await;
    assert_eq!(long(), 3.0, "an hour, where nobody says otherwise");
}

#[tokio::test(start_paused = true)]
async fn calls_of_the_store_are_timed_by_name() {
    let (recorder, _here) = Memory::here();
    let (locks, control) = flaky(|builder| builder);
    let calls =
        |op: &str| recorder.samples(&format!("lock.store.operation.duration{{backend=memory,op={op}}}"));
    control.fail_next(Operation::Acquire, Fault::HangAnswer, 1);
    let healed = async {
        tokio::time::sleep(millis(70)).await;
        control.heal();
    };
    let (guard, ()) = tokio::join!(patient(&locks, secs(1)).acquire(), healed);
    let guard = guard.unwrap();
    assert_eq!(calls("try_acquire"), [0.07]);
    guard.extend(secs(20)).await.unwrap();
    guard.release().await.unwrap();
    let writer = locks.write("report").acquire().await.unwrap();
    drop(writer.downgrade().await.unwrap());
    locks.latch("done").count().await.unwrap();
    let other = LockManager::builder(Disowning(Store::new())).build().unwrap();
    order(&other).acquire().await.unwrap().fencing_token().await.unwrap();
    for op in ["fence", "renew", "release", "downgrade", "latch"] {
        assert!(!calls(op).is_empty(), "{op}");
    }
}

/// A renewal is late if a body blocks the runtime, as here, or if the machine is too busy.
#[tokio::test]
async fn a_renewal_that_comes_late_is_a_stall() {
    let (recorder, _here) = Memory::here();
    let locks = LockManager::in_memory();
    let _guard = locks.lock("k").ttl(millis(300)).acquire().await.unwrap();
    // The task that renews begins to wait for the renewal, which is due within 100 ms.
    tokio::time::sleep(millis(1)).await;
    std::thread::sleep(millis(250));
    tokio::time::sleep(millis(1)).await;
    let stalls = recorder.samples("lock.client.stall_time{backend=memory}");
    assert!(stalls.iter().any(|late| *late >= 0.14), "{stalls:?}");
    assert_eq!(recorder.described()["lock.client.stall_time"], Some(metrics::Unit::Seconds));
}

#[tokio::test(start_paused = true)]
async fn renewals_in_time_are_no_stalls() {
    let (recorder, _here) = Memory::here();
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").ttl(secs(3)).acquire().await.unwrap();
    tokio::time::sleep(secs(600)).await;
    assert!(guard.is_held());
    assert!(recorder.samples("lock.client.stall_time{backend=memory}").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_known_template_is_there_before_its_first_lock() {
    let early = LockManager::builder(Store::new()).template("early:<id>").build().unwrap();
    let (recorder, _here) = Memory::here();
    let mounted = LockManager::builder(Store::new()).template("built:<id>").build().unwrap();
    mounted.register_template("mounted:<id>");
    for template in ["built:<id>", "mounted:<id>"] {
        for series in [
            format!("lock.client.acquire.attempts{{backend=memory,result=timeout,template={template}}}"),
            format!("lock.client.lost{{backend=memory,reason=expired,template={template}}}"),
            format!("lock.client.held{{backend=memory,template={template}}}"),
        ] {
            assert_eq!(recorder.total(&series), 0.0);
        }
    }
    // The manager `early` was built before the recorder was installed. The series of its template appears with the
    // first request for any key.
    drop(early.lock("k").acquire().await.unwrap());
    assert_eq!(recorder.total("lock.client.held{backend=memory,template=early:<id>}"), 0.0);
    mounted.record_bypass("mounted:<id>");
    assert_eq!(recorder.total("lock.client.bypassed{backend=memory,template=mounted:<id>}"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn templates_then_labels_then_none_and_never_too_many() {
    let (recorder, _here) = Memory::here();
    let locks = LockManager::in_memory();
    drop(locks.lock("a").label("nightly").acquire().await.unwrap());
    drop(locks.lock("b").acquire().await.unwrap());
    drop(locks.lock("c").label("pay").template("c:<id>").acquire().await.unwrap());
    let named = |names: &[String]| -> std::collections::BTreeSet<String> {
        let template = |name: &String| Some(name.split_once("template=")?.1.trim_end_matches('}').to_owned());
        names.iter().filter_map(template).collect()
    };
    assert_eq!(named(&recorder.names()).into_iter().collect::<Vec<_>>(), ["c:<id>", "nightly", "none"]);
    for id in 0..2_000 {
        drop(locks.lock("a").label(format!("import {id}")).acquire().await.unwrap());
    }
    let names = named(&recorder.names());
    assert!(names.len() <= 513 && names.contains("other"), "{}", names.len());
    let others = "lock.client.acquire.attempts{backend=memory,result=acquired,template=other}";
    assert_eq!(recorder.total(others), (2_000 - (512 - 3)) as f64);
}

/// An exporter that has forgotten an idle series creates it again when the library requests a new handle for it.
#[tokio::test(start_paused = true)]
async fn handles_are_asked_for_again_after_a_while() {
    let (recorder, _here) = Memory::here();
    let locks = LockManager::in_memory();
    drop(order(&locks).acquire().await.unwrap());
    let first = recorder.registrations();
    drop(order(&locks).acquire().await.unwrap());
    assert_eq!(recorder.registrations(), first, "not for each request");
    tokio::time::sleep(secs(61)).await;
    drop(order(&locks).acquire().await.unwrap());
    assert!(recorder.registrations() > first);
    assert_idle(&recorder);
}

#[tokio::test(start_paused = true)]
async fn keys_that_the_store_throws_away_are_counted_and_told() {
    let (recorder, _here) = Memory::here();
    let locks = LockManager::builder(Evicting::default()).build().unwrap();
    let mut events = locks.events();
    for _ in 0..2 {
        order(&locks).acquire().await.unwrap().release().await.unwrap();
    }
    assert_eq!(recorder.total("lock.store.evicted_keys{backend=memory}"), 14.0);
    let mut told = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout(millis(1), events.next()).await {
        if let LockEvent::StoreEvicted { keys, .. } = event {
            told.push(keys);
        }
    }
    assert_eq!(told, [7, 7]);
}

#[tokio::test(start_paused = true)]
async fn no_label_has_a_key_and_every_series_has_its_unit() {
    let (recorder, _here) = Memory::here();
    let (locks, control) = flaky(|builder| builder.warn_held_after(secs(1)));
    for kind in 0..4 {
        let request = match kind {
            0 => locks.lock(KEY),
            1 => locks.fair(KEY),
            2 => locks.write(KEY),
            _ => locks.all([KEY, "order:secret-43"]),
        };
        let guard = request.clone().acquire().await.unwrap();
        assert!(request.clone().strategy(strategy::retry().within(secs(1))).acquire().await.is_err());
        tokio::time::sleep(secs(5)).await;
        control.fail_next(Operation::Release, Fault::LoseRequest, 1);
        let _ = guard.release().await;
        tokio::time::sleep(secs(1)).await;
    }
    let guard = locks.lock(KEY).label("label").renew(false).ttl(secs(1)).acquire().await.unwrap();
    guard.lost().await;
    let names = recorder.names();
    assert!(names.len() > 40);
    assert!(!names.iter().any(|name| name.contains("secret")), "{names:#?}");
    let described = recorder.described();
    for name in &names {
        let unit = described.get(name.split('{').next().unwrap()).unwrap_or_else(|| panic!("{name}"));
        let seconds = name.contains("time{") || name.contains("duration{");
        assert_eq!(*unit, Some(if seconds { Unit::Seconds } else { Unit::Count }), "{name}");
    }
    assert_eq!(described.len(), 15);
}

#[tokio::test(start_paused = true)]
async fn nobody_records_and_nothing_is_kept() {
    let locks = LockManager::in_memory();
    let guard = order(&locks).acquire().await.unwrap();
    let (recorder, _here) = Memory::here();
    drop(guard);
    let name = "lock.client.held{backend=memory,template=order:<id>}";
    assert_eq!(recorder.seen(name), None, "what was not counted when it began is not when it ends");
    drop(order(&locks).acquire().await.unwrap());
    assert_eq!(recorder.total(name), 0.0);
}

/// A recorder that acquires a lock of the manager when it is first called.
#[derive(Debug)]
struct TakesALock {
    locks: LockManager,
    memory: Memory,
    took: AtomicBool,
}

impl TakesALock {
    fn take(&self) {
        if !self.took.swap(true, Ordering::SeqCst) {
            let request = self.locks.lock("registry");
            let mut taking = std::pin::pin!(request.acquire());
            let waker = std::task::Waker::noop();
            let taken = taking.as_mut().poll(&mut std::task::Context::from_waker(waker));
            assert!(matches!(taken, std::task::Poll::Ready(Ok(_))), "memory answers at once");
        }
    }
}

impl metrics::Recorder for TakesALock {
    fn describe_counter(&self, name: metrics::KeyName, unit: Option<Unit>, text: metrics::SharedString) {
        self.take();
        self.memory.describe_counter(name, unit, text);
    }
    fn describe_gauge(&self, name: metrics::KeyName, unit: Option<Unit>, text: metrics::SharedString) {
        self.memory.describe_gauge(name, unit, text);
    }
    fn describe_histogram(&self, name: metrics::KeyName, unit: Option<Unit>, text: metrics::SharedString) {
        self.memory.describe_histogram(name, unit, text);
    }
    fn register_counter(&self, key: &metrics::Key, metadata: &metrics::Metadata<'_>) -> metrics::Counter {
        self.take();
        self.memory.register_counter(key, metadata)
    }
    fn register_gauge(&self, key: &metrics::Key, metadata: &metrics::Metadata<'_>) -> metrics::Gauge {
        self.memory.register_gauge(key, metadata)
    }
    fn register_histogram(&self, key: &metrics::Key, metadata: &metrics::Metadata<'_>) -> metrics::Histogram {
        self.take();
        self.memory.register_histogram(key, metadata)
    }
}

/// A recorder may acquire a lock of the library while any series is registered. A push exporter does so to guard its
/// registry.
#[test]
fn a_recorder_may_take_a_lock() {
    let takes = std::thread::spawn(|| {
        let memory = Memory::default();
        let locks = LockManager::in_memory();
        let recorder: &'static TakesALock =
            Box::leak(Box::new(TakesALock { locks, memory, took: AtomicBool::new(false) }));
        let _here = metrics::set_default_local_recorder(recorder);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            for number in 0..3 {
                // Each pass has a new label and a new template, so the library calls the recorder. The first of these
                // calls acquires a lock.
                recorder.took.store(false, Ordering::SeqCst);
                let request = recorder.locks.lock("work").label(format!("work {number}"));
                request.acquire().await.expect("it is free").release().await.expect("an answer");
                recorder.locks.register_template(&format!("template {number}"));
            }
        });
    });
    // The test runs in its own thread. If the library called the recorder under the lock of its cache, that thread
    // would deadlock.
    let waits = std::iter::repeat_with(|| std::thread::sleep(millis(10)));
    assert!(waits.take(6_000).any(|()| takes.is_finished()), "a deadlock");
    takes.join().expect("no panic");
}
