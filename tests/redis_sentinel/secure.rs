//! Sentinels, a primary and a replica over TLS.

use lock_core::{LockErrorKind, LockManager};
use lock_tests::{Certificates, PATIENCE, Sentinels};
use tokio::time::timeout;

use crate::{LONG, locked, replicated};

fn url(sentinels: &Sentinels, certificates: &Certificates, user: &str) -> String {
    let ca = certificates.file("ca.pem");
    format!("rediss+sentinel://{user}{}/mymaster?ca={}", sentinels.secure_hosts(), ca.display())
}

#[tokio::test]
async fn a_failover_is_followed_over_tls() {
    let certificates = Certificates::new(&["127.0.0.1"]);
    let mut sentinels = Sentinels::start_secure(&certificates);
    for server in [&sentinels.primary, sentinels.replica.server()] {
        server.command(&["ACL", "SETUSER", "app", "on", ">s3cret", "~*", "&*", "+@all"]);
    }
    let url = url(&sentinels, &certificates, "app:s3cret@");
    // The release happens directly after the failover, when the new connections are still being made.
    let patient = format!("{url}&timeout=5s");
    let (holder, other) = (
        LockManager::connect(&patient).await.expect("trusted"),
        LockManager::connect(&url).await.expect("trusted"),
    );
    let guard = holder.lock("job").ttl(LONG).acquire().await.expect("free");
    // All connections log in as `app`, and all of them use TLS.
    let clients: String = sentinels.primary.get(&["CLIENT", "LIST", "TYPE", "NORMAL"]);
    let mine = clients.lines().filter(|client| client.contains(" user=app "));
    let at = format!(" laddr=127.0.0.1:{} ", sentinels.primary.tls_port());
    assert!(mine.clone().count() >= 2 && mine.clone().all(|client| client.contains(&at)), "{clients}");
    replicated(&sentinels, "job").await;
    sentinels.primary.kill9();
    let next = locked(&other, "next").await;
    assert!(sentinels.replica.server().keys().contains(&"next".to_owned()));
    assert!(other.lock("job").try_acquire().await.expect("an answer").is_none(), "it is held there too");
    guard.release().await.expect("the new primary answers");
    next.release().await.expect("an answer");
}

#[tokio::test]
async fn sentinels_that_cannot_be_trusted_are_not_asked() {
    let (certificates, others) = (Certificates::new(&["127.0.0.1"]), Certificates::new(&["127.0.0.1"]));
    let sentinels = Sentinels::start_secure(&certificates);
    let url_of_others = format!("{}&connect_timeout=10m", url(&sentinels, &others, "app:s3cret@"));
    let refused = timeout(PATIENCE, LockManager::connect(&url_of_others)).await;
    // The error is permanent, because a retry cannot help.
    let error = refused.expect("it is told at once").expect_err("a stranger");
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("TLS failed") && !error.to_string().contains("tried"), "{error}");
    // The library does not fall back to an unencrypted connection either.
    let plain =
        url(&sentinels, &certificates, "").replace("rediss", "redis").replace("?ca", "?timeout=1s&ca");
    let error = LockManager::connect(&plain).await.expect_err("options of a secure URL");
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
    let plain = format!("{}?connect_timeout=1s", plain.split("?").next().expect("a URL"));
    let error = LockManager::connect(&plain).await.expect_err("a TLS port");
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
    assert!(!format!("{error:?}").contains("s3cret"));
}
