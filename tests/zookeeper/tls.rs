//! Locks over TLS, and the reasons why a connection fails.

use std::time::Duration;

use lock_core::LockErrorKind;
use lock_tests::{Certificates, PATIENCE, ZooKeeperServers, wait_until};
use zookeeper_client::Client;

use crate::support::{LONG, connect, connect_for_long, leader, ms, refused, try_once, works_again};

fn trusting(servers: &ZooKeeperServers, host: &str, certificates: &Certificates) -> String {
    let ca = certificates.file("ca.pem");
    format!("{}?session_timeout=6s&ca={}", servers.secure_url(host, "locks"), ca.display())
}

fn certificate(certificates: &Certificates) -> String {
    let file = |name| certificates.file(name).display().to_string();
    format!("&cert={}&key={}", file("client.pem"), file("client.key"))
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_are_handed_over_and_kept_over_tls() {
    let certificates = Certificates::new(&["localhost"]);
    let servers = ZooKeeperServers::builder().tick(ms(1_000)).tls(&certificates, false).start();
    let url = trusting(&servers, "localhost", &certificates).replace("=6s", "=10s");
    let (one, other) = (connect(&url).await, connect(&url).await);
    let held = one.lock("k").ttl(Duration::from_secs(10)).acquire().await.expect("free");
    let token = held.fencing_token().await.expect("a token");
    assert_eq!(try_once(&other, "k").await.expect_err("held").kind(), LockErrorKind::Contended);
    let waiting = tokio::spawn(other.lock("k").ttl(LONG).wait(LONG).acquire());
    wait_until("the other waits", PATIENCE, async || servers.nodes("locks/k") == 2).await;
    // This pause is longer than the lease and the session timeout.
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert!(held.is_held(), "renewed");
    held.release().await.expect("an answer");
    let next = tokio::time::timeout(PATIENCE, waiting).await.expect("in time").expect("no panic");
    let next = next.expect("handed over");
    assert!(next.fencing_token().await.expect("a token") > token);
    next.release().await.expect("an answer");
}

/// A server requests the certificate at two different moments: in the handshake with TLS 1.2, and after it with TLS
/// 1.3.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_shows_its_certificate() {
    let (certificates, others) = (Certificates::new(&["localhost"]), Certificates::new(&["localhost"]));
    for (version, suite) in [
        ("TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
        // By default ZooKeeper 3.8.0 offers no suite of this version.
        ("TLSv1.3", "TLS_AES_128_GCM_SHA256"),
    ] {
        let setting = format!("ssl.protocol={version}\nssl.ciphersuites={suite}");
        let servers = ZooKeeperServers::builder().tls(&certificates, true).setting(&setting).start();
        let bare = trusting(&servers, "localhost", &certificates);
        let error = refused(&bare).await;
        assert_eq!(error.kind(), LockErrorKind::Unavailable, "{version}: {error}");
        let text = error.to_string();
        assert!(text.contains("TLS failed") && text.contains("`cert` and `key`"), "{version}: {error}");
        let text = refused(&format!("{bare}{}", certificate(&others))).await.to_string();
        assert!(text.contains("TLS failed") && text.contains("the authority of this client's"), "{text}");
        let locks = connect(&format!("{bare}{}", certificate(&certificates))).await;
        works_again(&locks, "k").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_trusted_or_speaks_no_tls_is_refused() {
    let (certificates, others) = (Certificates::new(&["localhost"]), Certificates::new(&["localhost"]));
    let servers = ZooKeeperServers::builder().tls(&certificates, false).start();
    let ca = certificates.file("ca.pem");
    let there = servers.secure_url("localhost", "locks");
    let at = |port: u16| format!("zookeepers://localhost:{port}/?connect_timeout=3s&ca={}", ca.display());
    for (url, text, advice) in [
        (trusting(&servers, "localhost", &others), "invalid peer certificate", "`ca=/path/to/ca.pem`"),
        // The system knows none of these authorities.
        (there.clone(), "invalid peer certificate", "`ca=/path/to/ca.pem`"),
        // The certificate contains the name of the host, but not its address.
        (trusting(&servers, "127.0.0.1", &certificates), "name \"127.0.0.1\"", "this host's name?"),
        (at(servers.address(0).port()), "TLS failed", "does the server speak TLS on this port?"),
        (
            format!("{}?connect_timeout=3s", there.replace("zookeepers", "zookeeper")),
            "gives no session",
            "`zookeepers://`",
        ),
        (at(1), "cannot connect", "is the server up?"),
        // The error names the server that accepts connections, not the server that is down.
        (trusting(&servers, "localhost:1,localhost", &others), "invalid peer certificate", "ca="),
    ] {
        let error = refused(&url).await;
        assert_eq!(error.kind(), LockErrorKind::Unavailable);
        let told = error.to_string();
        assert!(error.is_temporary() && told.contains(text) && told.contains(advice), "{url}: {error}");
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let (certificates, others) = (Certificates::new(&["localhost"]), Certificates::new(&["localhost"]));
    let file = |certificates: &Certificates, name| certificates.file(name).display().to_string();
    let (ca, cert) = (file(&certificates, "ca.pem"), file(&certificates, "client.pem"));
    let no_certificate = file(&certificates, "client.key");
    for (options, expected) in [
        ("ca=/none.pem".to_owned(), "/none.pem cannot be read as certificates"),
        (format!("ca={no_certificate}"), &*format!("there is no certificate in {no_certificate}")),
        (format!("ca={ca}&cert={cert}&key=/none.key"), "/none.key cannot be read as a private key"),
        (format!("ca={ca}&cert={cert}&key={cert}"), "client.pem cannot be read as a private key"),
        (format!("ca={ca}&cert={cert}&key={}", file(&others, "client.key")), "`key` of the ZooKeeper URL"),
    ] {
        let error = refused(&format!("zookeepers://localhost/?{options}")).await;
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
        assert!(error.to_string().contains(expected), "{options}: {error}");
    }
}

/// The reverse case: a certificate with an address is valid for that address, and not for a name.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_may_have_an_address() {
    let certificates = Certificates::new(&["127.0.0.1"]);
    let servers = ZooKeeperServers::builder().tls(&certificates, false).start();
    works_again(&connect(&trusting(&servers, "127.0.0.1", &certificates)).await, "k").await;
    let error = refused(&trusting(&servers, "localhost", &certificates)).await;
    assert!(error.to_string().contains("not valid for name \"localhost\""), "{error}");
}

/// The session continues on another server, again with TLS.
#[tokio::test(flavor = "multi_thread")]
async fn the_death_of_the_leader_loses_no_lock_over_tls() {
    let certificates = Certificates::new(&["localhost"]);
    let mut servers =
        ZooKeeperServers::builder().members(3).tick(ms(3_000)).tls(&certificates, false).start();
    let url = trusting(&servers, "localhost", &certificates).replace("=6s", "=60s") + "&timeout=8s";
    let locks = [connect_for_long(&url).await, connect_for_long(&url).await, connect_for_long(&url).await];
    let guard = try_once(&locks[0], "k").await.expect("free");
    let token = guard.fencing_token().await.expect("a token");
    let leader = leader(&servers).await;
    servers.kill9(leader);
    // The followers close all connections when they lose their leader, so each manager reconnects to another server.
    for locks in &locks {
        works_again(locks, "another").await;
    }
    assert!(guard.is_held(), "the session lives");
    assert_eq!(try_once(&locks[1], "k").await.expect_err("held").kind(), LockErrorKind::Contended);
    guard.release().await.expect("an answer");
    let next = try_once(&locks[2], "k").await.expect("free");
    assert!(next.fencing_token().await.expect("a token") > token);
    next.release().await.expect("an answer");
}

/// A running manager also reports what is wrong, and works again after the repair.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_becomes_wrong_is_told() {
    let (certificates, others) = (Certificates::new(&["localhost"]), Certificates::new(&["localhost"]));
    let mut servers = ZooKeeperServers::builder().tls(&certificates, false).start();
    let locks = connect(&(trusting(&servers, "localhost", &certificates) + "&timeout=1s")).await;
    works_again(&locks, "k").await;
    servers.replace_certificates(&others);
    servers.restart(0);
    servers.wait_ready(0);
    let told = async || match try_once(&locks, "k").await {
        Ok(_) => panic!("a server that cannot be trusted"),
        Err(error) => error.to_string().contains("invalid peer certificate"),
    };
    wait_until("the reason is told", PATIENCE, told).await;
    servers.replace_certificates(&certificates);
    servers.restart(0);
    servers.wait_ready(0);
    works_again(&locks, "k").await;
}

/// A client with a certificate is identified by it, in addition to the user of the URL. Both own the nodes.
#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_a_user_with_a_certificate_belong_to_both() {
    let certificates = Certificates::new(&["localhost"]);
    let servers = ZooKeeperServers::builder().tls(&certificates, true).start();
    let place = trusting(&servers, "localhost", &certificates) + &certificate(&certificates);
    let locks = connect(&place.replace("://", "://app:s3cret@")).await;
    works_again(&locks, "k").await;
    let admin = Client::connector().with_auth("digest", b"app:s3cret");
    let admin = admin.connect(&servers.hosts()).await.expect("a client");
    let (acls, _) = admin.get_acl("/locks").await.expect("it may read");
    let schemes: Vec<_> = acls.iter().map(|acl| acl.scheme().to_owned()).collect();
    assert_eq!(schemes.len(), 2, "{schemes:?}");
    assert!(schemes.iter().any(|scheme| scheme == "x509") && schemes.iter().any(|scheme| scheme == "digest"));
    // The certificate alone is sufficient.
    works_again(&connect(&place).await, "k").await;
}
