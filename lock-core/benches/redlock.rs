//! Measures one uncontended cycle on a majority of three servers, and the additional time if a server is dead or stuck.
//!
//! ```sh
//! cargo bench -p lock-core --features redlock --bench redlock
//! ```
//!
//! The baseline is the cheapest equivalent through the same driver in the same run. It sends `SET key value NX PX ttl`
//! to all three servers at once, and then an `EVALSHA` that compares and deletes. Like the usual clients, it waits for
//! all three answers. The variants take turns in short rounds, and each ratio compares values of one round.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

pub(crate) mod rig;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::LockManager;
use lock_core::backend::redis::Redis;
use lock_core::backend::redlock::quorum::Quorum;
use lock_core::backend::redlock::{Voter, VoterOptions};
use redis::aio::MultiplexedConnection;
use rig::{Server, median, row, throughput};

const NODES: usize = 3;
const ROUNDS: usize = 11;
const WINDOW: Duration = Duration::from_millis(400);

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

pub(crate) type Cycle = Pin<Box<dyn Future<Output = ()> + Send>>;

fn main() {
    let (whole, dead, stuck) = (Cluster::start(), Cluster::start(), Cluster::start());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        throughputs(&whole).await;
        latencies(&whole, dead, stuck).await;
    });
}

/// Three independent servers on one processor.
pub(crate) struct Cluster(pub(crate) Vec<Server>);

impl Cluster {
    pub(crate) fn start() -> Self {
        Self((0..NODES).map(|_| Server::start()).collect())
    }

    /// Connects with `redlock://`, whose nodes are voters with a quarantine.
    pub(crate) async fn gated(&self) -> LockManager {
        let urls: Vec<String> = self.0.iter().map(Server::url).collect();
        let options = VoterOptions::default();
        // This call fails without harm if the servers already form a cluster.
        let _ = Voter::bootstrap_new_cluster(urls.iter().map(String::as_str), options).await;
        let hosts: Vec<String> = self.0.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
        LockManager::connect(&format!("redlock://{}", hosts.join(","))).await.expect("connects")
    }

    /// Connects to a quorum of plain Redis nodes, without the quarantine of voters.
    pub(crate) async fn plain(&self) -> LockManager {
        let mut nodes = Vec::new();
        for server in &self.0 {
            nodes.push(Redis::connect(&server.url()).await.expect("connects"));
        }
        LockManager::builder(Quorum::new(nodes).expect("three")).build().expect("a ttl that it can hold")
    }

    pub(crate) async fn raw(&self) -> Raw {
        let [one, two, three] = self.0.as_slice() else { unreachable!("BUG: there are three") };
        let (mut connections, mut sha) =
            ([one.connection().await, two.connection().await, three.connection().await], String::new());
        for connection in &mut connections {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(COMPARE_AND_DELETE);
            sha = load.query_async(connection).await.expect("loads");
        }
        Raw { connections, sha: sha.into() }
    }
}

/// The cheapest equivalent of a lock, without the library.
#[derive(Clone)]
pub(crate) struct Raw {
    connections: [MultiplexedConnection; NODES],
    sha: Arc<str>,
}

impl Raw {
    pub(crate) fn cycle(self) -> impl Fn(usize) -> Cycle + Clone + Send + 'static {
        move |task| {
            let Self { connections: [one, two, three], sha } = self.clone();
            Box::pin(async move {
                let key = format!("raw:{task}");
                let owner = format!("{:032x}{:016x}", 0xfeed_u128, task);
                let mut set = redis::cmd("SET");
                set.arg(&key).arg(&owner).arg("NX").arg("PX").arg(10_000);
                let set = |mut connection: MultiplexedConnection| {
                    let set = set.clone();
                    async move {
                        let set: Option<String> =
                            set.query_async(&mut connection).await.expect("the server answers");
                        assert!(set.is_some(), "nobody else has it");
                    }
                };
                tokio::join!(set(one.clone()), set(two.clone()), set(three.clone()));
                let mut delete = redis::cmd("EVALSHA");
                delete.arg(&*sha).arg(1).arg(&key).arg(&owner);
                let delete = |mut connection: MultiplexedConnection| {
                    let delete = delete.clone();
                    async move {
                        let deleted: i64 =
                            delete.query_async(&mut connection).await.expect("the server answers");
                        assert_eq!(deleted, 1);
                    }
                };
                tokio::join!(delete(one), delete(two), delete(three));
                tokio::task::consume_budget().await;
            })
        }
    }
}

pub(crate) fn cycle(locks: LockManager) -> impl Fn(usize) -> Cycle + Clone + Send + 'static {
    move |task| {
        let request = locks.lock(format!("bench:{task}"));
        Box::pin(async move {
            let guard = request.acquire().await.expect("nobody else has it");
            guard.release().await.expect("a majority answers");
            tokio::task::consume_budget().await;
        })
    }
}

async fn throughputs(cluster: &Cluster) {
    println!(
        "{NODES} servers, own keys ({ROUNDS} rounds of {WINDOW:?}, medians; ratios are to the first row)"
    );
    let (raw, gated, plain) = (cluster.raw().await, cluster.gated().await, cluster.plain().await);
    for tasks in [1, 16, 64] {
        println!(" {tasks} tasks");
        let (mut base, mut with, mut without) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            base.push(throughput(tasks, WINDOW, raw.clone().cycle()).await);
            with.push(throughput(tasks, WINDOW, cycle(gated.clone())).await);
            without.push(throughput(tasks, WINDOW, cycle(plain.clone())).await);
        }
        row("SET and compare-and-delete", &base, &base);
        row("redlock://", &with, &base);
        row("Quorum, without the gate", &without, &base);
    }
}

/// Returns the median time of a cycle of one task in us.
pub(crate) async fn latency(window: Duration, cycle: impl Fn(usize) -> Cycle) -> f64 {
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < window {
        let asked = Instant::now();
        cycle(0).await;
        times.push(asked.elapsed().as_secs_f64() * 1e6);
    }
    median(times)
}

async fn latencies(whole: &Cluster, mut dead: Cluster, stuck: Cluster) {
    println!("median time of a cycle of one task ({ROUNDS} rounds of {WINDOW:?})");
    let raw = whole.raw().await.cycle();
    let all = [
        ("all three alive", cycle(whole.gated().await)),
        ("one dead", cycle(dead.gated().await)),
        ("one stuck", cycle(stuck.gated().await)),
    ];
    drop(dead.0.pop());
    stuck.0[NODES - 1].stop();
    for (_, cycle) in &all {
        // This warm-up lasts until the library no longer waits for the server that does not answer.
        latency(Duration::from_secs(2), cycle).await;
    }
    let (mut base, mut times) = (Vec::new(), [const { Vec::new() }; 3]);
    for _ in 0..ROUNDS {
        base.push(latency(WINDOW, &raw).await);
        for (times, (_, cycle)) in times.iter_mut().zip(&all) {
            times.push(latency(WINDOW, cycle).await);
        }
    }
    let line = |name: &str, values: &[f64], base: &[f64]| {
        let ratios = values.iter().zip(base).map(|(value, base)| value / base).collect();
        println!("  {name:<28} {:>9.0} us   {:>5.2} x", median(values.to_vec()), median(ratios));
    };
    line("SET and compare-and-delete", &base, &times[0]);
    for (values, (name, _)) in times.iter().zip(&all) {
        line(name, values, &times[0]);
    }
}
