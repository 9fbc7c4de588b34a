//! The proxy holds data back, loses it, delays it, cuts connections and refuses them.

use std::time::Duration;

use lock_tests::{Bound, Flow, Proxy, RedisServer, wait_until};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};

/// The time that a test waits for an answer that never arrives.
const SHORT: Duration = Duration::from_millis(100);
/// The time that a test waits for an answer that arrives, even on a busy machine.
const LONG: Duration = Duration::from_secs(10);

async fn connect(proxy: &Proxy) -> RedisResult<MultiplexedConnection> {
    let config =
        AsyncConnectionConfig::new().set_response_timeout(Some(LONG)).set_connection_timeout(Some(LONG));
    redis::Client::open(proxy.url())?.get_multiplexed_async_connection_with_config(&config).await
}

async fn set(connection: &mut MultiplexedConnection, key: &str) -> RedisResult<()> {
    redis::cmd("SET").arg(key).arg(1).query_async(connection).await
}

async fn set_up() -> (RedisServer, Proxy, MultiplexedConnection) {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let connection = connect(&proxy).await.expect("the proxy passes");
    (server, proxy, connection)
}

#[tokio::test]
async fn what_is_not_disturbed_passes_and_is_counted() {
    let (server, proxy, mut connection) = set_up().await;
    set(&mut connection, "key").await.expect("the proxy passes");
    assert_eq!(server.keys(), ["key"]);
    let traffic = proxy.traffic();
    assert_eq!((traffic.opened, traffic.open), (1, 1));
    assert_eq!(traffic.requests.seen, traffic.requests.passed);
    assert!(traffic.requests.passed > 0 && traffic.replies.seen > 0);
    assert_eq!((traffic.requests.held, traffic.requests.swallowed), (0, 0));
    drop(connection);
    proxy.until("the connection is closed", |traffic| traffic.open == 0).await;
}

#[tokio::test]
async fn a_held_request_runs_late_also_when_its_client_has_gone() {
    let (server, proxy, mut connection) = set_up().await;
    connection.set_response_timeout(SHORT);
    proxy.requests(Flow::Hold);
    let answer = set(&mut connection, "late").await;
    assert!(answer.is_err_and(|error| error.is_timeout()));
    proxy.until("the request waits", |traffic| traffic.requests.held > 0).await;
    drop(connection);
    assert!(server.keys().is_empty());
    proxy.heal();
    wait_until("the request runs", LONG, async || server.keys() == ["late"]).await;
}

#[tokio::test]
async fn a_held_reply_comes_late() {
    let (server, proxy, mut connection) = set_up().await;
    let before =
        proxy.until("all is delivered", |traffic| traffic.replies.passed == traffic.replies.seen).await;
    proxy.replies(Flow::Hold);
    let call =
        tokio::spawn(async move { redis::cmd("INCR").arg("n").query_async::<i64>(&mut connection).await });
    proxy.until("the reply waits", |traffic| traffic.replies.held > 0).await;
    assert_eq!(server.keys(), ["n"]);
    assert_eq!(proxy.traffic().replies.passed, before.replies.passed);
    assert!(!call.is_finished());
    proxy.replies(Flow::Pass);
    assert_eq!(call.await.expect("no panic").expect("the reply"), 1);
}

#[tokio::test]
async fn a_swallowed_request_never_runs() {
    let (server, proxy, mut connection) = set_up().await;
    connection.set_response_timeout(SHORT);
    proxy.requests(Flow::Swallow);
    assert!(set(&mut connection, "lost").await.is_err_and(|error| error.is_timeout()));
    // The request may reach the proxy late.
    proxy.until("the request is lost", |traffic| traffic.requests.swallowed > 0).await;
    proxy.heal();
    // This needs another connection. On the old one, the client would take the next answer for the missing one.
    let mut connection = connect(&proxy).await.expect("the proxy passes");
    set(&mut connection, "next").await.expect("the proxy passes");
    assert_eq!(server.keys(), ["next"]);
}

