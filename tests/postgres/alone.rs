//! The shortest way: a grant in the row of the one before it, without the lock of its key.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use lock_core::backend::postgres::migrate;
use lock_core::{LockErrorKind, LockGuard, LockManager, Release, strategy};
use lock_tests::{Flow, PATIENCE, PostgresServer, Proxy, wait_until};
use tokio::task::{JoinHandle, JoinSet};

use crate::orders::changed;
use crate::support::{LONG, connect, cycle, manager, ms, try_once, within};
use crate::verify::application;

/// Takes and releases a key until its row is left alone, so that this process takes the shortest way next.
async fn left_alone(server: &PostgresServer, locks: &LockManager, key: &str) {
    // A sweep removes the row of a key that nobody holds.
    server.sql("UPDATE lock_core.floor SET swept_at = 'infinity'");
    cycle(locks, key).await;
    let row = format!("SELECT alone, owner = '' FROM lock_core.holders WHERE key = '{key}'");
    wait_until("its row is left alone", PATIENCE, async || {
        cycle(locks, key).await;
        server.sql(&row) == "t|t"
    })
    .await;
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

/// Waits for the key, which is held here, in another process. Returns once it has a place in the queue.
async fn waiter(server: &PostgresServer) -> JoinHandle<lock_core::Result<LockGuard>> {
    let other = manager(server).await;
    let waiting = tokio::spawn(other.fair("k").ttl(LONG).strategy(strategy::wait()).acquire());
    wait_until("it waits", PATIENCE, async || server.sql("SELECT count(*) FROM lock_core.waiters") == "1")
        .await;
    waiting
}

/// The release finds that the row is not alone any more, and its future is kept and not polled.
#[tokio::test]
async fn a_release_that_nobody_finishes_gives_the_key_to_a_waiter() {
    let server = PostgresServer::start();
    for url in [server.url(), format!("{}&listen=off", server.url())] {
        let locks = connect(&url).await;
        left_alone(&server, &locks, "k").await;
        let held = try_once(&locks, "k").await.expect("it is free");
        let waiting = waiter(&server).await;
        let mut release = Box::pin(held.release());
        let is_ready = poll_fn(|cx| Poll::Ready(release.as_mut().poll(cx).is_ready())).await;
        assert!(!is_ready, "it is under way");
        let next = within(PATIENCE, "a turn", waiting).await.expect("no panic").expect("granted");
        drop(release);
        next.release().await.expect("an answer");
    }
}

/// The answers to the release are lost. Where its process was told of the waiter, the first request releases.
#[tokio::test]
async fn a_release_whose_answer_is_lost_gives_the_key_to_a_waiter() {
    let server = PostgresServer::start();
    let way = Proxy::to(server.address());
    // No request is repeated before the test is over.
    let options = format!("timeout=60s&listen=127.0.0.1:{}", server.address().port());
    let listens = format!("{}&{options}", server.url_at(way.port()));
    let locks = connect(&listens).await;
    // A hand-off that lingers is given back once its process is told of a waiter: then the notification has come.
    let lingering = locks.lock("other").ttl(LONG).linger(ms(1_000)).acquire().await.expect("it is free");
    lingering.release().await.expect("it lingers");
    left_alone(&server, &locks, "k").await;
    let held = try_once(&locks, "k").await.expect("it is free");
    let waiting = waiter(&server).await;
    let other = manager(&server).await;
    let asked = other.fair("other").ttl(LONG).strategy(strategy::wait()).acquire();
    drop(within(PATIENCE, "a notification", asked).await.expect("given back"));
    way.replies(Flow::Swallow);
    let release = tokio::spawn(held.release());
    let next = within(PATIENCE, "a turn", waiting).await.expect("no panic").expect("granted");
    assert!(!release.is_finished(), "it has no answer");
    next.release().await.expect("an answer");
    way.heal();
}

/// Nobody waits for the release, and the next acquisition is refused by the waiter, and not by the release.
#[tokio::test]
async fn a_refusal_behind_a_release_in_the_background_is_a_refusal() {
    let server = PostgresServer::start();
    let url = format!("{}&listen=off", server.url());
    for _ in 0..5 {
        let locks = connect(&url).await;
        left_alone(&server, &locks, "k").await;
        let request = locks.lock("k").ttl(LONG).strategy(strategy::fail_fast()).release(Release::Background);
        let waiting = request.run(waiter(&server)).await.expect("it is free");
        let next = locks.lock("k").ttl(LONG).try_acquire().await.expect("an answer");
        assert!(next.is_none(), "the waiter has it");
        waiting.await.expect("no panic").expect("granted").release().await.expect("an answer");
    }
}

/// A permit is requested while a lock of the same key is released in the background.
#[tokio::test]
async fn a_conflict_with_a_grant_that_is_being_released_is_asked_about_again() {
    let server = PostgresServer::start();
    let (locks, other) = (manager(&server).await, manager(&server).await);
    let permit =
        |locks: &LockManager| locks.semaphore("k", 3).ttl(LONG).strategy(strategy::fail_fast()).acquire();
    left_alone(&server, &locks, "k").await;
    let request = locks.lock("k").ttl(LONG).strategy(strategy::fail_fast()).release(Release::Background);
    // Whoever tries ends the shortest way, and its process is not told of that.
    let tried = request.run(permit(&other)).await.expect("it is free");
    assert_eq!(tried.expect_err("it is held").kind(), LockErrorKind::InvalidRequest);
    permit(&locks).await.expect("the lock is released").release().await.expect("an answer");
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
        // A waiter that is late queues again, and is found again.
        assert_eq!(company(&server) == "0", expected == "0", "{}", company(&server));
        held.release().await.expect("an answer");
        waiting.await.expect("no panic").expect("its turn comes").release().await.expect("an answer");
    }
}

/// A guard is dropped, and then a body that holds the lock. The next request of this process has no patience.
#[tokio::test]
async fn what_is_dropped_does_not_refuse_its_own_process() {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    let request = || locks.lock("k").ttl(LONG).strategy(strategy::fail_fast());
    for number in 0..100 {
        let guard = request().acquire().await;
        drop(guard.unwrap_or_else(|error| panic!("after body {number}: {error}")));
        let entered = tokio::sync::Notify::new();
        let body = async {
            entered.notify_one();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            ended = request().run(body) => panic!("after guard {number}: {ended:?}"),
            () = entered.notified() => {}
        }
    }
}
