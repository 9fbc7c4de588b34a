//! Sessions that are shared: the server connections of a pooler, and the clients of a pool.

use std::time::Duration;

use lock_core::backend::postgres::migrate;
use lock_core::backend::postgres::tokio_postgres::error::DbError;
use lock_core::backend::postgres::tokio_postgres::{Client, Config, Error, NoTls, SimpleQueryMessage};
use lock_tests::{PATIENCE, PgBouncer, PostgresServer};
use tokio::net::TcpStream;

use crate::opened::{of_pool, pool};

/// Selects the settings of a session, without those that a pooler sets for each client.
const SET: &str = "SELECT coalesce(string_agg(name || '=' || setting, ', ' ORDER BY name), '') \
                   || coalesce(current_setting('lock_migration.search_path', true), '') FROM pg_settings WHERE source = 'session' \
                   AND name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'IntervalStyle', 'TimeZone', \
                   'standard_conforming_strings')";

/// Connects to a pooler as another program, as soon as the pooler has a free slot. A pooler notices a disconnected
/// client late.
pub(crate) async fn other_client(url: &str) -> Client {
    let connected = async {
        loop {
            match try_other_client(url).await {
                Ok(client) => return client,
                Err(error) if error.as_db_error().is_some_and(is_soon_over) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, connected).await.expect("a connection")
}

/// Returns whether the error is that of a full pooler, or of one whose server is slow to start a session.
fn is_soon_over(told: &DbError) -> bool {
    ["no more connections allowed", "client_login_timeout"].iter().any(|words| told.message().contains(words))
}

async fn try_other_client(url: &str) -> Result<Client, Error> {
    let config: Config = url.parse().expect("a URL");
    let at = url.split(['@', '/']).nth(3).expect("host and port");
    let stream = TcpStream::connect(at).await.expect("it listens");
    let (client, connection) = config.connect_raw(stream, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Returns the first column of the first row. Uses the simple protocol, which a shared session also supports.
pub(crate) async fn ask(client: &Client, statement: &str) -> String {
    let answers =
        client.simple_query(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    let row = answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    row.unwrap_or_default()
}

/// Checks that no session of these clients was changed. Each client has a session while its transaction is open.
pub(crate) async fn nothing_is_set(clients: &[&Client]) {
    for client in clients {
        client.simple_query("BEGIN").await.expect("a transaction");
        assert_eq!(ask(client, SET).await, "", "the session belongs to somebody else");
    }
    for client in clients {
        client.simple_query("COMMIT").await.expect("an answer");
    }
}

#[tokio::test]
async fn a_migration_through_a_pooler_leaves_its_connection_as_it_was() {
    let server = PostgresServer::start();
    server.sql("CREATE TABLE orders (id integer)");
    for extra in ["", "ignore_startup_parameters = options"] {
        let pooler = PgBouncer::before(&server, 1, extra);
        let other = other_client(&pooler.url()).await;
        nothing_is_set(&[&other]).await;
        migrate(&pooler.url()).await.expect("the administrator may");
        assert_eq!(ask(&other, "SELECT count(*) FROM orders").await, "0", "names are looked up as before");
        nothing_is_set(&[&other]).await;
    }
}

#[tokio::test]
async fn a_lent_client_comes_back_as_it_was() {
    let server = PostgresServer::start();
    server.sql("CREATE TABLE orders (id integer)");
    let pool = pool(&server, 2);
    let postgres = of_pool(&pool).migrate(true).connect().await.expect("the server takes locks");
    drop(postgres);
    for client in [pool.get().await.expect("a client"), pool.get().await.expect("a client")] {
        assert_eq!(ask(&client, "SELECT count(*) FROM orders").await, "0", "names are looked up as before");
        nothing_is_set(&[&client]).await;
    }
}