#[tokio::test]
async fn a_swallowed_reply_leaves_the_request_done() {
    let (server, proxy, mut connection) = set_up().await;
    connection.set_response_timeout(SHORT);
    proxy.replies(Flow::Swallow);
    assert!(set(&mut connection, "done").await.is_err_and(|error| error.is_timeout()));
    proxy.until("the reply is lost", |traffic| traffic.replies.swallowed > 0).await;
    assert_eq!(server.keys(), ["done"]);
}

#[tokio::test]
async fn a_cut_resets_open_connections_and_lets_new_ones_in() {
    let (_server, proxy, mut connection) = set_up().await;
    proxy.cut();
    proxy.until("the connection is gone", |traffic| traffic.open == 0).await;
    assert!(set(&mut connection, "key").await.is_err_and(|error| error.is_connection_dropped()));
    let mut connection = connect(&proxy).await.expect("new connections are let in");
    set(&mut connection, "key").await.expect("the proxy passes");
}

#[test]
fn a_cut_is_an_rst_and_no_ordinary_end() {
    use std::io::Read;
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", proxy.port())).expect("the proxy listens");
    stream.set_read_timeout(Some(LONG)).expect("a timeout");
    // The proxy can only cut a connection that has reached the server.
    std::io::Write::write_all(&mut stream, b"PING\r\n").expect("the proxy reads");
    stream.read_exact(&mut [0; 7]).expect("the answer");
    proxy.cut();
    let end = stream.read(&mut [0]).expect_err("a reset");
    assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_cut_loses_what_is_held() {
    let (server, proxy, mut connection) = set_up().await;
    proxy.requests(Flow::Hold);
    let call = tokio::spawn(async move { set(&mut connection, "lost").await });
    proxy.until("the request waits", |traffic| traffic.requests.held > 0).await;
    proxy.cut();
    assert!(call.await.expect("no panic").is_err());
    proxy.until("the connection is gone", |traffic| traffic.open == 0).await;
    proxy.heal();
    let mut connection = connect(&proxy).await.expect("new connections are let in");
    set(&mut connection, "next").await.expect("the proxy passes");
    assert_eq!(server.keys(), ["next"]);
}

#[tokio::test]
async fn refusing_turns_new_connections_away_and_keeps_open_ones() {
    let (_server, proxy, mut connection) = set_up().await;
    proxy.refuse(true);
    wait_until("a connection is refused", LONG, async || {
        connect(&proxy).await.is_err_and(|error| error.is_connection_refusal())
    })
    .await;
    set(&mut connection, "key").await.expect("an open connection stays");
    proxy.refuse(false);
    wait_until("a connection is accepted", LONG, async || connect(&proxy).await.is_ok()).await;
}

#[tokio::test]
async fn a_delay_is_paid_each_way() {
    let (_server, proxy, mut connection) = set_up().await;
    proxy.delay(Duration::from_millis(30));
    let bound = Bound::new(LONG);
    set(&mut connection, "key").await.expect("a delay loses nothing");
    assert!(bound.elapsed() >= Duration::from_millis(60), "took {:?}", bound.elapsed());
}

#[tokio::test]
async fn a_proxy_survives_the_restart_of_its_server() {
    let (mut server, proxy, mut connection) = set_up().await;
    server.kill9();
    assert!(set(&mut connection, "key").await.is_err());
    assert!(connect(&proxy).await.is_err());
    server.restart();
    let mut connection = connect(&proxy).await.expect("the server is back");
    set(&mut connection, "key").await.expect("the server is back");
}

#[test]
fn a_proxy_works_while_the_test_blocks_its_own_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let server = RedisServer::start();
    let proxy = runtime.block_on(async { Proxy::before(&server) });
    runtime.block_on(async {
        // The call blocks the only thread of this runtime.
        let mut connection =
            redis::Client::open(proxy.url()).expect("a URL").get_connection().expect("a connection");
        let answer: String = redis::cmd("PING").query(&mut connection).expect("an answer");
        assert_eq!(answer, "PONG");
    });
}
