//! The common path: acquiring a free key, and a release without waiters.

use lock_core::{LockErrorKind, LockRequest, Released};
use lock_tests::{PgBouncer, PostgresServer};
use tokio::task::JoinSet;

use crate::support::{LONG, connect, cycle, manager, ms, try_once, works_again};

/// Ends the sessions of the library, because they report their statistics at their end. Returns the number of calls of
/// each function.
pub(crate) async fn calls(server: &PostgresServer) -> impl Fn(&str) -> u64 {
    server.sql(
        "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE application_name = 'lock-core'",
    );
    tokio::time::sleep(ms(500)).await;
    let all = server.sql("SELECT funcname || '=' || calls FROM pg_stat_user_functions ORDER BY 1");
    move |name| {
        let line = all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map_or(0, |calls| calls.parse().expect("a number"))
    }
}

/// Runs this many tasks, each of which acquires and releases the lock this many times.
pub(crate) async fn take_turns(
    tasks: u64,
    turns: u64,
    request: impl Fn() -> LockRequest + Clone + Send + 'static,
) {
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let request = request.clone();
        running.spawn(async move {
            for _ in 0..turns {
                let guard = request().acquire().await.expect("its turn comes");
                guard.release().await.expect("an answer");
            }
        });
    }
    running.join_all().await;
}

/// A cycle is two statements on the short path. Only the creation of the key's row takes the long path.
#[tokio::test]
async fn a_free_key_is_taken_and_given_back_on_the_short_way() {
    let server = PostgresServer::with(&["track_functions=all"]);
    let locks = manager(&server).await;
    server.sql("UPDATE lock_core.floor SET swept_at = 'infinity'");
    for _ in 0..50 {
        cycle(&locks, "k").await;
    }
    for _ in 0..50 {
        let guard = locks.lock("k").ttl(LONG).fencing(true).acquire().await.expect("it is free");
        guard.release().await.expect("an answer");
    }
    let calls = calls(&server).await;
    assert_eq!(["attempt", "take_free", "acquire", "let_go", "release"].map(&calls), [100, 100, 1, 100, 0]);
    assert_eq!(["let_go_with_settings", "attempts", "fence", "heartbeats"].map(&calls), [0; 4]);
}

#[tokio::test]
async fn behind_a_pooler_the_short_way_makes_its_settings() {
    let server = PostgresServer::with(&["track_functions=all"]);
    lock_core::backend::postgres::migrate(&server.url_of("postgres")).await.expect("the administrator may");
    let pooler = PgBouncer::before(&server, 1, "");
    let locks = connect(&format!("{}?timeout=10s", pooler.url())).await;
    server.sql("UPDATE lock_core.floor SET swept_at = 'infinity'");
    for _ in 0..20 {
        cycle(&locks, "k").await;
    }
    server.sql("SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = 'postgres'");
    let calls = calls(&server).await;
    assert_eq!(["attempts", "let_go_with_settings", "acquire", "release"].map(calls), [20, 20, 1, 0]);
}

/// The short path is left in every case that needs more work.
#[tokio::test]
async fn the_short_way_does_only_what_is_its_own() {
    let server = PostgresServer::start();
    let (one, other) = (manager(&server).await, manager(&server).await);
    server.sql("UPDATE lock_core.floor SET swept_at = 'infinity'");
    cycle(&one, "k").await;
    let short = "SELECT lock_core.take_free('k', 'o', '', 'x', 1000000, false) IS NULL";
    let back = |owner: &str| format!("SELECT lock_core.hand_off('k', '{owner}', 's') IS NULL");

    let guard = try_once(&one, "k").await.expect("it is free");
    assert_eq!(server.sql(short), "t", "somebody holds it");
    assert_eq!(server.sql(&back("nobody")), "t", "no such grant");
    server.sql("INSERT INTO lock_core.waiters VALUES ('k', 'w', 1, 'infinity', 1000000, 's', '')");
    assert_eq!(
        server.sql("SELECT lock_core.hand_off(key, owner, 's') IS NULL FROM lock_core.holders"),
        "t",
        "a reader waits"
    );
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
    assert_eq!(server.sql("SELECT owner FROM lock_core.holders"), "w", "it was handed on");
    server.sql("INSERT INTO lock_core.waiters VALUES ('k', 'v', 1, 'infinity', 1000000, 'x', ''); DELETE FROM lock_core.holders");
    assert_eq!(server.sql(short), "t", "one waits for a key without a holder");
    server.sql("DELETE FROM lock_core.waiters");

    let ended = "INSERT INTO lock_core.holders (key, owner, mode, record, expires_at) VALUES ('k', 'e', 'x', '', '-infinity')";
    server.sql(ended);
    assert_eq!(server.sql(&back("e")), "t", "its lease is over");
    assert_eq!(server.sql(short), "t", "a holder that may be verified in a transaction");
    server.sql("UPDATE lock_core.holders SET expires_at = 'infinity', kept = true");
    assert_eq!(server.sql(&back("e")), "t", "it is kept");
    server.sql("DELETE FROM lock_core.holders");

    other.latch("l").set(1).await.expect("it is not set");
    assert_eq!(server.sql(&short.replace("'k'", "'l'")), "t", "a latch");
    let error = try_once(&one, "l").await.expect_err("a latch");
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
    assert_eq!(
        server.sql("SELECT lock_core.take_free('new', 'o', '', 'x', 1, false) IS NULL"),
        "t",
        "no row yet"
    );
    for function in ["attempt('k', 'o', '', 'x', 1, false, NULL, true)", "let_go('k', 'o', 'x')"] {
        let error =
            server.try_sql(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT lock_core.{function}"));
        assert!(error.expect_err("an older snapshot").contains("READ COMMITTED"));
    }
    assert_eq!(server.sql(short), "f", "now it is free");
}

/// The token is created with the grant, and the clock is set back.
#[tokio::test]
async fn tokens_of_the_short_way_grow() {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    cycle(&locks, "k").await;
    server.sql("UPDATE lock_core.keys SET fence = fence + 4000000000000000");
    let mut last = 0;
    for _ in 0..5 {
        let guard = locks.lock("k").ttl(LONG).fencing(true).acquire().await.expect("it is free");
        let token = guard.fencing_token().await.expect("a token").get();
        assert!(token > last && token > 4_000_000_000_000_000, "{token} after {last}");
        last = token;
        guard.release().await.expect("an answer");
    }
}

/// This pooler shares its connections and passes on the settings of a session, so the connect does not detect it.
#[tokio::test]
async fn a_session_that_turns_out_to_be_shared_is_asked_without_prepared_statements() {
    let server = PostgresServer::with(&["track_functions=all"]);
    let locks = manager(&server).await;
    server.sql("UPDATE lock_core.floor SET swept_at = 'infinity'");
    cycle(&locks, "k").await;
    // The next transaction runs in another session of the server.
    server.sql(
        "CREATE FUNCTION lock_core.forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DEALLOCATE ALL; RETURN NULL; END $$; \
         CREATE TRIGGER forget AFTER INSERT ON lock_core.holders FOR EACH STATEMENT EXECUTE FUNCTION lock_core.forget()",
    );
    let guard = try_once(&locks, "k").await.expect("it is free");
    let error = guard.release().await.expect_err("the statement is not there");
    assert!(error.is_temporary() && error.to_string().contains("shares its connections"), "{error}");
    works_again(&locks, "k").await;
    for _ in 0..5 {
        cycle(&locks, "k").await;
    }
    let calls = calls(&server).await;
    assert!(calls("attempts") >= 5, "such a session has no settings to rely on");
}
