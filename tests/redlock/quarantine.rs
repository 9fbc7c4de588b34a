//! A quarantine from the view of the caller and of the metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::{LockErrorKind, ManagerBuilder};
use lock_tests::{Clock, PATIENCE, RedisServer, wait_until};
use metrics::{Counter, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use crate::support::{MAX_TTL, new_cluster};

/// The values of the gauges that have a node label, by node.
#[derive(Clone, Debug, Default)]
struct Gauges(Arc<Mutex<BTreeMap<String, f64>>>);

#[derive(Debug)]
struct OfNode(Gauges, String);

impl GaugeFn for OfNode {
    fn increment(&self, _: f64) {}
    fn decrement(&self, _: f64) {}

    fn set(&self, value: f64) {
        self.0.0.lock().expect("no panic").insert(self.1.clone(), value);
    }
}

impl Recorder for Gauges {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let node = key.labels().find(|label| label.key() == "node");
        match (key.name(), node) {
            ("lock.store.quarantined", Some(node)) => {
                Gauge::from_arc(Arc::new(OfNode(self.clone(), node.value().to_owned())))
            }
            ("lock.store.node.clock_offset", Some(node)) => {
                Gauge::from_arc(Arc::new(OfNode(self.clone(), format!("clock of {}", node.value()))))
            }
            _ => Gauge::noop(),
        }
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

impl Gauges {
    fn of(&self, servers: &[RedisServer]) -> Vec<Option<f64>> {
        let gauges = self.0.lock().expect("no panic");
        servers.iter().map(|server| gauges.get(&host(server)).copied()).collect()
    }

    fn clock_of(&self, server: &RedisServer) -> Option<f64> {
        self.0.lock().expect("no panic").get(&format!("clock of {}", host(server))).copied()
    }
}

fn host(server: &RedisServer) -> String {
    format!("127.0.0.1:{}", server.port())
}

#[tokio::test]
async fn a_quarantine_is_told_by_its_name_and_shown() {
    let gauges = Gauges::default();
    let _here = metrics::set_default_local_recorder(&gauges);
    let mut servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    new_cluster(&servers.iter().collect::<Vec<_>>(), MAX_TTL).await;
    let hosts: Vec<String> = servers.iter().map(host).collect();
    let url = format!("redlock://{}/?max_ttl=3s", hosts.join(","));
    let locks = ManagerBuilder::connect(&url).await.expect("all are up").ttl(MAX_TTL).build().expect("a ttl");
    assert_eq!(gauges.of(&servers), [Some(0.0); 3]);
    // The metrics show the quarantine and its end, although no caller requests a lock.
    servers[1].restart();
    wait_until("it is shown", PATIENCE, async || gauges.of(&servers)[1] == Some(1.0)).await;
    assert_eq!(gauges.of(&servers), [Some(0.0), Some(1.0), Some(0.0)]);
    wait_until("its end is shown", PATIENCE, async || gauges.of(&servers) == [Some(0.0); 3]).await;

    servers[1].restart();
    servers[2].restart();
    let mut text = String::new();
    wait_until("both are in quarantine", PATIENCE, async || {
        let error = locks.lock("k").try_acquire().await.expect_err("one of three votes");
        assert!(error.kind() == LockErrorKind::NoQuorum && error.is_temporary(), "{error}");
        text = error.to_string();
        text.matches(" is in quarantine until 2").count() == 2
    })
    .await;
    assert!(text.contains("2 of 3 nodes did not vote, 2 are needed"), "{text}");
    assert!(!text.contains("answer"), "{text}");
    wait_until("they vote again", PATIENCE, async || locks.lock("k").try_acquire().await.is_ok()).await;
}

#[tokio::test]
async fn the_clock_of_each_node_is_shown() {
    let gauges = Gauges::default();
    let _here = metrics::set_default_local_recorder(&gauges);
    let clock = Arc::new(Clock::new());
    let mut servers: Vec<RedisServer> = (0..2).map(|_| RedisServer::start()).collect();
    servers.push(RedisServer::builder().clock(&clock).start());
    new_cluster(&servers.iter().collect::<Vec<_>>(), MAX_TTL).await;
    let hosts: Vec<String> = servers.iter().map(host).collect();
    let url = format!("redlock://{}/?max_ttl=3s", hosts.join(","));
    let _locks =
        ManagerBuilder::connect(&url).await.expect("all are up").ttl(MAX_TTL).build().expect("a ttl");
    let is_about = |server: &RedisServer, expected: f64| {
        gauges.clock_of(server).is_some_and(|ahead| (ahead - expected).abs() < 5.0)
    };
    wait_until("all are right", PATIENCE, async || servers.iter().all(|server| is_about(server, 0.0))).await;
    clock.behind(Duration::from_secs(31));
    wait_until("one is behind", PATIENCE, async || is_about(&servers[2], -31.0)).await;
    assert!(is_about(&servers[0], 0.0) && is_about(&servers[1], 0.0));
}
