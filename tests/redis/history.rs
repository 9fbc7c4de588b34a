//! The history of holds under load, while connections are killed and scripts are forgotten.

use std::time::Duration;

use lock_core::backend::Mode;
use lock_core::clock::Clock;
use lock_core::strategy::{self, Backoff};
use lock_core::testkit::history::{History, Hold, Violation};
use lock_core::{LockGuard, LockManager};
use lock_tests::{Bound, RedisServer};
use tokio::task::JoinSet;

use crate::support::{empty, manager, ms};

const TTL: Duration = ms(1_000);
const KEYS: usize = 3;

/// Acquires one of the keys again and again, until the time is over.
async fn work(worker: usize, locks: LockManager, history: History, time: Duration) {
    let over = Bound::new(time);
    for round in 0.. {
        if over.elapsed() >= time {
            return;
        }
        let key = format!("k{}", (worker + round) % KEYS);
        let backoff = Backoff::exponential(ms(1), ms(8));
        let request = locks.lock(key).ttl(TTL).fencing(round % 2 == 0);
        let asked = history.now();
        match request.strategy(strategy::retry().within(time).backoff(backoff)).acquire().await {
            Ok(guard) => hold(worker, guard, asked, &history).await,
            // The fault may win for a moment. The key was not held, so there is nothing to record.
            Err(error) => assert!(error.is_temporary(), "{error}"),
        }
    }
}

async fn hold(worker: usize, guard: LockGuard, asked: Duration, history: &History) {
    let acquired = history.now();
    // Stays certain even if the lock is lost while it is held.
    let first_deadline = acquired + guard.remaining();
    let fence = guard.fencing_token().await.ok();
    tokio::time::sleep(ms(u64::from(worker as u32 % 3))).await;
    let now = history.now();
    let ended = if guard.is_held() { now } else { now.min(first_deadline) };
    let (key, mode) = (guard.key().to_owned(), Mode::Exclusive);
    history.record(Hold { worker, key, mode, asked, acquired, ended, fence });
    let _ = guard.release().await;
}

/// Runs four workers for each manager.
async fn load(managers: &[LockManager], time: Duration) -> History {
    let history = History::new(Clock::Suspend);
    let mut workers = JoinSet::new();
    for (number, locks) in managers.iter().enumerate() {
        for worker in 0..4 {
            workers.spawn(work(4 * number + worker, locks.clone(), history.clone(), time));
        }
    }
    workers.join_all().await;
    history
}

/// Kills every connection and flushes every script, again and again.
async fn torment(server: &RedisServer) {
    let faults: [&[&str]; 3] =
        [&["CLIENT", "KILL", "TYPE", "normal"], &["SCRIPT", "FLUSH"], &["CLIENT", "PAUSE", "50", "WRITE"]];
    for fault in faults.iter().cycle() {
        tokio::time::sleep(ms(130)).await;
        server.command(fault);
    }
}

#[tokio::test]
async fn one_holder_at_a_time_and_tokens_in_order_whatever_happens_to_connections() {
    let server = RedisServer::start();
    let mut managers = Vec::new();
    for _ in 0..3 {
        managers.push(manager(&server).await);
    }
    let time = Duration::from_secs(9);
    let history = tokio::select! {
        history = load(&managers, time) => history,
        () = torment(&server) => unreachable!("it never ends"),
    };
    let holds = history.holds();
    history.check().unwrap_or_else(|violation| panic!("{violation}"));
    let fenced = holds.iter().filter(|hold| hold.fence.is_some()).count();
    assert!(holds.len() > 200 && fenced > 100, "{} holds, {fenced} with a token", holds.len());
    for locks in &managers {
        locks.shutdown(Duration::from_secs(5)).await;
    }
    server.command(&["DEL", "{k0}:f", "{k1}:f", "{k2}:f"]);
    empty(&server, 2 * TTL).await;
}

/// The negative control: managers without a common server do not exclude each other, and the check finds that.
#[tokio::test]
async fn a_history_of_two_servers_shows_two_holders() {
    let (one, two) = (RedisServer::start(), RedisServer::start());
    let managers = [manager(&one).await, manager(&two).await];
    let verdict = load(&managers, ms(500)).await.check();
    assert!(matches!(verdict, Err(Violation::Overlap { .. })), "{verdict:?}");
}
