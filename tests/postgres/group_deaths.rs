//! Processes whose tasks share the places of a fair lock, and are killed.

use std::time::Duration;

use lock_tests::{Bound, PATIENCE, PostgresServer};
use tokio::time::sleep;

use crate::contenders::{Contest, Grant, Terms};
use crate::support::{empty, ms};

const PROCESSES: usize = 2;
const TTL: Duration = Duration::from_secs(2);
const TERMS: Terms = Terms { kinds: &["fair:k"], tasks: 8, ttl: TTL, hold: ms(2), flags: &["--unruly"] };

/// A process that dies takes its group with it. The others get on, and nobody holds beside another.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "what came of it is wanted as well as the verdict")]
async fn the_death_of_a_process_with_a_group_costs_two_leases_at_most() {
    let seed = fastrand::u64(..);
    let server = PostgresServer::start();
    let url = server.url();
    let mut contest = Contest::on(server, url, PROCESSES, TERMS, seed).await;
    let (over, mut victim) = (Bound::new(PATIENCE), 0);
    while over.elapsed() < 8 * TTL {
        // Later than the end of what the last death costs. Sooner, the next one who would be served dies too.
        sleep(3 * TTL).await;
        victim = (victim + 1) % PROCESSES;
        contest.kill(victim).await;
    }
    contest.all_progress(20, PATIENCE).await;
    let outcome = contest.end().await;
    let by_process = outcome.by_process(PROCESSES);
    println!("seed {seed}: grants {by_process:?}, {:?} without one", standstill(&outcome.grants));
    outcome.check().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    let longest = standstill(&outcome.grants);
    // That of the holder, and that of one more place of the process, which is served when it is dead. The holder may have
    // held it for 3 s before it died, and a busy machine adds to that.
    assert!(longest < 8 * TTL, "seed {seed}: nobody was granted it for {longest:?}");
    assert!(by_process.iter().all(|grants| *grants >= 20), "{by_process:?}");
    empty(&outcome.server, PATIENCE).await;
}

/// Returns the longest time between two grants.
fn standstill(grants: &[Grant]) -> Duration {
    let mut times: Vec<_> = grants.iter().map(|grant| grant.acquired).collect();
    times.sort_unstable();
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(Duration::MAX)
}

/// In strict order, processes with as many tasks have equal shares, whoever hands on inside.
#[tokio::test]
async fn processes_have_equal_shares() {
    let server = PostgresServer::start();
    let url = server.url();
    let terms = Terms { hold: Duration::ZERO, flags: &[], ..TERMS };
    let contest = Contest::on(server, url, PROCESSES, terms, 1).await;
    sleep(Duration::from_secs(8)).await;
    let outcome = contest.end().await;
    outcome.check().unwrap_or_else(|violation| panic!("{violation}"));
    let shares = outcome.while_all_asked(PROCESSES);
    let (least, most) = (shares.iter().min().expect("two"), shares.iter().max().expect("two"));
    assert!(*least > 20 && *most <= *least * 3 / 2, "{shares:?}");
}
