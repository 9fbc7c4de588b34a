//! Calls for several keys that lock rows in opposite orders. No call ends in a deadlock.

use std::time::Duration;

use lock_core::clock::Clock;
use lock_core::{LockError, LockErrorKind, LockManager};
use lock_tests::{PostgresServer, dropped_refuses_no_request};
use tokio::task::JoinSet;

use crate::support::{LONG, manager, ms};
use crate::verify::application;

/// A call waits for a row for half a second. The server detects a deadlock sooner.
const SETTING: &str = "deadlock_timeout=5ms";
const KEYS: usize = 10;

/// Renews all held locks, from the last key to the first.
const RENEW: &str = "SELECT count(r.*) FROM (SELECT array_agg(key ORDER BY key DESC) AS keys, array_agg(owner ORDER BY key DESC) \
                     AS owners, array_agg(60000000::bigint) AS ttls, array_agg(0::bigint) AS owns FROM lock_core.holders) h, \
                     lock_core.renew(h.keys, h.owners, h.ttls, h.owns) r WHERE h.keys IS NOT NULL";

/// Checks that a call failed because it took too long, as on a busy machine. The server reports deadlocks with another
/// code.
fn check(error: &LockError) {
    assert!(error.is_temporary() && !error.to_string().contains("deadlock"), "{error}");
}

/// Acquires and releases sets of keys and single keys, as fast as possible. Returns how often it held a whole set.
async fn take(locks: LockManager, several: bool, random: u64, until: impl Fn() -> bool) -> u32 {
    let mut random = fastrand::Rng::with_seed(random);
    let mut taken = 0;
    while until() {
        let mut keys: Vec<String> = (0..KEYS).map(|number| format!("k{number}")).collect();
        random.shuffle(&mut keys);
        keys.truncate(if several { 6 } else { 1 });
        let request = locks.all(&keys).ttl(LONG).strategy(lock_core::strategy::fail_fast());
        match request.acquire().await {
            Ok(guard) => {
                taken += 1;
                if let Err(error) = guard.release().await {
                    check(&error);
                }
            }
            Err(error) if error.kind() == LockErrorKind::Contended => {}
            Err(error) => check(&error),
        }
    }
    taken
}

/// Runs the load on a server that was changed, and returns the number of its deadlocks. A call that meets a deadlock
/// fails, so the errors of a changed server are ignored.
async fn deadlocks(change: &str) -> u64 {
    let server = PostgresServer::with(&[SETTING]);
    let managers = [manager(&server).await, manager(&server).await, manager(&server).await];
    server.sql(change);
    let started = Clock::Suspend.now();
    let until = move || Clock::Suspend.now().since(started) < Duration::from_secs(4);
    let mut tasks = JoinSet::new();
    for (number, locks) in managers.iter().enumerate() {
        for (several, seed) in [(true, 0), (true, 1), (false, 2)] {
            tasks.spawn(take(locks.clone(), several, 10 * number as u64 + seed, until));
        }
    }
    let mut renewals = JoinSet::new();
    for _ in 0..2 {
        let (client, changed) = (application(&server).await, !change.is_empty());
        renewals.spawn(async move {
            while until() {
                let renewed = client.query_typed(RENEW, &[]).await;
                let deadlock = renewed.as_ref().err().and_then(|error| error.code().cloned());
                // A changed renewal waits, and on a busy machine it waits for too long.
                let expected = |code: &str| code == "40P01" || changed && code == "55P03";
                assert!(deadlock.is_none_or(|code| expected(code.code())), "{renewed:?}");
            }
        });
    }
    let mut taken = 0;
    let mut failed = 0;
    while let Some(task) = tasks.join_next().await {
        match task {
            Ok(times) => taken += times,
            Err(_) => failed += 1,
        }
    }
    while let Some(task) = renewals.join_next().await {
        task.expect("a renewal fails by a deadlock alone");
    }
    server.sql("SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = 'postgres'");
    tokio::time::sleep(ms(500)).await;
    if change.is_empty() {
        assert!(failed == 0 && taken > 50, "{failed} tasks failed, and {taken} claims were granted");
    }
    server.sql("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'").parse().expect("a number")
}

/// Returns the statement that replaces a part of a function of the migration.
pub(crate) fn changed(function: &str, from: &str, to: &str) -> String {
    format!(
        "DO $x$ DECLARE v text := pg_get_functiondef('lock_core.{function}'::regproc); BEGIN ASSERT strpos(v, $y${from}$y$) > 0; \
         EXECUTE replace(v, $y${from}$y$, $y${to}$y$); END $x$"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_releases_and_claims_of_several_keys_meet_in_no_deadlock() {
    assert_eq!(deadlocks("").await, 0);
}

/// Returns whether one of a few runs on a changed server ends in a deadlock.
async fn are_found(change: &str) -> bool {
    for _ in 0..5 {
        if deadlocks(change).await > 0 {
            return true;
        }
    }
    false
}

/// This is a negative control: a release of several keys locks them in the opposite order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_in_the_opposite_order_is_found_out() {
    let change = changed(
        "release",
        "IN ARRAY p_keys LOOP",
        "IN ARRAY ARRAY(SELECT u.key FROM unnest(p_keys) WITH ORDINALITY u (key, number) ORDER BY u.number DESC) LOOP",
    );
    assert!(are_found(&change).await);
}

/// This is a negative control: a renewal waits for rows that other calls have locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_waits_is_found_out() {
    let change = changed(
        "renew",
        "ORDER BY h.key, h.slot FOR NO KEY UPDATE OF h SKIP LOCKED",
        "ORDER BY h.key DESC FOR NO KEY UPDATE OF h",
    );
    assert!(are_found(&change).await);
}

#[tokio::test]
async fn what_is_dropped_does_not_refuse_its_own_process() {
    let server = PostgresServer::start();
    dropped_refuses_no_request(&manager(&server).await, LONG).await;
}
