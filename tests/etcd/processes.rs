//! Several processes compete for keys while they are killed and stopped.

use std::time::Duration;

use fastrand::Rng;
use lock_tests::{Bound, Etcd, PATIENCE, wait_until};
use tokio::time::sleep;

use crate::contenders::{Contest, Terms};
use crate::support::{empty, ms};

const PROCESSES: usize = 3;
const TTL: Duration = Duration::from_secs(2);
const TERMS: Terms = Terms {
    kinds: &["lock:k", "fair:k", "read:k", "write:k", "all:k+l", "semaphore2:pool"],
    tasks: 3,
    ttl: TTL,
    hold: ms(3),
    flags: &["--unruly"],
};

/// Kills processes, and stops them for up to twice their lease. Continues until `span` is over and each fault happened
/// twice.
async fn torment<S>(contest: &mut Contest<S>, span: Duration, random: &mut Rng) -> [u32; 2] {
    let (over, mut done) = (Bound::new(span * 2), [0; 2]);
    while over.elapsed() < span || done.iter().any(|times| *times < 2) {
        over.check("processes were killed twice, and stopped twice");
        sleep(ms(random.u64(200..1_500))).await;
        let victim = random.usize(..contest.processes());
        let fault = random.usize(..2);
        if fault == 0 {
            contest.kill(victim).await;
        } else {
            contest.stop(victim);
            sleep(TTL.mul_f64(2.0 * random.f64())).await;
            contest.cont(victim);
        }
        done[fault] += 1;
    }
    done
}

#[tokio::test]
#[allow(clippy::print_stdout, reason = "what came of it is wanted as well as the verdict")]
async fn processes_that_are_killed_and_stopped_never_hold_together() {
    let seed = fastrand::u64(..);
    let etcd = Etcd::start();
    let url = etcd.url();
    let mut contest = Contest::on(etcd, url, PROCESSES, TERMS, seed).await;
    let faults = torment(&mut contest, Duration::from_secs(30), &mut Rng::with_seed(seed)).await;
    contest.all_progress(3, PATIENCE).await;
    let outcome = contest.end().await;
    let by_process = outcome.by_process(PROCESSES);
    println!("seed {seed}: {faults:?} killed and stopped, grants {by_process:?}");
    outcome.check().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    assert!(
        by_process.iter().sum::<usize>() > 100 && faults.iter().all(|times| *times > 1),
        "{by_process:?}"
    );
    empty(&outcome.server, PATIENCE).await;
    wait_until("no lease is left", PATIENCE, async || outcome.server.leases() == 0).await;
}
