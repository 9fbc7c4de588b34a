//! The contended path: a release grants the key to the next waiter in one statement.

use std::time::Duration;

use lock_core::{LockManager, LockRequest, Released, strategy};
use lock_tests::{Bound, PATIENCE, PostgresServer, wait_until};

use crate::common::{calls, take_turns};
use crate::in_line::fair;
use crate::support::{LONG, connect, cycle, manager, ms, try_once};
use crate::verify::application;

/// Returns a request with a lease that is longer than a busy machine needs for a test, so it is not renewed.
fn patient_fair(locks: &LockManager) -> LockRequest {
    fair(locks).ttl(10 * LONG)
}

/// A cycle of a contended lock is two statements on the short path.
#[tokio::test]
async fn a_hand_off_is_one_statement_and_so_is_the_wait() {
    const TASKS: u64 = 8;
    const CYCLES: u64 = 50;
    let server = PostgresServer::with(&["track_functions=all"]);
    let locks = manager(&server).await;
    cycle(&locks, "k").await;
    let turns = Bound::new(PATIENCE);
    take_turns(TASKS, CYCLES, move || patient_fair(&locks)).await;
    let turns_took = turns.elapsed();
    // A waiter sends a heartbeat every two thirds of a second.
    let heartbeats = TASKS * (1 + u64::try_from(turns_took.as_millis()).expect("minutes") / 600);
    let calls = calls(&server).await;
    // The first cycle is one more. The last task may find the key free.
    for (name, calls) in ["enqueue", "hand_off"].map(|name| (name, calls(name))) {
        assert!((TASKS * CYCLES / 2..=TASKS * CYCLES + 1).contains(&calls), "{calls} calls of {name}");
    }
    // The first cycle created the row. The holder is notified only of the first waiter. On a busy machine, a waiter may
    // be too late to keep its place, which lasts for two seconds, and then takes the long path.
    let late = turns_took.as_secs() / 2;
    assert!(calls("acquire") + calls("release") <= 1 + late, "{} and {}", calls("acquire"), calls("release"));
    // A lease that is handed on lasts for at most two seconds.
    assert!(calls("renew") <= 2 * turns_took.as_secs(), "{} renewals in {turns_took:?}", calls("renew"));
    assert!(calls("heartbeats") <= heartbeats, "{} heartbeats, {heartbeats} are due", calls("heartbeats"));
    assert!(calls("tell") <= TASKS, "{} messages inside of one process", calls("tell"));
}

/// The answer to a release names the next holder of the same process. Without this name and without notifications, that
/// waiter would wait until its heartbeat, 0.67 s.
#[tokio::test]
async fn one_who_waits_in_the_same_process_needs_no_notification() {
    let server = PostgresServer::start();
    let locks = connect(&format!("{}&listen=off", server.url())).await;
    let waits = || patient_fair(&locks);
    let mut held = waits().acquire().await.expect("it is free");
    let mut fastest = Duration::MAX;
    // A busy machine may be late many times. Without the answer, all rounds are late.
    for round in 0..50 {
        if fastest < ms(100) {
            break;
        }
        let next = tokio::spawn(waits().acquire());
        let queued = || server.sql("SELECT count(*) FROM lock_core.waiters WHERE key = 'k'") == "1";
        wait_until("it waits", PATIENCE, async || queued()).await;
        let released = Bound::new(PATIENCE);
        assert_eq!(held.release().await.expect("an answer"), Released::Released, "{round}");
        held = next.await.expect("no panic").expect("its turn comes");
        fastest = fastest.min(released.elapsed());
    }
    assert!(fastest < ms(100), "{fastest:?}");
}

/// The answer takes effect even if no caller waits for it any more.
#[tokio::test]
async fn a_release_whose_caller_is_gone_tells_the_next_holder() {
    let server = PostgresServer::start();
    let locks = connect(&format!("{}&listen=off", server.url())).await;
    let waits = || patient_fair(&locks);
    let mut fastest = Duration::MAX;
    for _ in 0..50 {
        if fastest < ms(100) {
            break;
        }
        let held = waits().acquire().await.expect("it is free");
        let next = tokio::spawn(waits().acquire());
        let queued = || server.sql("SELECT count(*) FROM lock_core.waiters WHERE key = 'k'") == "1";
        wait_until("it waits", PATIENCE, async || queued()).await;
        let released = Bound::new(PATIENCE);
        drop(held);
        let next = next.await.expect("no panic").expect("its turn comes");
        fastest = fastest.min(released.elapsed());
        next.release().await.expect("an answer");
    }
    assert!(fastest < ms(100), "{fastest:?}");
}

const HOLDER: &str = "INSERT INTO lock_core.holders (key, owner, mode, record, expires_at) VALUES ('k', 'h', 'x', '', \
     now() + interval '1 hour')";
