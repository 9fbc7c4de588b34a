//! The shortest way: a grant in the row of the one before it, without the lock of its key.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lock_core::backend::postgres::migrate;
use lock_core::{LockErrorKind, LockManager, strategy};
use lock_tests::{PATIENCE, PostgresServer, wait_until};
use tokio::task::JoinSet;

use crate::orders::changed;
use crate::support::{LONG, connect, cycle, manager, try_once};
use crate::verify::application;

/// Takes and releases a key until its row is left alone, so that this process takes the shortest way next.
async fn left_alone(server: &PostgresServer, locks: &LockManager, key: &str) {
    for _ in 0..2 {
        cycle(locks, key).await;
    }
    let row = format!("SELECT alone, owner = '' FROM lock_core.holders WHERE key = '{key}'");
    assert_eq!(server.sql(&row), "t|t");
}

/// What a check of the last lease does that began before its release. The check itself finds the lease that is over.
const LOCKED: &str = "SELECT FROM lock_core.holders WHERE key = 'k' FOR KEY SHARE";

async fn is_refused(locks: &LockManager) {
    let error = try_once(locks, "k").await.expect_err("a transaction may rely on the last lease");
    assert_eq!(error.kind(), LockErrorKind::Contended, "{error}");
}

#[tokio::test]
async fn a_row_that_a_transaction_has_locked_is_not_taken() {
    let server = PostgresServer::start();
    let (locks, mut client) = (manager(&server).await, application(&server).await);
    left_alone(&server, &locks, "k").await;
    // Nobody even tries to change it.
    server.sql(
        "CREATE FUNCTION lock_core.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'it was taken'; END $$; \
         CREATE TRIGGER fail BEFORE UPDATE ON lock_core.holders FOR EACH ROW WHEN (NEW.owner <> '') EXECUTE FUNCTION \
         lock_core.fail()",
    );
    let transaction = client.transaction().await.expect("a transaction");
    transaction.batch_execute(LOCKED).await.expect("a row");
    for _ in 0..3 {
        is_refused(&locks).await;
    }
    transaction.commit().await.expect("a commit");
    server.sql("DROP TRIGGER fail ON lock_core.holders");
    cycle(&locks, "k").await;
}

/// The lock comes between the look at the row and the change of it.
#[tokio::test]
async fn a_row_that_is_locked_just_then_is_given_back() {
    const STOP: &str = "CREATE FUNCTION lock_core.stop() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$ BEGIN IF \
                        NEW.owner <> '' THEN PERFORM pg_advisory_xact_lock(7); END IF; RETURN NEW; END $$; CREATE TRIGGER stop BEFORE UPDATE ON \
                        lock_core.holders FOR EACH ROW EXECUTE FUNCTION lock_core.stop()";
    let server = PostgresServer::start();
    let patient = format!("{}&timeout=5s", server.url());
    let (locks, mut client) = (connect(&patient).await, application(&server).await);
    left_alone(&server, &locks, "k").await;
    // A trigger locks the row as well, before it runs.
    server.sql(STOP);
    client.batch_execute("SELECT pg_advisory_lock(7)").await.expect("a lock");
    let taking = tokio::spawn(async move {
        is_refused(&locks).await;
        locks
    });
    let stopped = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    wait_until("it has looked", PATIENCE, async || server.sql(stopped) == "1").await;
    let transaction = client.transaction().await.expect("a transaction");
    transaction.batch_execute(LOCKED).await.expect("a row");
    transaction.batch_execute("SELECT pg_advisory_unlock(7)").await.expect("it is ours");
    let locks = taking.await.expect("no panic");
    assert_eq!(server.sql("SELECT count(*), bool_and(owner = '') FROM lock_core.holders"), "1|t");
    transaction.commit().await.expect("a commit");
    cycle(&locks, "k").await;
}

