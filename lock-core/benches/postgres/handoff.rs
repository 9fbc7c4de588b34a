//! Measures the time from the call of a release to the start of the next hold, between processes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use lock_core::{LockManager, strategy};

use crate::server::{Server, connect};
use crate::tasks::Advisory;

/// The argument that makes this program one of the processes.
pub(crate) const ROLE: &str = "player";

/// One process holds the lock, and the others wait.
const PROCESSES: usize = 9;
const HOLDS: usize = 40;
const HOLD: Duration = Duration::from_millis(10);

pub(crate) async fn processes(server: &Server) {
    println!("hand-off between processes after a hold of {HOLD:?}, {} waiting", PROCESSES - 1);
    // Connecting creates the tables before any task needs them.
    drop(LockManager::connect(&server.url()).await.expect("connects"));
    for round in 1..=3 {
        for kind in ["advisory", "fair", "lock"] {
            let gaps = run(server, kind);
            let at = |part: usize| gaps[(gaps.len() - 1) * part / 100] / 1_000;
            println!(
                "  {round}  {kind:<10} p50 {:>6} us   p99 {:>6} us   ({} hand-offs)",
                at(50),
                at(99),
                gaps.len()
            );
        }
    }
}

/// Returns the sorted times of all hand-offs in ns.
fn run(server: &Server, kind: &str) -> Vec<u64> {
    let program = std::env::current_exe().expect("this program has a path");
    let start = |_| {
        let mut command = Command::new(&program);
        command.args([ROLE, kind, &server.port().to_string(), &server.url()]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again")
    };
    let mut players: Vec<_> = (0..PROCESSES).map(start).collect();
    let mut outputs: Vec<_> = players
        .iter_mut()
        .map(|player| BufReader::new(player.stdout.take().expect("BUG: it was asked for")))
        .collect();
    let line = |output: &mut BufReader<_>| {
        let mut line = String::new();
        output.read_line(&mut line).expect("it speaks");
        line
    };
    outputs.iter_mut().for_each(|output| assert_eq!(line(output).trim(), "ready"));
    for player in &mut players {
        writeln!(player.stdin.take().expect("BUG: it was asked for"), "go").expect("it listens");
    }
    let mut holds: Vec<(u64, u64)> = Vec::new();
    for output in &mut outputs {
        let numbers: Vec<u64> =
            line(output).split_whitespace().filter_map(|word| word.parse().ok()).collect();
        holds.extend(numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])));
    }
    players.iter_mut().for_each(|player| drop(player.wait()));
    holds.sort_unstable();
    // The last holds are omitted, because fewer processes wait by then.
    holds.truncate(holds.len() - PROCESSES);
    let mut gaps: Vec<u64> = holds.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].1)).collect();
    gaps.sort_unstable();
    gaps
}

/// Runs one of the processes, which prints when each of its holds began and ended.
pub(crate) async fn play(arguments: &[String]) {
    let [kind, port, url] = arguments else { panic!("{ROLE} needs a kind, a port and a URL") };
    let mut moments = Vec::new();
    if kind == "advisory" {
        let client = connect(port.parse().expect("a port")).await;
        let advisory = Advisory::new(client, "pg_advisory_lock").await;
        ready();
        for _ in 0..HOLDS {
            advisory.lock(0).await;
            moments.push(hold().await);
            advisory.unlock(0).await;
        }
    } else {
        let locks = LockManager::connect(url).await.expect("connects");
        ready();
        for _ in 0..HOLDS {
            let request = if kind == "fair" { locks.fair("handed-fair") } else { locks.lock("handed") };
            let guard = request.strategy(strategy::wait()).acquire().await.expect("it waits for ever");
            moments.push(hold().await);
            guard.release().await.expect("an answer");
        }
        locks.shutdown(Duration::from_secs(1)).await;
    }
    let words: Vec<String> = moments.iter().map(|(from, until)| format!("{from} {until}")).collect();
    println!("{}", words.join(" "));
}

fn ready() {
    println!("ready");
    std::io::stdin().lines().next();
}

async fn hold() -> (u64, u64) {
    let from = now();
    tokio::time::sleep(HOLD).await;
    (from, now())
}

/// Returns `CLOCK_MONOTONIC` in ns, which is one clock for all processes of a machine.
#[allow(clippy::cast_sign_loss, reason = "it counts from the start of the machine")]
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
