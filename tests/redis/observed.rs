//! Metrics and events of a manager on a real server. Its renewals run on their own thread.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use lock_core::{LockEvent, LossReason, strategy};
use lock_tests::{Clock, PATIENCE, RedisServer, wait_until};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

use crate::support::{manager, ms, within};

const TEMPLATE: &str = "observed:<id>";

/// All values of each series.
static SERIES: Mutex<BTreeMap<String, Vec<f64>>> = Mutex::new(BTreeMap::new());

fn series() -> MutexGuard<'static, BTreeMap<String, Vec<f64>>> {
    SERIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts to record the metrics of all threads of the process.
fn record() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| metrics::set_global_recorder(Kept).expect("no other recorder in this process"));
}

/// Returns the values of `lock.client.<name>` of the template, with `label`.
fn values(name: &str, label: &str) -> Vec<f64> {
    let mut labels = vec!["backend=redis".to_owned(), format!("template={TEMPLATE}")];
    labels.extend((!label.is_empty()).then(|| label.to_owned()));
    labels.sort();
    series().get(&format!("lock.client.{name}{{{}}}", labels.join(","))).cloned().unwrap_or_default()
}

fn total(name: &str, label: &str) -> f64 {
    values(name, label).iter().sum()
}

struct Kept;

struct Series(String);

impl Series {
    fn of(key: &Key) -> Arc<Self> {
        let mut labels: Vec<_> = key.labels().map(|it| format!("{}={}", it.key(), it.value())).collect();
        labels.sort();
        Arc::new(Self(format!("{}{{{}}}", key.name(), labels.join(","))))
    }

    fn add(&self, value: f64) {
        series().entry(self.0.clone()).or_default().push(value);
    }
}

impl CounterFn for Series {
    fn increment(&self, value: u64) {
        self.add(f64::from(u32::try_from(value).expect("a small number")));
    }

    fn absolute(&self, value: u64) {
        panic!("no counter is set, and this one to {value}");
    }
}

impl GaugeFn for Series {
    fn increment(&self, value: f64) {
        self.add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, value: f64) {
        self.add(value);
    }
}

impl HistogramFn for Series {
    fn record(&self, value: f64) {
        self.add(value);
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Series::of(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Series::of(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Series::of(key))
    }
}

#[tokio::test]
async fn the_life_of_a_lock_is_counted_and_told() {
    record();
    let server = RedisServer::start();
    let (locks, others) = (manager(&server).await, manager(&server).await);
    let mut events = locks.events();
    let order = || locks.lock("observed:1").template(TEMPLATE).label("pay").ttl(ms(2_000));
    let guard = order().acquire().await.expect("the key is free");
    assert_eq!((total("held", ""), total("acquire.attempts", "result=acquired")), (1.0, 1.0));
    wait_until("it is renewed twice", PATIENCE, async || total("renewals", "result=renewed") >= 2.0).await;
    assert_eq!(values("use_time", "end=released"), []);

    // The waiter belongs to another manager, so that the server grants the lock and not a local hand-off.
    let waiting = {
        let request = others.lock("observed:1").template(TEMPLATE).ttl(ms(2_000)).strategy(strategy::wait());
        tokio::spawn(request.acquire())
    };
    wait_until("it waits", PATIENCE, async || total("pending_requests", "") == 1.0).await;
    wait_until("it has its place", PATIENCE, async || server.keys().contains(&"{observed:1}:q".to_owned()))
        .await;
    guard.release().await.expect("an answer");
    let next = within(PATIENCE, "the next one", waiting).await.expect("no panic").expect("it is served");
    assert_eq!((total("held", ""), total("pending_requests", "")), (1.0, 0.0));
    let waits = values("wait_time", "result=acquired");
    assert_eq!(waits.len(), 2, "{waits:?}");
    assert!(waits[1] > 0.0 && waits[1] < PATIENCE.as_secs_f64(), "{waits:?}");
    let uses = values("use_time", "end=released");
    assert!(uses.len() == 1 && uses[0] >= 0.6, "two renewals long: {uses:?}");
    next.release().await.expect("an answer");

    // The key is deleted, and the next renewal notices it.
    let guard = order().acquire().await.expect("the key is free");
    server.command(&["DEL", "observed:1"]);
    assert_eq!(within(PATIENCE, "the loss", guard.lost()).await, LossReason::Taken);
    wait_until("it is counted", PATIENCE, async || total("lost", "reason=taken") == 1.0).await;
    assert_eq!((total("held", ""), total("renewals", "result=not_owned")), (0.0, 1.0));
    // The holder is notified of the loss before the loss is counted.
    wait_until("its use is measured", PATIENCE, async || values("use_time", "end=lost").len() == 1).await;
    assert_eq!((total("lost", "reason=expired"), total("renewals", "result=unknown")), (0.0, 0.0));
    drop(guard);

    let mut told = Vec::new();
    while told.len() < 4 {
        let event = within(PATIENCE, "an event", events.next()).await.expect("the manager is there");
        let (what, lock) = match event {
            LockEvent::Granted { lock, .. } => ("granted", lock),
            LockEvent::Released { lock, .. } => ("released", lock),
            LockEvent::Lost { lock, reason: LossReason::Taken, .. } => ("lost", lock),
            other => panic!("{other:?}"),
        };
        assert_eq!((lock.key.as_str(), lock.template.as_deref()), ("observed:1", Some(TEMPLATE)));
        assert_eq!(lock.label.as_deref(), Some("pay"));
        told.push(what);
    }
    assert_eq!(told, ["granted", "released", "granted", "lost"], "of this manager alone");
    for op in ["grab", "renew", "release", "enqueue"] {
        let name = format!("lock.store.operation.duration{{backend=redis,op={op}}}");
        assert!(
            series().get(&name).is_some_and(|times| !times.is_empty()),
            "{name} of {:?}",
            series().keys()
        );
    }
}

#[tokio::test]
async fn a_server_is_shown_by_how_quickly_it_answers_and_by_its_clock() {
    record();
    let clock = Arc::new(Clock::new());
    let server = RedisServer::builder().clock(&clock).start();
    clock.ahead(ms(31_000));
    let locks = manager(&server).await;
    let of_node = |name: &str| {
        let key = format!("lock.store.node.{name}{{backend=redis,node=127.0.0.1:{}}}", server.port());
        series().get(&key).cloned().unwrap_or_default()
    };
    // No task acquires a lock.
    wait_until("it has answered", PATIENCE, async || of_node("round_trip").len() >= 2).await;
    let (trips, ahead) = (of_node("round_trip"), of_node("clock_offset"));
    assert!(trips.iter().all(|trip| *trip > 0.0 && *trip < PATIENCE.as_secs_f64()), "{trips:?}");
    assert!(ahead.iter().all(|ahead| (ahead - 31.0).abs() < 5.0), "{ahead:?}");
    drop(locks);
}
