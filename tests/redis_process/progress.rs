//! Every process makes progress: with several keys at once, with lost messages, and with fair shares.

use std::time::Duration;

use lock_tests::{Bound, PATIENCE};
use tokio::time::sleep;

use crate::contenders::{Contest, Terms};

const PROCESSES: usize = 4;
const TTL: Duration = Duration::from_millis(2_000);
const HOLD: Duration = Duration::from_millis(2);

fn terms(kinds: &'static [&'static str]) -> Terms {
    Terms { kinds, tasks: 4, ttl: TTL, hold: HOLD, flags: &[] }
}

/// Checks that every process gets its locks in each round, that all processes end, and that only tokens are left.
async fn all_get_on(mut contest: Contest, rounds: u32, mut between: impl AsyncFnMut(&mut Contest)) {
    for _ in 0..rounds {
        between(&mut contest).await;
        contest.all_progress(3, PATIENCE).await;
    }
    let outcome = contest.end().await;
    outcome.check().unwrap_or_else(|violation| panic!("{violation}"));
    outcome.leaves_nothing(PATIENCE).await;
}

#[tokio::test]
async fn several_keys_at_once_in_any_order_never_wait_for_each_other() {
    let kinds = &["all:a+b", "all:b+a", "all:b+c", "all:c+a+b", "lock:b", "fair:a", "write:c"];
    let contest = Contest::start(PROCESSES, terms(kinds), 1).await;
    all_get_on(contest, 20, async |_| {}).await;
}

/// If no notification arrives, a heartbeat finds the grant of a queue entry.
#[tokio::test]
async fn every_process_gets_on_where_no_message_arrives() {
    let contest = Contest::start(PROCESSES, terms(&["lock:k", "fair:k", "read:k", "semaphore3:s"]), 2).await;
    contest.server.command(&["ACL", "SETUSER", "default", "-publish"]);
    all_get_on(contest, 3, async |_| {}).await;
}

#[tokio::test]
async fn every_process_gets_on_where_connections_that_listen_are_cut() {
    let contest = Contest::start(PROCESSES, terms(&["lock:k", "fair:k"]), 3).await;
    all_get_on(contest, 5, async |contest| {
        let over = Bound::new(PATIENCE);
        while over.elapsed() < Duration::from_millis(600) {
            contest.server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
            sleep(Duration::from_millis(60)).await;
        }
    })
    .await;
}

/// Returns Jain's fairness index. It is 1 if all shares are equal, and `1 / n` if one of `n` has everything.
fn jain(shares: &[usize]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), share| {
        let share = *share as f64;
        (sum + share, share.mul_add(share, squares))
    });
    sum * sum / (shares.len() as f64 * squares)
}

/// The hand-offs stay within a process for a limited time. In strict order, all processes get equal shares.
#[allow(clippy::print_stdout, reason = "the figures are wanted as well as the verdict")]
#[tokio::test]
async fn no_process_has_a_hot_key_for_itself() {
    for (kinds, least) in [(&["lock:k"], 0.9), (&["fair:k"], 0.99)] {
        let (mut goes, mut is_fair) = (Vec::new(), false);
        // A busy machine may delay a process many times. A process that is never served is always late.
        for seed in 4..14 {
            let terms = Terms { hold: Duration::ZERO, ..terms(kinds) };
            let contest = Contest::start(PROCESSES, terms, seed).await;
            sleep(Duration::from_secs(2)).await;
            let outcome = contest.end().await;
            outcome.check().unwrap_or_else(|violation| panic!("{violation}"));
            let shares = outcome.while_all_asked(PROCESSES);
            println!("{kinds:?}: {shares:?}, Jain {:.4}", jain(&shares));
            // Fewer grants prove nothing.
            is_fair = shares.iter().all(|share| *share >= 20) && jain(&shares) > least;
            goes.push(shares);
            if is_fair {
                break;
            }
        }
        assert!(is_fair, "{kinds:?}: {goes:?}");
    }
}
