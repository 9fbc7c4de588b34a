//! A pooler that keeps one server connection for each client (`pooling=session`), and a full pooler.

use lock_core::backend::Backend;
use lock_core::backend::postgres::{Postgres, migrate};
use lock_core::{LockErrorKind, LockManager};
use lock_tests::{Certificates, PgBouncer, PostgresServer};

use crate::contract::keeps_the_contract;
use crate::sessions::{nothing_is_set, other_client};
use crate::support::{LONG, connect, cycle, ms, try_once, works_again};

const SESSION: &str = "pool_mode = session";

async fn pooled(size: u32, extra: &str) -> (PostgresServer, PgBouncer) {
    let server = PostgresServer::start();
    migrate(&server.url_of("postgres")).await.expect("the administrator may");
    let pooler = PgBouncer::before(&server, size, extra);
    (server, pooler)
}

#[tokio::test]
async fn a_pooler_of_sessions_keeps_the_whole_contract() {
    for extra in [SESSION, "pool_mode = session\nignore_startup_parameters = options"] {
        let (_server, pooler) = pooled(20, extra).await;
        let url = format!("{}?pooling=session&timeout=10s", pooler.url());
        let postgres = Postgres::connect(&url).await.expect("it takes locks");
        assert!(postgres.capability().waiting.tells_holder(), "notifications arrive");
        drop(postgres);
        if extra == SESSION {
            keeps_the_contract(&url, &[]).await;
        }
    }
}

/// The pooler resets a session before the next client gets it.
#[tokio::test]
async fn a_lock_that_lingers_works_over_a_pooler_of_sessions_and_nothing_is_left() {
    let (server, pooler) = pooled(8, SESSION).await;
    let locks = connect(&format!("{}?pooling=session&timeout=10s", pooler.url())).await;
    let guard = locks.lock("k").linger(ms(5)).acquire().await.expect("notifications arrive");
    guard.release().await.expect("an answer");
    let prepared = "SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND application_name = 'lock-core'";
    assert_eq!(server.sql(prepared), "t");
    locks.shutdown(LONG).await;
    drop(locks);
    let mut others = Vec::new();
    for _ in 0..4 {
        others.push(other_client(&pooler.url()).await);
    }
    nothing_is_set(&others.iter().collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn advisory_locks_work_over_a_pooler_of_sessions() {
    let (server, pooler) = pooled(8, SESSION).await;
    let url = format!("{}?mode=advisory&session_timeout=5s", pooler.url());
    let error = LockManager::connect(&url).await.expect_err("its mode is not known");
    assert!(error.to_string().contains("pooling=session"), "{error}");
    let url = format!("{url}&pooling=session");
    let (one, other) = (connect(&url).await, connect(&url).await);
    let guard = one.lock("k").ttl(LONG).acquire().await.expect("it is free");
    try_once(&other, "k").await.expect_err("it is held by another session");
    let direct = connect(&format!("{}?mode=advisory", server.url_of("postgres"))).await;
    try_once(&direct, "k").await.expect_err("the pooler's session is one of the server");
    drop(guard);
    works_again(&other, "k").await;
    let guard = one.lock("k").ttl(LONG).acquire().await.expect("it is free");
    one.shutdown(ms(0)).await;
    drop((guard, one));
    works_again(&direct, "k").await;
}

#[tokio::test]
async fn a_pooler_of_transactions_is_recognised_before_anything_is_set() {
    for extra in ["", "server_round_robin = 1", "ignore_startup_parameters = options"] {
        for size in [1, 3] {
            let (_server, pooler) = pooled(size, extra).await;
            // All connections of the pool are open and idle.
            let mut others = Vec::new();
            for _ in 0..size {
                others.push(other_client(&pooler.url()).await);
            }
            nothing_is_set(&others.iter().collect::<Vec<_>>()).await;
            for mode in ["leases", "advisory"] {
                let error =
                    LockManager::connect(&format!("{}?pooling=session&mode={mode}", pooler.url())).await;
                let error = error.expect_err("it shares its connections");
                assert_eq!(error.kind(), LockErrorKind::Unsupported, "{error}");
                assert!(error.to_string().contains("set `pool_mode = session`"), "{error}");
            }
            nothing_is_set(&others.iter().collect::<Vec<_>>()).await;
        }
    }
}

#[tokio::test]
async fn a_pooler_with_one_connection_is_reported() {
    let (_server, pooler) = pooled(1, SESSION).await;
    let url = format!("{}?pooling=session&connect_timeout=20s", pooler.url());
    let error = LockManager::connect(&url).await.expect_err("there is no second connection");
    assert!(error.to_string().contains("default_pool_size"), "{error}");
}

#[tokio::test]
async fn a_server_without_a_pooler_takes_the_option() {
    let server = PostgresServer::start();
    let locks = connect(&format!("{}&pooling=session", server.url())).await;
    cycle(&locks, "k").await;
}

/// The pooler sends its error before or after the login, with TLS and without.
#[tokio::test]
async fn a_full_pooler_is_reported_in_its_own_words() {
    let server = PostgresServer::start();
    let certificates = Certificates::new(&["localhost"]);
    // If a client refuses its certificate, as `prefer` does here, PgBouncer 1.18 may keep the connection for the whole
    // login timeout. The default timeout is 60 s.
    let full = "max_client_conn = 1\nclient_login_timeout = 2";
    let (plain, tls) =
        (PgBouncer::before(&server, 2, full), PgBouncer::with_tls(&certificates, &server, 2, full));
    let ca = certificates.file("ca.pem");
    let trusted = format!("require&ca={}", ca.display());
    for (pooler, mode) in [
        (&plain, "disable"),
        (&plain, "prefer"),
        (&tls, "disable"),
        (&tls, "prefer"),
        (&tls, trusted.as_str()),
    ] {
        let _first = other_client(&pooler.url()).await;
        let url = pooler.url().replace("127.0.0.1", "localhost");
        let url = format!("{url}?sslmode={mode}&connect_timeout=5s");
        let error = LockManager::connect(&url).await.expect_err("it is full");
        assert!(error.to_string().contains("no more connections allowed"), "{mode}: {error}");
    }
}