const WAITER: &str = "INSERT INTO lock_core.waiters VALUES ('k', 'w', 1, 'infinity', 1000000, 'x', '')";

/// Releases `h`. Returns the answer, and then the owners that hold and wait.
fn handed_off(server: &PostgresServer, before: &str) -> String {
    server.sql(&format!(
        "DELETE FROM lock_core.holders; DELETE FROM lock_core.waiters; {HOLDER}; {WAITER}; {before}"
    ));
    let answer = server.sql("SELECT coalesce(lock_core.hand_off('k', 'h', 'x'), 'null')");
    let owners = "SELECT coalesce((SELECT string_agg(owner, ',' ORDER BY owner) FROM lock_core.holders), '') || '/' || \
                  coalesce((SELECT string_agg(owner, ',' ORDER BY ticket) FROM lock_core.waiters), '')";
    format!("{answer} {}", server.sql(owners))
}

#[tokio::test]
async fn a_hand_off_does_only_what_is_its_own() {
    let server = PostgresServer::start();
    cycle(&manager(&server).await, "k").await;
    server.sql("UPDATE lock_core.floor SET swept_at = 'infinity'");
    let table = [
        ("", "1 w/"),
        ("INSERT INTO lock_core.waiters VALUES ('k', 'v', 2, 'infinity', 1, 'x', '')", "1 w/v"),
        ("DELETE FROM lock_core.waiters", "1 /"),
        ("UPDATE lock_core.waiters SET deadline = '-infinity'", "null h/w"),
        ("UPDATE lock_core.waiters SET mode = 's'", "null h/w"),
        ("UPDATE lock_core.holders SET mode = 's'", "null h/w"),
        ("UPDATE lock_core.holders SET kept = true", "null h/w"),
        ("UPDATE lock_core.holders SET expires_at = '-infinity'", "null h/w"),
        ("UPDATE lock_core.holders SET owner = 'o'", "null o/w"),
        ("DELETE FROM lock_core.holders", "null /w"),
    ];
    for (before, expected) in table {
        assert_eq!(handed_off(&server, before), expected, "{before}");
    }
    // The next holder has its own lease, of at most two seconds.
    for (ttl, expected) in [("1000000", "t"), ("60000000", "f")] {
        // This is one call, because the lease expires meanwhile. The last answer counts.
        let answers = server.sql(&format!(
            "DELETE FROM lock_core.holders; DELETE FROM lock_core.waiters; {HOLDER}; {WAITER}; \
             UPDATE lock_core.waiters SET ttl = {ttl}; SELECT lock_core.hand_off('k', 'h', 'x'); \
             SELECT expires_at < clock_timestamp() + interval '1.1 s', expires_at < clock_timestamp() + interval '2.1 s' \
             FROM lock_core.holders"
        ));
        assert_eq!(answers.lines().last(), Some(format!("{expected}|t").as_str()));
    }
}

/// Enqueues `n` for `k`. Returns the first column of the answer, whether the claim was queued, and the holders and
/// waiters.
fn enqueued(server: &PostgresServer, before: &str, more: &str) -> String {
    server.sql(&format!(
        "DELETE FROM lock_core.holders; DELETE FROM lock_core.waiters; {HOLDER}; {WAITER}; {before}"
    ));
    let answer = server.sql(&format!(
        "SELECT coalesce(a[1] || a[4] || coalesce(a[7], '') || coalesce(a[9], ''), 'null') FROM lock_core.enqueue('k', 'n', '', \
         1000000, {more}) a"
    ));
    let owners = "SELECT coalesce((SELECT string_agg(owner, ',' ORDER BY owner) FROM lock_core.holders), '') || '/' || \
                  coalesce((SELECT string_agg(owner, ',' ORDER BY ticket) FROM lock_core.waiters), '')";
    format!("{answer} {}", server.sql(owners))
}

