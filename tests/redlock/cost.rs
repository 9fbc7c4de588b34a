//! The server's cost of the gate, compared with the same script without the gate.

use std::time::Duration;

use lock_core::backend::redis::Redis;
use lock_core::backend::{Ask, Attempt, Claim, DynBackend};
use lock_core::key::Key;
use lock_core::testkit::Claims;
use lock_tests::{Bound, PATIENCE, RedisServer};

use crate::support::{Client, voting_server};

const LEASE: Duration = Duration::from_secs(60);
const CYCLES: usize = 400;

/// Returns three numbers: the commands that the scripts called, the server's average microseconds for a script, and the
/// client's average microseconds for an answer.
async fn acquires(server: &RedisServer, backend: &dyn DynBackend, claims: &[Claim]) -> (u64, f64, f64) {
    server.command(&["CONFIG", "RESETSTAT"]);
    let bound = Bound::new(PATIENCE);
    for claim in claims {
        assert!(matches!(backend.acquire_dyn(claim, Ask::Try).await, Ok(Attempt::Granted(_))));
    }
    let seen = bound.elapsed().as_secs_f64() * 1e6 / claims.len() as f64;
    let mut stats = server.command_stats();
    let (scripts, micros) = stats.remove("evalsha").expect("scripts ran");
    // Each connection sends TIME twice a second, whatever is measured. Both scripts read the clock.
    stats.remove("time");
    for claim in claims {
        backend.release_dyn(claim, None).await.expect("an answer");
    }
    (stats.values().map(|(calls, _)| calls).sum(), micros as f64 / scripts as f64, seen)
}

#[allow(clippy::print_stdout, reason = "the figures are wanted as well as the verdict")]
fn report(gated: (f64, f64), open: (f64, f64)) {
    let ((cost, seen), (open_cost, open_seen)) = (gated, open);
    println!(
        "server us for a script: {cost:.1} with the gate, {open_cost:.1} without ({:.2})",
        cost / open_cost
    );
    println!(
        "us until the answer: {seen:.0} with the gate, {open_seen:.0} without ({:.2})",
        seen / open_seen
    );
}

/// The claims are fenced, so that the backend without a gate runs the same script instead of a plain SET.
#[tokio::test]
async fn the_gate_costs_a_look_at_the_marker() {
    let server = voting_server(LEASE).await;
    let client = Client::of(&server, LEASE).await;
    let plain = Redis::connect(&server.url()).await.expect("the server takes locks");
    let claims = Claims::new().expect("random bytes");
    let claims = || -> Vec<Claim> {
        let claim = |n: usize| {
            let mut claim = claims.exclusive(&Key::new(&format!("k{n}")).expect("a key"), LEASE);
            claim.fencing = true;
            claim
        };
        (0..CYCLES).map(claim).collect()
    };
    // The test uses the minimum of a few sequential rounds, so that other processes on the machine do not affect the
    // result.
    let most = (u64::MAX, f64::MAX, f64::MAX);
    let (mut gated, mut open) = (most, most);
    for _ in 0..5 {
        let backends: [&dyn DynBackend; 2] = [&client.voter, &plain];
        for (backend, least) in backends.into_iter().zip([&mut gated, &mut open]) {
            let (calls, cost, seen) = acquires(&server, backend, &claims()).await;
            *least = (least.0.min(calls), least.1.min(cost), least.2.min(seen));
        }
    }
    let ((calls, cost, seen), (open_calls, open_cost, open_seen)) = (gated, open);
    report((cost, seen), (open_cost, open_seen));
    assert_eq!(calls, open_calls + CYCLES as u64, "{gated:?} and {open:?}");
}

/// Compares the usual attempt on a free lock with a plain `SET`, and both again with their releases.
#[allow(clippy::print_stdout, reason = "the figures are wanted as well as the verdict")]
#[tokio::test]
async fn a_free_lock_passes_the_gate_in_three_calls() {
    let server = voting_server(LEASE).await;
    let client = Client::of(&server, LEASE).await;
    let plain = Redis::connect(&server.url()).await.expect("the server takes locks");
    let mut micros = [f64::MAX; 2];
    let mut calls = Vec::new();
    for _ in 0..5 {
        let backends: [&dyn DynBackend; 2] = [&client.voter, &plain];
        for (backend, least) in backends.into_iter().zip(&mut micros) {
            let claims: Vec<_> = (0..CYCLES).map(|n| client.claim(&format!("k{n}"), LEASE)).collect();
            server.command(&["CONFIG", "RESETSTAT"]);
            for claim in &claims {
                assert!(matches!(backend.acquire_dyn(claim, Ask::Probe).await, Ok(Attempt::Granted(_))));
            }
            let acquired = server.command_stats();
            for claim in &claims {
                backend.release_dyn(claim, None).await.expect("an answer");
            }
            let cycles = server.command_stats();
            let of = |name: &str| cycles.get(name).map_or(0, |(_, micros)| *micros);
            let spent = match acquired.get("evalsha") {
                Some(_) => {
                    let [time, hget, set] = ["time", "hget", "set"].map(|name| acquired[name].0);
                    let all: u64 = acquired.values().map(|(count, _)| count).sum();
                    // Each connection also requests the time twice a second, outside of the scripts.
                    assert!(time >= CYCLES as u64, "{time}");
                    calls.push([hget, set, all - time]);
                    of("evalsha")
                }
                // The SET is a separate command here, and not part of a script.
                None => of("set") + of("evalsha"),
            };
            *least = least.min(spent as f64 / CYCLES as f64);
        }
    }
    let cycles = CYCLES as u64;
    for calls in calls {
        assert_eq!(calls, [cycles, cycles, 3 * cycles], "HGET, SET, and with them the script");
    }
    println!("server us for a cycle: {:.1} through the gate, {:.1} without", micros[0], micros[1]);
}
