//! Locks over TLS, and the reasons why a connection fails.

use lock_core::{LockErrorKind, LockManager};
use lock_tests::{Certificates, PostgresServer};

use crate::support::{connect, cycle};

fn url(server: &PostgresServer, options: &str) -> String {
    format!("postgres://postgres@localhost:{}/postgres?migrate=true{options}", server.address().port())
}

#[tokio::test]
async fn locks_are_taken_over_tls() {
    let certificates = Certificates::new(&["localhost"]);
    let server = PostgresServer::with_tls(&certificates);
    let ca = certificates.file("ca.pem");
    let locks = connect(&url(&server, &format!("&sslmode=verify-full&ca={}", ca.display()))).await;
    cycle(&locks, "k").await;
    let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE application_name = 'lock-core'";
    assert_eq!(server.sql(encrypted), "t");
    // Without this parameter, the connection does not use TLS.
    cycle(&connect(&url(&server, "")).await, "k").await;
}

/// As in libpq, the client uses TLS if it works, and otherwise a plain connection.
#[tokio::test]
async fn with_prefer_tls_that_fails_is_none() {
    let (certificates, others) = (Certificates::new(&["localhost"]), Certificates::new(&["localhost"]));
    let (secure, plain) = (PostgresServer::with_tls(&certificates), PostgresServer::start());
    let (ca, unknown) = (certificates.file("ca.pem"), others.file("ca.pem"));
    for (server, ca, encrypted) in [(&secure, &ca, "t"), (&secure, &unknown, "f"), (&plain, &ca, "f")] {
        let name = format!("ca-{encrypted}-{}", server.address().port());
        let options = format!("&sslmode=prefer&ca={}&application_name={name}", ca.display());
        let locks = connect(&url(server, &options)).await;
        cycle(&locks, "k").await;
        let uses_it = format!(
            "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = '{name}'"
        );
        assert_eq!(server.sql(&uses_it), encrypted, "{name}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_trusted_is_refused() {
    let (certificates, others) = (Certificates::new(&["localhost"]), Certificates::new(&["localhost"]));
    let server = PostgresServer::with_tls(&certificates);
    let ca = others.file("ca.pem");
    let error = LockManager::connect(&url(&server, &format!("&sslmode=require&ca={}", ca.display()))).await;
    let error = error.expect_err("another authority");
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("TLS failed"), "{error}");
    let elsewhere = Certificates::new(&["elsewhere.example"]);
    let server = PostgresServer::with_tls(&elsewhere);
    let ca = elsewhere.file("ca.pem");
    let error =
        LockManager::connect(&url(&server, &format!("&sslmode=verify-full&ca={}", ca.display()))).await;
    assert!(error.expect_err("another name").to_string().contains("this host's name"));
}