/// A check of the lease in the library makes its release look for the transaction.
#[tokio::test]
async fn a_lease_that_was_verified_is_released_behind_the_lock_of_the_key() {
    let server = PostgresServer::start();
    let (locks, mut client) = (manager(&server).await, application(&server).await);
    left_alone(&server, &locks, "k").await;
    let guard = try_once(&locks, "k").await.expect("it is free");
    let mut transaction = client.transaction().await.expect("a transaction");
    guard.verify_in(&mut transaction).await.expect("the lease lives");
    guard.release().await.expect("an answer");
    assert_eq!(
        server.sql("SELECT owner = '' OR alone FROM lock_core.holders"),
        "f",
        "not by the shortest way"
    );
    is_refused(&locks).await;
    transaction.commit().await.expect("a commit");
    cycle(&locks, "k").await;
}

/// Whoever else wants the key ends the shortest way, so that its holder looks at the queue.
#[tokio::test]
async fn the_shortest_way_ends_when_others_come() {
    let server = PostgresServer::start();
    let (locks, other) = (manager(&server).await, manager(&server).await);
    let alone = "SELECT alone FROM lock_core.holders";
    // The first is queued on the short way, and the other on the long one.
    for request in [other.fair("k"), other.read("k")] {
        left_alone(&server, &locks, "k").await;
        let held = try_once(&locks, "k").await.expect("it is free");
        assert_eq!(server.sql(alone), "t");
        let waiting = tokio::spawn(request.ttl(LONG).strategy(strategy::wait()).acquire());
        wait_until("it waits", PATIENCE, async || {
            server.sql("SELECT count(*) FROM lock_core.waiters") == "1"
        })
        .await;
        assert_eq!(server.sql(alone), "f");
        held.release().await.expect("an answer");
        let next = waiting.await.expect("no panic").expect("its turn came");
        let error = try_once(&locks, "k").await.expect_err("the other has it");
        assert_ne!(error.kind(), LockErrorKind::Unavailable, "{error}");
        next.release().await.expect("an answer");
    }
    for kind in [locks.read("k"), locks.all(["k", "l"])] {
        left_alone(&server, &locks, "k").await;
        let guard = kind.ttl(LONG).strategy(strategy::fail_fast()).acquire().await.expect("it is free");
        assert_eq!(server.sql("SELECT bool_or(alone) FROM lock_core.holders"), "f");
        guard.release().await.expect("an answer");
    }
    left_alone(&server, &locks, "k").await;
    locks.latch("k").set(1).await.expect("it is free");
    assert_eq!(try_once(&locks, "k").await.expect_err("a latch").kind(), LockErrorKind::InvalidRequest);
}

/// Processes that try, again and again. Returns whether two held the key at once, and how often it was held.
async fn tried(server: &PostgresServer, change: &str) -> (bool, usize) {
    const PROCESSES: usize = 4;
    const TRIES: usize = 400;
    let mut managers = Vec::new();
    for _ in 0..PROCESSES {
        managers.push(manager(server).await);
    }
    left_alone(server, &managers[0], "k").await;
    server.sql(change);
    let (inside, twice) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let held = Arc::new(AtomicUsize::new(0));
    let mut running = JoinSet::new();
    for locks in managers {
        let (inside, twice, held) = (Arc::clone(&inside), Arc::clone(&twice), Arc::clone(&held));
        running.spawn(async move {
            for _ in 0..TRIES {
                let Ok(guard) = try_once(&locks, "k").await else { continue };
                held.fetch_add(1, Ordering::Relaxed);
                if inside.swap(true, Ordering::SeqCst) {
                    twice.store(true, Ordering::Relaxed);
                }
                tokio::task::yield_now().await;
                inside.store(false, Ordering::SeqCst);
                // It may have been another's by then, in the negative control.
                let _ = guard.release().await;
            }
        });
    }
    running.join_all().await;
    (twice.load(Ordering::Relaxed), held.load(Ordering::Relaxed))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_at_a_time_takes_the_row() {
    let server = PostgresServer::start();
    let (twice, held) = tried(&server, "").await;
    assert!(!twice, "two held it at once");
    assert!(held > 100, "{held} holds");
    left_alone(&server, &manager(&server).await, "k").await;
}

/// A negative control: a row that is taken stays free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_stays_free_is_found_out() {
    const FREE: &str = "CREATE FUNCTION lock_core.free() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE lock_core.holders SET \
                        owner = '', expires_at = '-infinity' WHERE key = NEW.key; RETURN NULL; END $$; CREATE TRIGGER free AFTER \
                        UPDATE ON lock_core.holders FOR EACH ROW WHEN (NEW.owner <> '') EXECUTE FUNCTION lock_core.free()";
    let server = PostgresServer::start();
    assert!(tried(&server, FREE).await.0, "nobody noticed");
}

