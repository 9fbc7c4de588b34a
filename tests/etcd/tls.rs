//! Locks over TLS, and the reasons why a connection fails.

use lock_core::LockErrorKind;
use lock_tests::{Certificates, Etcd, PATIENCE, wait_until};

use crate::support::{LONG, SHORTEST, connect, cycle, refused, try_once};

fn url(etcd: &Etcd, options: &str) -> String {
    format!("etcds://localhost:{}{options}", etcd.port(0))
}

fn trusting(etcd: &Etcd, certificates: &Certificates) -> String {
    url(etcd, &format!("?ca={}", certificates.file("ca.pem").display()))
}

#[tokio::test]
async fn locks_are_handed_over_and_renewed_over_tls() {
    let certificates = Certificates::new(&["localhost"]);
    let etcd = Etcd::builder().tls(&certificates, false).start();
    let url = trusting(&etcd, &certificates);
    let (one, other) = (connect(&url).await, connect(&url).await);
    cycle(&one, "k").await;
    let held = one.fair("k").ttl(SHORTEST).acquire().await.expect("free");
    let waiting = tokio::spawn(other.fair("k").ttl(LONG).wait(LONG).acquire());
    let line = async || one.inspect("k").await.expect("an answer").is_some_and(|lock| lock.waiting == 1);
    wait_until("it waits", PATIENCE, line).await;
    // This pause is longer than the lease.
    tokio::time::sleep(SHORTEST * 2).await;
    assert!(held.is_held(), "renewed");
    held.release().await.expect("an answer");
    let next = tokio::time::timeout(PATIENCE, waiting).await.expect("in time").expect("no panic");
    next.expect("handed over").release().await.expect("an answer");
}

/// etcd 3.4.21, 3.5.4 and earlier allow 250 streams over TLS. Each waiting claim uses one stream.
#[tokio::test]
async fn many_who_wait_leave_room_for_other_calls() {
    const STREAMS: usize = 8;
    let certificates = Certificates::new(&["localhost"]);
    let limit = format!("--max-concurrent-streams={STREAMS}");
    let etcd = Etcd::builder().tls(&certificates, false).argument(&limit).start();
    let url = trusting(&etcd, &certificates);
    let (locks, others) = (connect(&url).await, connect(&url).await);
    let keys: Vec<String> = (0..STREAMS * 2).map(|at| format!("k{at}")).collect();
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for key in &keys {
        held.push(try_once(&locks, key).await.expect("free"));
        waiting.push(tokio::spawn(locks.fair(key.as_str()).ttl(LONG).wait(LONG).acquire()));
    }
    for key in &keys {
        let waits = async || {
            others.inspect(key.as_str()).await.expect("an answer").is_some_and(|lock| lock.waiting == 1)
        };
        wait_until("it waits", PATIENCE, waits).await;
    }
    for _ in 0..10 {
        cycle(&locks, "other").await;
    }
    for guard in held {
        guard.release().await.expect("an answer");
    }
    for waiting in waiting {
        let next = tokio::time::timeout(PATIENCE, waiting).await.expect("in time").expect("no panic");
        next.expect("handed over").release().await.expect("an answer");
    }
}

#[tokio::test]
async fn a_client_shows_its_certificate() {
    let certificates = Certificates::new(&["localhost"]);
    let etcd = Etcd::builder().tls(&certificates, true).start();
    let file = |name| certificates.file(name).display().to_string();
    let bare = trusting(&etcd, &certificates);
    let error = refused(&format!("{bare}&connect_timeout=2s")).await;
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("`cert` and `key`"), "{error}");
    let locks = connect(&format!("{bare}&cert={}&key={}", file("client.pem"), file("client.key"))).await;
    cycle(&locks, "k").await;
}

#[tokio::test]
async fn a_server_that_cannot_be_trusted_or_speaks_no_tls_is_refused() {
    let (certificates, others) = (Certificates::new(&["localhost"]), Certificates::new(&["localhost"]));
    let etcd = Etcd::builder().tls(&certificates, false).start();
    let plain = Etcd::start();
    for (url, text) in [
        (trusting(&etcd, &others), "TLS failed"),
        (trusting(&plain, &certificates), "TLS failed"),
        (format!("etcd://localhost:{}?connect_timeout=1s", etcd.port(0)), "`etcds://`"),
        ("etcd://127.0.0.1:1?connect_timeout=1s".to_owned(), "is the server up?"),
    ] {
        let error = refused(&url).await;
        assert_eq!(error.kind(), LockErrorKind::Unavailable);
        assert!(error.to_string().contains(text), "{url}: {error}");
    }
}
