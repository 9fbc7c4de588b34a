//! Measures the cost of keeping 10,000 locks on one server, and on a majority of three servers with a stuck one.
//!
//! ```sh
//! cargo bench -p lock-core --features redlock --bench renewal
//! ```
//!
//! Without the feature `redlock`, the second part is omitted.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

mod rig;

use std::time::{Duration, Instant};

use lock_core::LockManager;
use rig::{Server, cpu};

const LOCKS: usize = 10_000;

fn main() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for (ttl, window) in [(3, 10), (30, 30)] {
            keep(&server, Duration::from_secs(ttl), Duration::from_secs(window)).await;
        }
        #[cfg(feature = "redlock")]
        majority::keep(Duration::from_secs(6), Duration::from_secs(30)).await;
    });
}

async fn keep(server: &Server, ttl: Duration, window: Duration) {
    let locks = LockManager::connect(&server.url()).await.expect("connects");
    let mut guards = Vec::with_capacity(LOCKS);
    for i in 0..LOCKS {
        guards.push(locks.lock(format!("held:{i}")).ttl(ttl).acquire().await.expect("nobody else has it"));
    }
    // Counting itself needs a few commands, such as `HELLO` and `INFO`.
    let own = {
        let first = server.commands().await;
        server.commands().await - first
    };
    let (commands, cpu, start) = (server.commands().await, cpu::own(), Instant::now());
    tokio::time::sleep(window).await;
    let (commands, cpu, took) = (server.commands().await - commands - own, cpu::own() - cpu, start.elapsed());
    let held = guards.iter().filter(|guard| guard.is_held()).count();
    let due = LOCKS as f64 * took.as_secs_f64() / (ttl.as_secs_f64() / 3.0);
    println!("{LOCKS} locks, ttl {ttl:?}, {:.1} s", took.as_secs_f64());
    println!("  still held            {held:>10}");
    println!(
        "  commands              {:>10.1}/s   1/{:.0} of a command for each renewal due",
        commands as f64 / took.as_secs_f64(),
        due / commands as f64
    );
    println!("  client CPU            {:>10.2} %", 100.0 * cpu.as_secs_f64() / took.as_secs_f64());
    assert_eq!(held, LOCKS, "a lock was lost");
    drop(guards);
    locks.shutdown(Duration::from_secs(10)).await;
}

/// Stops one of three servers while the locks are held. Every holder must keep its lock, and the other two servers must
/// keep all grants.
#[cfg(feature = "redlock")]
mod majority {
    use std::time::{Duration, Instant};

    use lock_core::backend::redlock::{Voter, VoterOptions};
    use lock_core::{LockGuard, LockManager};
    use tokio::task::JoinSet;

    use super::LOCKS;
    use super::rig::Server;

    /// The number of tasks that acquire locks concurrently.
    const TASKS: usize = 50;

    pub(super) async fn keep(ttl: Duration, window: Duration) {
        let servers: Vec<Server> = (0..3).map(|_| Server::start()).collect();
        let urls: Vec<String> = servers.iter().map(Server::url).collect();
        let options = VoterOptions::default();
        let new = Voter::bootstrap_new_cluster(urls.iter().map(String::as_str), options);
        new.await.expect("they are empty");
        let hosts: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
        let locks = LockManager::connect(&format!("redlock://{}", hosts.join(","))).await.expect("connects");
        let guards = take(&locks, ttl).await;
        // A grant needs two of the servers. The third server receives the grant a moment later.
        while servers[0].keys("held:*").await + servers[1].keys("held:*").await < 2 * LOCKS {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        println!("{LOCKS} locks on a majority of 3 servers, ttl {ttl:?}");
        for (name, stuck) in [("all alive", false), ("one stuck", true)] {
            if stuck {
                servers[2].stop();
            }
            let (cpu, start) = (super::cpu::own(), Instant::now());
            let (mut shortest, mut held) = (ttl, LOCKS);
            while start.elapsed() < window {
                tokio::time::sleep(Duration::from_millis(100)).await;
                shortest = guards.iter().map(LockGuard::remaining).min().unwrap_or_default().min(shortest);
                held = guards.iter().filter(|guard| guard.is_held()).count().min(held);
            }
            let (cpu, took) = (super::cpu::own() - cpu, start.elapsed());
            let mut kept = [0; 2];
            for (kept, server) in kept.iter_mut().zip(&servers) {
                *kept = server.keys("held:*").await;
            }
            println!("  {name}, {:.1} s", took.as_secs_f64());
            println!("    held all the time      {held:>10}");
            println!("    on the other two       {:>10} {:>10}", kept[0], kept[1]);
            println!("    least left of a lease  {:>10.2} s", shortest.as_secs_f64());
            println!("    client CPU             {:>10.2} %", 100.0 * cpu.as_secs_f64() / took.as_secs_f64());
            assert_eq!((held, kept), (LOCKS, [LOCKS; 2]), "a lock was lost");
        }
        drop(guards);
        locks.shutdown(Duration::from_secs(10)).await;
    }

    async fn take(locks: &LockManager, ttl: Duration) -> Vec<LockGuard> {
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let locks = locks.clone();
            tasks.spawn(async move {
                let mut guards = Vec::new();
                for i in (task..LOCKS).step_by(TASKS) {
                    let guard = locks.lock(format!("held:{i}")).ttl(ttl).acquire().await;
                    guards.push(guard.expect("nobody else has it"));
                }
                guards
            });
        }
        tasks.join_all().await.into_iter().flatten().collect()
    }
}