#[tokio::test]
async fn a_claim_is_queued_on_the_short_way_only_behind_an_exclusive_holder() {
    let server = PostgresServer::start();
    cycle(&manager(&server).await, "k").await;
    server.sql("UPDATE lock_core.floor SET swept_at = 'infinity'");
    let many = "2147483647, false";
    let table = [
        ("", many, "011true h/w,n"),
        ("UPDATE lock_core.waiters SET ticket = 9000000000000000", many, "011true h/w,n"),
        ("UPDATE lock_core.waiters SET deadline = '-infinity'", many, "000true h/w,n"),
        ("DELETE FROM lock_core.waiters", many, "000true h/n"),
        ("DELETE FROM lock_core.waiters; DELETE FROM lock_core.holders", many, "null /"),
        ("", "1, false", "null h/w"),
        ("", "2, true", "011true h/w,n"),
        ("UPDATE lock_core.holders SET owner = 'n'", many, "null n/w"),
        ("UPDATE lock_core.waiters SET owner = 'n'", many, "null h/n"),
        ("UPDATE lock_core.holders SET mode = 's'", many, "null h/w"),
        ("UPDATE lock_core.holders SET kept = true", many, "null h/w"),
        ("UPDATE lock_core.holders SET expires_at = '-infinity'", many, "null h/w"),
        ("DELETE FROM lock_core.holders", many, "null /w"),
        ("UPDATE lock_core.keys SET latch_until = 'infinity'", many, "null h/w"),
    ];
    for (before, more, expected) in table {
        assert_eq!(enqueued(&server, before, more), expected, "{before} {more}");
    }
    // A holder of the same process hands off locally. The first 33 digits of both owners are equal.
    enqueued(
        &server,
        "UPDATE lock_core.keys SET latch_until = '-infinity'; UPDATE lock_core.holders SET owner = repeat('n', 34)",
        "1, true",
    );
    let own = "SELECT lock_core.enqueue('k', repeat('n', 33) || 'm', '', 1000000, 100, true) IS NULL";
    assert_eq!(server.sql(own), "t");
    assert_eq!(server.sql(&own.replace("true", "false")), "f", "one that is not handed off to waits");
}

/// A claim is queued while a release waits for the lock of the row. If the release used an earlier read of the queue,
/// it would report no waiters, and the claim would wait until its next heartbeat.
#[tokio::test]
async fn a_release_that_stood_in_line_sees_who_came_meanwhile() {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    let (mut first, other) = (application(&server).await, application(&server).await);
    cycle(&locks, "k").await;
    server.sql(HOLDER);
    let transaction = first.transaction().await.expect("it begins");
    let queue = "SELECT a[1] FROM lock_core.enqueue('k', 'w', '', 60000000, 100, false) a";
    transaction.batch_execute("SELECT FROM lock_core.keys FOR UPDATE").await.expect("it locks the row");
    let release = tokio::spawn(async move {
        let rows =
            other.query_typed("SELECT lock_core.hand_off('k', 'h', 'x')", &[]).await.expect("an answer");
        rows[0].get::<_, Option<String>>(0)
    });
    let in_line = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    wait_until("it stands in line", PATIENCE, async || server.sql(in_line) == "1").await;
    transaction.batch_execute(queue).await.expect("it is queued");
    transaction.commit().await.expect("an answer");
    assert_eq!(release.await.expect("no panic").as_deref(), Some("1"));
    assert_eq!(server.sql("SELECT string_agg(owner, ',') FROM lock_core.holders"), "w");
}

/// The same holds for a claim that waits for the row while a release is executed.
#[tokio::test]
async fn a_claim_that_stood_in_line_sees_that_the_key_is_free() {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    let (mut first, other) = (application(&server).await, application(&server).await);
    cycle(&locks, "k").await;
    server.sql(HOLDER);
    let transaction = first.transaction().await.expect("it begins");
    transaction.batch_execute("SELECT FROM lock_core.keys FOR UPDATE").await.expect("it locks the row");
    let queued = tokio::spawn(async move {
        let queue = "SELECT lock_core.enqueue('k', 'w', '', 60000000, 100, false) IS NOT NULL";
        other.query_typed(queue, &[]).await.expect("an answer")[0].get::<_, bool>(0)
    });
    let in_line = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    wait_until("it stands in line", PATIENCE, async || server.sql(in_line) == "1").await;
    transaction.batch_execute("DELETE FROM lock_core.holders").await.expect("it is released");
    transaction.commit().await.expect("an answer");
    assert!(!queued.await.expect("no panic"), "there is no holder to wait for");
    assert_eq!(server.sql("SELECT count(*) FROM lock_core.waiters"), "0");
}

/// A lease that a transaction has verified is not handed off before the transaction ends.
#[tokio::test]
async fn a_lease_that_was_verified_is_not_handed_off() {
    let server = PostgresServer::start();
    let (one, other) = (manager(&server).await, manager(&server).await);
    let mut client = application(&server).await;
    let guard = try_once(&one, "k").await.expect("it is free");
    let next = tokio::spawn(other.fair("k").ttl(LONG).strategy(strategy::wait()).acquire());
    let queued = || server.sql("SELECT count(*) FROM lock_core.waiters WHERE key = 'k'") == "1";
    wait_until("it waits", PATIENCE, async || queued()).await;
    let mut transaction = client.transaction().await.expect("it begins");
    guard.verify_in(&mut transaction).await.expect("it is held");
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
    tokio::time::sleep(ms(200)).await;
    assert!(!next.is_finished() && queued(), "the transaction is open");
    transaction.commit().await.expect("it commits");
    let next = next.await.expect("no panic").expect("its turn comes");
    next.release().await.expect("an answer");
}
