//! Random faults against several processes that compete for one key. A failure prints the seed. The reaction of the
//! processes and the network differs in each run.
//!
//! `LOCK_FAULT_SECONDS` sets the duration instead of 20 s (the shorter tests use a third of it):
//! `LOCK_FAULT_SECONDS=600 cargo test -p lock-tests --test redis_process faults -- --test-threads 1`
#![allow(clippy::print_stdout, reason = "the seed, and what a run of minutes did")]

use std::time::Duration;

use fastrand::Rng;
use lock_tests::Bound;
use tokio::time::sleep;

use crate::contenders::{Contest, Outcome, Terms};

const PROCESSES: usize = 4;
const TTL: Duration = Duration::from_millis(800);
/// The time until all processes get locks again. A killed process's queue entry may be granted, and then its lease has
/// to expire. Also, the last fault may be the worst one, a stopped process.
const RECOVERY: Duration = Duration::from_secs(8);

/// The longest time until a test has enough grants on a busy machine.
const LONGEST: Duration = Duration::from_secs(300);

fn span() -> Duration {
    let seconds = std::env::var("LOCK_FAULT_SECONDS").map_or(20, |text| text.parse().expect("seconds"));
    Duration::from_secs(seconds)
}

fn terms(kinds: &'static [&'static str]) -> Terms {
    let (hold, flags) = (Duration::from_millis(3), &["--unruly"][..]);
    Terms { kinds, tasks: 4, ttl: TTL, hold, flags }
}

/// Injects faults in sequence. The pauses are no longer than a process needs to get into trouble again. Continues until
/// there are `enough` grants.
async fn torment(contest: &mut Contest, span: Duration, enough: usize, random: &mut Rng) -> [u32; 7] {
    let (over, mut done) = (Bound::new(LONGEST), [0; 7]);
    while over.elapsed() < span || (contest.grants_so_far() < enough && over.elapsed() < LONGEST) {
        sleep(Duration::from_millis(random.u64(20..400))).await;
        let victim = random.usize(..contest.processes());
        let fault = match random.u8(..22) {
            0..4 => {
                contest.kill(victim).await;
                0
            }
            4..9 => {
                contest.stop(victim);
                sleep(TTL.mul_f64(2.0 * random.f64())).await;
                contest.cont(victim);
                1
            }
            9..12 => {
                contest.server.cut_clients();
                2
            }
            12..16 => {
                contest.server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
                3
            }
            16..18 => {
                contest.server.command(&["SCRIPT", "FLUSH"]);
                4
            }
            18..20 => {
                contest.flush();
                5
            }
            // The process that is served is not notified.
            _ => {
                contest.server.command(&["ACL", "SETUSER", "default", "-publish"]);
                sleep(TTL.mul_f64(random.f64())).await;
                contest.server.command(&["ACL", "SETUSER", "default", "+publish"]);
                6
            }
        };
        done[fault] += 1;
    }
    done
}

/// Runs the processes under faults until there are `enough` grants, then checks their holds.
async fn contend(terms: Terms, span: Duration, enough: usize) -> Outcome {
    let seed = fastrand::u64(..);
    let mut random = Rng::with_seed(seed);
    let mut contest = Contest::start(PROCESSES, terms, seed).await;
    println!("seed {seed}");
    let faults = torment(&mut contest, span, enough, &mut random).await;
    // No process is stuck: each gets further grants.
    contest.all_progress(5, RECOVERY).await;
    let outcome = contest.end().await;
    let shares = outcome.by_process(PROCESSES);
    println!(
        "kills, stops, cuts, cut listeners, lost scripts, lost data, mute: {faults:?}; grants: {shares:?}"
    );
    outcome.check().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    outcome.leaves_nothing(RECOVERY).await;
    outcome
}

#[tokio::test]
async fn one_holder_at_a_time_on_a_hot_key() {
    let outcome = contend(terms(&["lock:k", "fair:k"]), span(), 500).await;
    assert!(outcome.of_kind("lock") > 100 && outcome.of_kind("fair") > 100, "{}", outcome.grants.len());
}

#[tokio::test]
async fn one_holder_at_a_time_where_grants_linger() {
    let kinds = &["linger:k", "linger:k", "lock:k", "fair:k"];
    let outcome = contend(terms(kinds), span() / 3, 300).await;
    assert!(outcome.of_kind("linger") > 50, "{}", outcome.grants.len());
}

#[tokio::test]
async fn a_writer_is_alone_and_readers_are_not() {
    let outcome = contend(terms(&["read:k", "read:k", "read:k", "write:k"]), span() / 3, 300).await;
    assert!(outcome.of_kind("read") > 50 && outcome.of_kind("write") > 15, "{}", outcome.grants.len());
}

#[tokio::test]
async fn three_permits_are_three() {
    let outcome = contend(terms(&["semaphore3:k"]), span() / 3, 300).await;
    assert!(outcome.grants.len() > 100, "{}", outcome.grants.len());
}

/// This is the negative control for every kind: the same checks on a backend that sometimes turns a *no* into a *yes*.
#[tokio::test]
async fn a_careless_backend_is_found_out() {
    let several = &["all:a+b", "all:b+c", "lock:b"];
    for kinds in [&["lock:k", "fair:k"][..], &["read:k", "write:k"], &["semaphore3:k"], several] {
        let hold = Duration::from_millis(3);
        // The wrong answers are random, and there may be no other holder at that time.
        let mut found = false;
        for seed in 1..=10 {
            let careless = Terms { kinds, tasks: 4, ttl: TTL, hold, flags: &["--careless"] };
            let contest = Contest::start(PROCESSES, careless, seed).await;
            contest.all_progress(100, LONGEST).await;
            let verdict = contest.end().await.check();
            found = verdict.is_err_and(|text| text.contains("held one key at once"));
            if found {
                break;
            }
        }
        assert!(found, "{kinds:?}");
    }
}
