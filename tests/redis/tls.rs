//! Locks over TLS, and the reasons why a connection fails.

use std::time::Duration;

use lock_core::{LockError, LockErrorKind, LockManager};
use lock_tests::{Certificates, PATIENCE, RedisServer};

use crate::support::{LONG, connect, cycle, within};

fn url(server: &RedisServer, options: &str) -> String {
    format!("rediss://localhost:{}/{options}", server.tls_port())
}

fn trusting(server: &RedisServer, certificates: &Certificates) -> String {
    url(server, &format!("?ca={}", certificates.file("ca.pem").display()))
}

async fn refused(url: &str) -> LockError {
    within(PATIENCE, "the refusal", LockManager::connect(url)).await.expect_err("no connection")
}

#[tokio::test]
async fn locks_are_handed_over_and_renewed_over_tls() {
    let certificates = Certificates::new(&["localhost"]);
    let server = RedisServer::builder().tls(&certificates, false).start();
    let (one, other) =
        (connect(&trusting(&server, &certificates)).await, connect(&trusting(&server, &certificates)).await);
    cycle(&one, "k").await;
    // The ttl is long enough for a renewal during a handshake on a busy machine.
    let ttl = Duration::from_secs(1);
    let held = one.fair("k").ttl(ttl).acquire().await.expect("free");
    let waiting = tokio::spawn(async move { other.fair("k").ttl(LONG).wait(LONG).acquire().await });
    lock_tests::wait_until("it waits", LONG, async || server.keys().iter().any(|key| key == "{k}:q")).await;
    // This pause is longer than the lease.
    tokio::time::sleep(ttl * 2).await;
    assert!(held.is_held(), "renewed");
    held.release().await.expect("an answer");
    let next = within(LONG, "the hand-over", waiting).await.expect("no panic").expect("handed over");
    next.release().await.expect("an answer");
}

#[tokio::test]
async fn a_server_that_cannot_be_trusted_is_refused() {
    let (certificates, others) = (Certificates::new(&["localhost"]), Certificates::new(&["localhost"]));
    let server = RedisServer::builder().tls(&certificates, false).start();
    // One certificate is of another authority, and one authority is unknown to the system.
    for url in [trusting(&server, &others), url(&server, "")] {
        let error = refused(&url).await;
        let text = error.to_string();
        let trusts_nobody =
            error.kind() == LockErrorKind::InvalidRequest && text.contains("there is no authority");
        let doubts = error.kind() == LockErrorKind::Unavailable && text.contains("TLS failed");
        assert!(doubts || trusts_nobody, "{error}");
        assert!(text.contains("ca=/path/to/ca.pem"), "{error}");
    }
    let elsewhere = Certificates::new(&["elsewhere.example"]);
    let server = RedisServer::builder().tls(&elsewhere, false).start();
    let error = refused(&trusting(&server, &elsewhere)).await;
    assert!(error.to_string().contains("has its certificate this host's name"), "{error}");
}

#[tokio::test]
async fn the_wrong_port_is_an_error_and_no_hang() {
    let certificates = Certificates::new(&["localhost"]);
    let server = RedisServer::builder().tls(&certificates, false).start();
    let plain_to_tls = format!("redis://localhost:{}/?connect_timeout=1s", server.tls_port());
    let error = refused(&plain_to_tls).await;
    assert_eq!(error.kind(), LockErrorKind::Unavailable);
    assert!(error.to_string().contains("`rediss://`"), "{error}");
    let ca = certificates.file("ca.pem");
    let tls_to_plain =
        format!("rediss://localhost:{}/?connect_timeout=1s&ca={}", server.port(), ca.display());
    // The server's reaction depends on the first bytes: it is silent, or sends an invalid answer.
    for _ in 0..3 {
        let error = refused(&tls_to_plain).await;
        assert_eq!(error.kind(), LockErrorKind::Unavailable);
        let text = error.to_string();
        assert!(
            text.contains("TLS failed") && text.contains("does the server speak TLS on this port"),
            "{text}"
        );
    }
}

/// The server accepts connections and sends nothing. The cause is unknown, so the error says how far the connection
/// came.
#[tokio::test]
async fn silence_is_told_from_a_port_that_nobody_answers() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = silent.local_addr().expect("it is bound").port();
    let error = refused(&format!("redis://127.0.0.1:{port}/?connect_timeout=500ms")).await;
    assert!(error.to_string().contains("connected, but no greeting within 500ms"), "{error}");
    let certificates = Certificates::new(&["localhost"]);
    let ca = certificates.file("ca.pem").display().to_string();
    let error = refused(&format!("rediss://127.0.0.1:{port}/?connect_timeout=500ms&ca={ca}")).await;
    assert!(error.to_string().contains("TLS failed (no answer within 500ms)"), "{error}");
    let error = refused(&format!("rediss+cluster://127.0.0.1:{port}/?connect_timeout=500ms&ca={ca}")).await;
    assert!(error.to_string().contains("does the server speak TLS on this port?"), "{error}");
    let error = refused(&format!("rediss+sentinel://127.0.0.1:{port}/m?connect_timeout=500ms&ca={ca}")).await;
    assert!(error.to_string().contains("do they speak TLS on this port?"), "{error}");
    drop(silent);
}

#[tokio::test]
async fn a_server_may_ask_who_comes() {
    let certificates = Certificates::new(&["localhost"]);
    let server = RedisServer::builder().tls(&certificates, true).password("s3cret").start();
    let file = |name| certificates.file(name).display().to_string();
    let (port, ca) = (server.tls_port(), file("ca.pem"));
    let nobody = format!("rediss://:s3cret@localhost:{port}/?ca={ca}");
    let error = refused(&nobody).await;
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
    assert!(!format!("{error:?}").contains("s3cret"));
    let known = format!("{nobody}&cert={}&key={}", file("client.pem"), file("client.key"));
    cycle(&connect(&known).await, "k").await;
    // The certificate does not match the key.
    let mixed = format!("{nobody}&cert={}&key={}", file("client.pem"), file("server.key"));
    let error = refused(&mixed).await;
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
    assert!(error.to_string().contains("do not go together"), "{error}");
}

#[tokio::test]
async fn a_file_that_is_none_is_named() {
    let certificates = Certificates::new(&["localhost"]);
    let file = |name| certificates.file(name).display().to_string();
    let table = [
        ("ca=/nowhere/ca.pem".to_owned(), "/nowhere/ca.pem cannot be read as certificates"),
        (format!("ca={}", file("client.key")), "there is no certificate in"),
        (
            format!("ca={}&cert={}&key={}", file("ca.pem"), file("client.pem"), file("client.pem")),
            "cannot be read as a private key",
        ),
    ];
    for (options, expected) in table {
        let error = refused(&format!("rediss://localhost:1/?{options}")).await;
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{options}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}
