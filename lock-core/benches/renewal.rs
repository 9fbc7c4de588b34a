//! What it costs to keep 10,000 locks.
//!
//! ```sh
//! cargo bench -p lock-core --features redis --bench renewal
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

mod rig;

use std::time::{Duration, Instant};

use lock_core::LockManager;
use rig::Server;

const LOCKS: usize = 10_000;

fn main() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for (ttl, window) in [(3, 10), (30, 30)] {
            keep(&server, Duration::from_secs(ttl), Duration::from_secs(window)).await;
        }
    });
}

async fn keep(server: &Server, ttl: Duration, window: Duration) {
    let locks = LockManager::connect(&server.url()).await.expect("connects");
    let mut guards = Vec::with_capacity(LOCKS);
    for i in 0..LOCKS {
        guards.push(locks.lock(format!("held:{i}")).ttl(ttl).acquire().await.expect("nobody else has it"));
    }
    // Counting asks with a few commands of its own: HELLO, INFO.
    let own = {
        let first = server.commands().await;
        server.commands().await - first
    };
    let (commands, cpu, start) = (server.commands().await, cpu(), Instant::now());
    tokio::time::sleep(window).await;
    let (commands, cpu, took) =
        (server.commands().await - commands - own, self::cpu() - cpu, start.elapsed());
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

/// CPU time of this process so far.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
