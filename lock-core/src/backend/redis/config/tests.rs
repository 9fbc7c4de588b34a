//! Tests of valid and invalid URLs.

#[cfg(feature = "tls")]
use std::path::PathBuf;
use std::time::Duration;

use super::durability::{Durability, MinReplicas};
use super::*;
#[cfg(feature = "tls")]
use crate::backend::remote::TlsFiles;
use crate::backend::remote::tries::CONNECT_TIMEOUT;
use crate::error::LockErrorKind;

fn parsed(url: &str) -> Config {
    Config::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

#[test]
fn every_part_of_a_url_is_read() {
    let table: &[(&str, &str, i64, Option<&str>, Option<&str>)] = &[
        ("redis://localhost", "localhost:6379", 0, None, None),
        ("redis://127.0.0.1:7000/", "127.0.0.1:7000", 0, None, None),
        ("redis://[::1]", "[::1]:6379", 0, None, None),
        ("redis://[::1]:7000/3", "[::1]:7000", 3, None, None),
        ("redis://:s3cret@h/2", "h:6379", 2, None, Some("s3cret")),
        ("redis://app:s%40c%2Fr%3Ft@h", "h:6379", 0, Some("app"), Some("s@c/r?t")),
        ("redis://app:p@ss:word@h", "h:6379", 0, Some("app"), Some("p@ss:word")),
        ("redis+sentinel://a,b:1/m", "m (by the sentinels a:26379, b:1)", 0, None, None),
        (
            "redis+sentinel://app:s3cret@a/m/3?sentinel_password=x",
            "m (by the sentinels a:26379)",
            3,
            Some("app"),
            Some("s3cret"),
        ),
        ("redis+cluster://a,[::1]:7001,b:1/", "the cluster of a:6379, [::1]:7001, b:1", 0, None, None),
        ("redis+cluster://app:s3cret@a/0", "the cluster of a:6379", 0, Some("app"), Some("s3cret")),
        ("unix:///run/redis.sock", "/run/redis.sock", 0, None, None),
        ("unix://app:s3cret@/run/redis.sock?db=4", "/run/redis.sock", 4, Some("app"), Some("s3cret")),
    ];
    for (url, address, db, user, password) in table {
        let config = parsed(url);
        assert_eq!(config.address.to_string(), *address, "{url}");
        assert_eq!(config.db, *db, "{url}");
        assert_eq!(config.user.as_deref(), *user, "{url}");
        assert_eq!(config.password.as_deref(), *password, "{url}");
    }
}

#[test]
fn options_are_durations() {
    let config = parsed("redis://h/?connect_timeout=3s&timeout=250ms");
    assert_eq!(
        (config.connect_timeout, config.timeout),
        (Duration::from_secs(3), Duration::from_millis(250))
    );
    let config = parsed("redis://h");
    assert_eq!((config.connect_timeout, config.timeout), (CONNECT_TIMEOUT, Config::CALL_TIMEOUT));
}

#[test]
fn durability_is_read_wherever_a_primary_can_have_replicas() {
    let replicas = Some(Durability::Replicas(2));
    for url in [
        "redis://h?durability=replicas(2)",
        "redis://h/1?timeout=1s&durability=replicas%282%29",
        "unix:///run/redis.sock?durability=replicas(2)",
        "redis+sentinel://a,b/m?durability=replicas(2)",
        "redis+cluster://a,b?durability=replicas(2)",
    ] {
        let config = parsed(url);
        assert_eq!((config.durability, config.min_replicas), (replicas, MinReplicas::Read), "{url}");
    }
    let config = parsed("redis://h?min_replicas=assumed&durability=aof(1,%201)");
    assert_eq!(config.durability, Some(Durability::Aof { local: true, replicas: 1 }));
    assert_eq!(config.min_replicas, MinReplicas::Assumed);
    assert_eq!(parsed("redis://h").durability, None);
}

#[test]
fn a_connection_has_a_name() {
    assert_eq!(parsed("redis://h").client_name, "lock-core");
    for url in ["redis://h/1?client_name=shop%3Aeu", "redis+cluster://a,b?client_name=shop:eu"] {
        assert_eq!(parsed(url).client_name, "shop:eu", "{url}");
    }
}

#[test]
fn a_bad_url_says_what_was_expected() {
    let table: &[(&str, &str)] = &[
        ("localhost:6379", "has no scheme"),
        ("rediss+unix:///a", "this scheme is not one of"),
        ("redisunix:///a", "this scheme is not one of"),
        ("http://h", "this scheme is not one of"),
        ("redis://", "has no host"),
        ("redis://:6379", "has no host"),
        ("redis://h:99999", "port"),
        ("redis://h1,h2/", "several are `redis+cluster://h1,h2,h3`"),
        ("redis://u:p@h1:6379,h2:6379/2", "`redis+sentinel://h1,h2,h3/primary`"),
        ("redis://h1,h2,h3?timeout=1s", "`redlock://h1,h2,h3`"),
        ("redis://h/first", "database"),
        ("redis://h/-1", "database"),
        ("redis://user@h", "a user without a password"),
        ("redis://[::1", "closing `]`"),
        ("redis://a:%zz@h", "%25"),
        ("redis+sentinel://a,b", "names no primary"),
        ("redis+sentinel://a,,b/m", "has no host"),
        ("redis+sentinel://a/m/first", "database"),
        ("redis+cluster://a,b/1", "no databases"),
        ("redis+cluster://a,,b", "has no host"),
        ("redis+clusters://a", "this scheme is not one of"),
        ("redis://h?sentinel_password=x", "options of a `redis+sentinel://` URL"),
        ("unix://run/redis.sock", "must be absolute"),
        ("redis://h?timeout=soon", "`timeout` of the Redis URL needs a duration"),
        ("redis://h?timeout=0s", "above zero"),
        ("redis://h?client_name=", "no spaces"),
        ("redis://h?client_name=my%20shop", "no spaces"),
        ("redis://h?tiemout=1s", "did you mean `timeout`?"),
        ("redis://h?connection_timeout=1s", "did you mean `connect_timeout`?"),
        ("redis://h?database=1", "there are `connect_timeout`"),
        ("redis://h?connect=1s", "did you mean `connect_timeout`?"),
        ("redis://h?durability=1", "is `replicas(1)`, or `aof(1,0)`"),
        ("redis://h?durability=replicas(0)", "is `replicas(1)`, or `aof(1,0)`"),
        ("redis://h?durability=replicas%281", "is `replicas(1)`, or `aof(1,0)`"),
        ("redis://h?durablility=replicas(1)", "`durability`"),
        ("redis://h?durabiltiy=replicas(1)", "did you mean `durability`?"),
        ("redis://h?durability=replicas(1)&min_replicas=2", "can only be `assumed`"),
        ("redis://h?min_replicas=assumed", "belongs to `durability`"),
    ];
    for (url, expected) in table {
        let error = Config::parse(url).expect_err(url);
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{url}");
        assert!(!error.is_temporary(), "{url}");
        assert!(error.to_string().contains(expected), "{url}: {error}");
    }
}

#[cfg(not(feature = "tls"))]
#[test]
fn tls_is_refused_aloud() {
    let error = Config::parse("rediss://user:s3cret@h").expect_err("no TLS");
    assert_eq!(error.kind(), LockErrorKind::Unsupported);
    assert!(error.to_string().contains("feature `tls`"), "{error}");
}

#[cfg(feature = "tls")]
#[test]
fn tls_is_read_with_its_files() {
    assert_eq!(parsed("redis://h").tls, None);
    assert_eq!(parsed("rediss://h").tls, Some(TlsFiles::default()));
    let files = parsed("rediss://u:p@h:1/2?ca=/a%20b/ca.pem&cert=c.pem&key=k.pem").tls.expect("TLS");
    let path = |text: &str| Some(PathBuf::from(text));
    assert_eq!((files.authorities, files.certificate), (path("/a b/ca.pem"), path("c.pem")));
    assert_eq!(files.key, path("k.pem"));
    let table = [
        ("redis://h?ca=/ca.pem", "options of a `rediss://` URL"),
        ("rediss://h?ca=", "path of a PEM file"),
        ("rediss://h?cert=c.pem", "without its `key`"),
        ("rediss://h?key=k.pem", "without its `cert`"),
    ];
    for (url, expected) in table {
        let error = Config::parse(url).expect_err(url);
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{url}");
        assert!(error.to_string().contains(expected), "{url}: {error}");
    }
}

#[test]
fn nothing_shows_the_password() {
    let url = "redis://user:s3cret@127.0.0.1:1/";
    assert!(!format!("{0:?} {0:#?}", parsed(url)).contains("s3cret"));
    // Each URL has a mistake next to its password. In some URLs the password itself is not escaped.
    for url in [
        "redis:/user:s3cret@h",
        "http://user:s3cret@h",
        "rediss://user:s3cret@h:port",
        "redis://s3cret@h",
        "redis://user:s3cret@h:port",
        "redis://user:s3cret@h/db",
        "redis://user:s3cret@h,h",
        "redis://user:s3cret,h",
        "redis://user:s3cret%@h",
        "redis://user:x?s3cret@h",
        "redis://user:1?s3cret@h",
        "redis://user:1?s3cret=x@h",
        "redis://user:x&s3cret=1@h:p?s3cret",
        "redis://user:x/s3cret@h",
        "redis://user:s3cret@h?timeout=s3cret",
        "unix://user:s3cret@h",
        "redis+sentinel://user:s3cret@h",
        "redis+sentinel://h/m?sentinel_pasword=s3cret",
        "redis://h?durability=s3cret",
        "redis://h?durability=replicas(1)&min_replicas=s3cret",
    ] {
        let error = Config::parse(url).map(|config| config.address.to_string()).expect_err(url);
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{url}: {error:?}");
    }
}
