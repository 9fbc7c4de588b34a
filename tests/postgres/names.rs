//! The names that the statements look up: the schema, and functions of other users that match better.

use lock_core::backend::postgres::{migrate, migration};
use lock_core::{LockErrorKind, LockManager};
use lock_tests::PostgresServer;

use crate::support::{LONG, connect, cycle, manager, try_once};

/// The statements that any user may execute who may create objects in `public`: they create a function that the
/// migration uses, and an operator that the functions use.
const FIT_BETTER: &str = "CREATE FUNCTION public.hashtextextended(text, integer) RETURNS bigint LANGUAGE plpgsql AS \
                          'BEGIN RAISE EXCEPTION $$as the administrator$$; END'; \
                          CREATE FUNCTION public.mul(bigint, interval) RETURNS interval LANGUAGE sql AS \
                          'SELECT interval $$-1 hour$$'; \
                          CREATE OPERATOR public.* (LEFTARG = bigint, RIGHTARG = interval, FUNCTION = public.mul)";

#[tokio::test]
async fn functions_and_operators_of_others_are_not_called() {
    let server = PostgresServer::start();
    server.sql(FIT_BETTER);
    migrate(&server.url_of("postgres")).await.expect("none of them is called");
    let (one, other) = (manager(&server).await, manager(&server).await);
    let guard = try_once(&one, "k").await.expect("it is free");
    let error = try_once(&other, "k").await.expect_err("it is held");
    assert_eq!(error.kind(), LockErrorKind::Contended, "{error}");
    guard.release().await.expect("an answer");
}

/// The functions of the common path have no settings of their own. The session sets the search path, whatever its user
/// has set.
#[tokio::test]
async fn the_session_looks_names_up_in_one_place() {
    let server = PostgresServer::start();
    server.sql(&format!("{FIT_BETTER}; ALTER ROLE postgres SET search_path = public, pg_catalog"));
    let (one, other) = (manager(&server).await, manager(&server).await);
    for round in 0..3 {
        let guard = try_once(&one, "k").await.expect("it is free");
        let left = guard.remaining();
        assert!(left > LONG / 2, "{round}: {left:?}");
        let ends = "SELECT min(expires_at) OPERATOR(pg_catalog.>) now() FROM lock_core.holders";
        assert_eq!(server.sql(ends), "t", "{round}: the lease is no hour in the past");
        let error = try_once(&other, "k").await.expect_err("it is held");
        assert_eq!(error.kind(), LockErrorKind::Contended, "{error}");
        guard.release().await.expect("an answer");
    }
}

#[tokio::test]
async fn every_function_that_is_called_from_outside_looks_names_up_in_one_place() {
    const CALLED: &str = "'acquire', 'acquire_all', 'renew', 'release', 'fence', 'downgrade', 'latch', 'list', \
                          'force_release', 'sweep', 'verify', 'raise_floor', \
                          'let_go_with_settings', 'attempts', 'acquire_alls', 'heartbeats'";
    let server = PostgresServer::start();
    migrate(&server.url_of("postgres")).await.expect("the administrator may");
    let fixed = format!(
        "SELECT count(*) FROM pg_proc WHERE pronamespace = 'lock_core'::regnamespace AND proname IN ({CALLED}) \
         AND proconfig @> ARRAY['search_path=pg_catalog, pg_temp']"
    );
    assert_eq!(server.sql(&fixed), CALLED.split(',').count().to_string());
}

#[tokio::test]
async fn a_migration_by_hand_leaves_the_session_as_it_was() {
    let server = PostgresServer::start();
    let text = migration("lock_core").expect("a name");
    assert_eq!(server.sql(&format!("SET search_path = public; {text}; SHOW search_path")), "public");
}

#[tokio::test]
async fn a_schema_may_be_a_word_of_sql() {
    let server = PostgresServer::start();
    for name in ["order", "user", "table"] {
        let url = format!("{}?schema={name}&migrate=true", server.url_of("postgres"));
        let locks = connect(&url).await;
        cycle(&locks, "k").await;
        let guard = locks.fair("k").fencing(true).acquire().await.expect("it is free");
        assert_eq!(locks.locks().await.expect("a list").locks.len(), 1);
        guard.release().await.expect("an answer");
    }
    for name in ["pg_locks", "information_schema", "a;b", "a\"b", "Locks", "1a", ""] {
        let error = migration(name).expect_err(name);
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
    }
    let error = LockManager::connect("postgres://h?schema=pg_locks").await.expect_err("a name of Postgres");
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
}
