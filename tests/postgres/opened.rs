//! Stores from settings of the driver, from a pool, and over connections that the application opens.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use deadpool_postgres::{Manager, Pool, PoolError};
use lock_core::backend::Backend;
use lock_core::backend::postgres::tokio_postgres::{self, Config, NoTls, config::SslMode};
use lock_core::backend::postgres::{OpenConnection, Postgres, PostgresBuilder, migrate};
use lock_core::{LockErrorKind, LockManager, Released};
use lock_tests::PostgresServer;
use tokio::net::TcpStream;

use crate::contract::keeps_it;
use crate::sessions::nothing_is_set;
use crate::support::{LONG, cycle, ms, try_once, works_again};

fn settings(server: &PostgresServer) -> Config {
    let mut config = Config::new();
    config.host(server.address().ip().to_string()).port(server.address().port());
    config.user("postgres").dbname("postgres");
    config
}

pub(crate) fn pool(server: &PostgresServer, size: usize) -> Pool {
    let pool = Pool::builder(Manager::new(settings(server), NoTls)).max_size(size);
    pool.build().expect("a pool")
}

pub(crate) fn of_pool(pool: &Pool) -> PostgresBuilder {
    let pool = pool.clone();
    Postgres::from_config(Config::new()).open_with(move |_| {
        let pool = pool.clone();
        async move { Ok(OpenConnection::lent(pool.get().await?, |lent| lent)) }
    })
}

/// Opens connections as a connector of the application does.
async fn open(
    config: Config,
    at: std::net::SocketAddr,
) -> Result<OpenConnection, Box<dyn std::error::Error + Send + Sync>> {
    let (client, connection) = config.connect_raw(TcpStream::connect(at).await?, NoTls).await?;
    Ok(OpenConnection::new(client, connection))
}

fn manager(postgres: Postgres) -> LockManager {
    LockManager::builder(postgres).build().expect("valid defaults")
}

#[tokio::test]
async fn settings_of_the_driver_are_as_good_as_a_url() {
    let server = PostgresServer::start();
    let postgres = Postgres::from_config(settings(&server)).schema("mine").migrate(true).connect().await;
    let postgres = postgres.expect("the server takes locks");
    assert!(postgres.capability().waiting.tells_holder());
    cycle(&manager(postgres), "k").await;
    assert_eq!(server.sql("SELECT count(*) FROM mine.keys"), "1");
    let missing = Postgres::from_config(settings(&server)).connect().await.expect_err("no tables");
    assert!(missing.to_string().contains("migrate(url)"), "{missing}");
    let error = Postgres::from_config(settings(&server)).schema("Mine").connect().await.expect_err("no name");
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
}

#[tokio::test]
async fn clients_of_a_pool_keep_the_contract() {
    let server = PostgresServer::start();
    let pool = pool(&server, 4);
    let postgres = of_pool(&pool)
        .migrate(true)
        .listen_with(settings(&server))
        .timeout(std::time::Duration::from_secs(10))
        .connect()
        .await;
    let postgres = postgres.expect("the server takes locks");
    assert!(postgres.capability().waiting.tells_holder(), "past the pool");
    keeps_it(postgres, &[]).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(pool.get().await.expect("it comes back"));
    }
    nothing_is_set(&clients.iter().map(|client| &***client).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn a_pool_alone_tells_nothing_and_gets_its_clients_back() {
    let server = PostgresServer::start();
    let pool = pool(&server, 3);
    let postgres = of_pool(&pool).migrate(true).connect().await.expect("the server takes locks");
    assert!(!postgres.capability().waiting.tells_holder(), "nobody hears notifications");
    let locks = manager(postgres);
    let guard = try_once(&locks, "k").await.expect("it is free");
    assert!((1..=2).contains(&lent(&pool)), "one for this runtime, one for renewals: {}", lent(&pool));
    server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = 'postgres'");
    works_again(&locks, "other").await;
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
    locks.shutdown(LONG).await;
    drop(locks);
    lock_tests::wait_until("the pool has its clients", LONG, async || lent(&pool) == 0).await;
}

fn lent(pool: &Pool) -> usize {
    pool.status().size - pool.status().available
}

#[tokio::test]
async fn an_empty_pool_makes_nobody_hang() {
    let server = PostgresServer::start();
    migrate(&server.url()).await.expect("the administrator may");
    let pool = pool(&server, 1);
    let taken = pool.get().await.expect("a client");
    let mut config = Config::new();
    config.connect_timeout(ms(300));
    let of_pool = |pool: Pool| {
        Postgres::from_config(config.clone()).open_with(move |_| {
            let pool = pool.clone();
            async move { Ok(OpenConnection::lent(pool.get().await?, |lent| lent)) }
        })
    };
    let error = of_pool(pool.clone()).connect().await.expect_err("the pool is empty");
    assert!(
        error.is_temporary() && error.to_string().contains("opened no connection within 300ms"),
        "{error}"
    );
    drop(taken);
    pool.close();
    let error = of_pool(pool).connect().await.expect_err("the pool is closed");
    assert!(error.to_string().contains(&PoolError::Closed.to_string()), "{error}");
}

/// The password changes. Each connection is opened with the current password.
#[tokio::test]
async fn a_connector_of_the_application_is_asked_for_each_connection() {
    let server = PostgresServer::start();
    migrate(&server.url()).await.expect("the administrator may");
    let user = PostgresServer::WITH_PASSWORD;
    server.sql(&format!("CREATE ROLE {user} LOGIN SUPERUSER PASSWORD 'first'"));
    let mut config = Config::new();
    config.user(user).dbname("postgres").ssl_mode(SslMode::Disable);
    let (password, asked) = (Arc::new(Mutex::new("wrong")), Arc::<AtomicUsize>::default());
    let connector = {
        let (at, password, asked) = (server.address(), Arc::clone(&password), Arc::clone(&asked));
        move |mut config: Config| {
            asked.fetch_add(1, Ordering::SeqCst);
            config.password(*password.lock().expect("no panic"));
            open(config, at)
        }
    };
    let builder = || Postgres::from_config(config.clone()).open_with(connector.clone());
    let error = builder().connect().await.expect_err("the password is wrong");
    assert!(
        !error.is_temporary() && error.to_string().contains("refuses the user or the password"),
        "{error}"
    );

    *password.lock().expect("no panic") = "first";
    let postgres = builder().connect().await.expect("the server takes locks");
    assert!(postgres.capability().waiting.tells_holder(), "the options of the session were passed on");
    let locks = manager(postgres);
    cycle(&locks, "k").await;
    let before = asked.load(Ordering::SeqCst);
    server.sql(&format!("ALTER ROLE {user} PASSWORD 'second'"));
    *password.lock().expect("no panic") = "second";
    server.sql(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{user}'"));
    works_again(&locks, "k").await;
    assert!(asked.load(Ordering::SeqCst) > before);
}

#[tokio::test]
async fn what_the_application_says_is_told() {
    let mut config = Config::new();
    config.connect_timeout(ms(300));
    let postgres = Postgres::from_config(config).open_with(|_| async { Err("no token today".into()) });
    let error = postgres.connect().await.expect_err("it opens nothing");
    assert!(error.is_temporary() && error.to_string().contains("no token today"), "{error}");
    assert!(error.to_string().contains("a connection of the application"), "{error}");
    let nowhere = Postgres::from_config(tokio_postgres::Config::new()).connect().await.expect_err("no host");
    assert_eq!(nowhere.kind(), LockErrorKind::InvalidRequest, "{nowhere}");
}