/// Has the server look, at each commit, whether a row that is alone has company.
pub(crate) fn watch(server: &PostgresServer) {
    server.sql(
        "CREATE TABLE lock_core.broken (key text); CREATE FUNCTION lock_core.watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF EXISTS (SELECT FROM lock_core.holders h WHERE h.key = NEW.key AND h.alone AND (EXISTS (SELECT FROM lock_core.waiters w \
         WHERE w.key = NEW.key) OR EXISTS (SELECT FROM lock_core.holders o WHERE o.key = NEW.key AND o.slot <> h.slot) OR EXISTS \
         (SELECT FROM lock_core.keys k WHERE k.key = NEW.key AND k.latch_until > clock_timestamp()))) THEN INSERT INTO \
         lock_core.broken VALUES (NEW.key); END IF; RETURN NULL; END $$; CREATE CONSTRAINT TRIGGER watch AFTER INSERT ON \
         lock_core.waiters DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lock_core.watch(); CREATE CONSTRAINT TRIGGER \
         watch AFTER INSERT ON lock_core.holders DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lock_core.watch()",
    );
}

/// Returns how often [`watch`] has found some.
pub(crate) fn company(server: &PostgresServer) -> String {
    server.sql("SELECT count(*) FROM lock_core.broken")
}

/// The tables of version 4, in which the owner was part of the index.
#[tokio::test]
async fn grants_of_the_version_before_go_on() {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    let (held, first, second) = (
        try_once(&locks, "held").await.expect("it is free"),
        locks.semaphore("permits", 3).ttl(LONG).acquire().await.expect("it is free"),
        locks.semaphore("permits", 3).ttl(LONG).acquire().await.expect("two are free"),
    );
    server.sql(
        "ALTER TABLE lock_core.holders DROP CONSTRAINT holders_pkey; ALTER TABLE lock_core.holders DROP COLUMN slot, DROP COLUMN \
         alone, ADD PRIMARY KEY (key, owner); UPDATE lock_core.version SET number = 4",
    );
    migrate(&server.url()).await.expect("an older version is renewed");
    assert_eq!(
        server.sql("SELECT count(*), count(*) FILTER (WHERE slot = owner) FROM lock_core.holders"),
        "3|2"
    );
    let other = manager(&server).await;
    assert!(try_once(&other, "held").await.is_err(), "it is held");
    let third = other.semaphore("permits", 3).ttl(LONG).acquire().await.expect("one is left");
    for guard in [held, first, second, third] {
        guard.release().await.expect("an answer");
    }
    for key in ["held", "permits"] {
        cycle(&other, key).await;
    }
}

/// The control of [`watch`]: who locks a key leaves its row alone.
#[tokio::test]
async fn company_of_a_row_that_is_alone_is_found_out() {
    const UNSET: &str =
        "UPDATE lock_core.holders h SET alone = false WHERE h.key = p_key AND h.slot = '' AND h.alone;";
    for (change, expected) in [(String::new(), "0"), (changed("lock_row", UNSET, ""), "1")] {
        let server = PostgresServer::start();
        let (locks, other) = (manager(&server).await, manager(&server).await);
        watch(&server);
        server.sql(&change);
        left_alone(&server, &locks, "k").await;
        let held = try_once(&locks, "k").await.expect("it is free");
        let waiting = tokio::spawn(other.read("k").ttl(LONG).strategy(strategy::wait()).acquire());
        wait_until("it waits", PATIENCE, async || {
            server.sql("SELECT count(*) FROM lock_core.waiters") == "1"
        })
        .await;
        assert_eq!(company(&server), expected);
        held.release().await.expect("an answer");
        waiting.await.expect("no panic").expect("its turn comes").release().await.expect("an answer");
    }
}
