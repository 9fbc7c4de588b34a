//! A majority over TLS with an ACL user. The password never appears anywhere.

use std::sync::{Arc, Mutex};

use lock_core::backend::redlock::{Voter, VoterOptions};
use lock_core::{LockErrorKind, LockManager, ManagerBuilder};
use lock_tests::{Certificates, PATIENCE, RedisServer, wait_until};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::MAX_TTL;

const SECRET: &str = "s3cret-of-the-test";
/// The permissions that the page of `backend::redlock` lists, and the keys of these tests.
const RULES: &str = "on >s3cret-of-the-test ~* &lock:wake:* +hello +select +info +script|load +time +get +getrange \
    +set +setrange +exists +pttl +pexpire +del +evalsha +subscribe +publish +hget +hset +hdel +hexists +hlen +hgetall \
    +zadd +zrem +zremrangebyscore +zscore +zcard +zrank +zrange +zrevrange +multi +exec +eval +hmget +dbsize";

/// Starts three servers with TLS. Only `app` may use them.
async fn servers(certificates: &Certificates) -> Vec<RedisServer> {
    let start = |_| {
        let server = RedisServer::builder().tls(certificates, false).start();
        let rules = ["ACL", "SETUSER", "app"].into_iter().chain(RULES.split_whitespace());
        server.command(&rules.collect::<Vec<_>>());
        server
    };
    let servers: Vec<RedisServer> = (0..3).map(start).collect();
    let ca = certificates.file("ca.pem");
    let url = |server: &RedisServer| {
        format!("rediss://app:{SECRET}@localhost:{}/?ca={}", server.tls_port(), ca.display())
    };
    let urls: Vec<String> = servers.iter().map(url).collect();
    let options = VoterOptions::new(MAX_TTL);
    Voter::bootstrap_new_cluster(urls.iter().map(String::as_str), options).await.expect("they are empty");
    servers
}

fn url(scheme: &str, user: &str, servers: &[RedisServer], options: &str) -> String {
    let host = |server: &RedisServer| format!("localhost:{}", server.tls_port());
    let hosts: Vec<String> = servers.iter().map(host).collect();
    format!("{scheme}://{user}{}/?max_ttl=3s{options}", hosts.join(","))
}

fn trusting(certificates: &Certificates) -> String {
    format!("&ca={}", certificates.file("ca.pem").display())
}

async fn connect(url: &str) -> LockManager {
    let builder = ManagerBuilder::connect(url).await.expect("three are up");
    builder.ttl(MAX_TTL).build().expect("a ttl that it can hold")
}

#[tokio::test]
async fn a_majority_over_tls_for_a_user_of_its_own() {
    let certificates = Certificates::new(&["localhost"]);
    let mut servers = servers(&certificates).await;
    let url = url("redlocks", &format!("app:{SECRET}@"), &servers, &trusting(&certificates));
    let (here, there) = (connect(&url).await, connect(&url).await);
    let guard = here.lock("order:42").fencing(true).acquire().await.expect("nobody else is there");
    servers[1].kill9();
    assert!(there.lock("order:42").try_acquire().await.expect("an answer").is_none());
    // This pause is longer than the lease.
    tokio::time::sleep(MAX_TTL * 3 / 2).await;
    guard.check().expect("it is renewed");
    let first = guard.fencing_token().await.expect("a token");
    guard.release().await.expect("an answer");
    let next = there.lock("order:42").fencing(true).acquire().await.expect("it was given back");
    assert!(next.fencing_token().await.expect("a token") > first);
    next.release().await.expect("an answer");
}

#[tokio::test]
async fn a_majority_that_cannot_be_trusted_is_refused() {
    let (certificates, others) = (Certificates::new(&["localhost"]), Certificates::new(&["localhost"]));
    let servers = servers(&certificates).await;
    let app = format!("app:{SECRET}@");
    let table = [
        // The cases are a certificate of another authority, no TLS at all, and TLS options on a plain URL.
        (url("redlocks", &app, &servers, &trusting(&others)), LockErrorKind::NoQuorum, "TLS failed"),
        (
            url("redlock", &app, &servers, "&connect_timeout=1s"),
            LockErrorKind::NoQuorum,
            "0 of 3 voters answer",
        ),
        (
            url("redlock", &app, &servers, &trusting(&certificates)),
            LockErrorKind::InvalidRequest,
            "`redlocks://`",
        ),
        (
            url("redlocks", "app:s3cret-of-another@", &servers, &trusting(&certificates)),
            LockErrorKind::Unavailable,
            "wrong user or password",
        ),
    ];
    for (url, kind, text) in table {
        let error = LockManager::connect(&url).await.expect_err(text);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert!(!format!("{error} {error:?} {error:#?}").contains("s3cret"), "{error:?}");
    }
}

/// The log of this thread, as one text.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<String>>);

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.lock().expect("no panic").push_str(&format!("{field}={value:?} "));
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The test covers the first connection, a server that restarts, and a server whose user was deleted.
#[tokio::test]
async fn the_password_is_never_shown() {
    let log = Log::default();
    // With only one subscriber, another test that reaches a call site first disables that call site for all tests.
    let _second = tracing::Dispatch::new(Log::default());
    let _logging = tracing::subscriber::set_default(log.clone());
    let certificates = Certificates::new(&["localhost"]);
    let mut servers = servers(&certificates).await;
    let url = url("redlocks", &format!("app:{SECRET}@"), &servers, &trusting(&certificates));
    servers[2].kill9();
    let locks = connect(&url).await;
    let guard = locks.lock("order:42").acquire().await.expect("two of three");
    // The server restarts without its users, so it refuses every login.
    servers[2].restart();
    servers[1].kill9();
    wait_until("a majority is away", PATIENCE, async || locks.lock("other").try_acquire().await.is_err())
        .await;
    let error = locks.lock("other").try_acquire().await.expect_err("one of three");
    let shown = format!("{locks:?} {locks:#?} {guard:?} {error} {error:?} {error:#?}");
    let shown = format!("{shown} {:?}", guard.release().await);
    let log = log.0.lock().expect("no panic");
    for text in [shown.as_str(), log.as_str()] {
        assert!(!text.contains(SECRET), "{text}");
    }
    assert!(log.contains("a voter is down") && log.contains("did not answer"), "{log}");
}
