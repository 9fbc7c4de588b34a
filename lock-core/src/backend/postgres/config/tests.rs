//! Tests valid and invalid URLs.

use std::time::Duration;

use super::settings::CALL_TIMEOUT;
use super::*;
use crate::backend::remote::tries::CONNECT_TIMEOUT;
use crate::error::LockErrorKind;

fn parsed(url: &str) -> Config {
    Config::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

#[test]
fn every_part_of_a_url_is_read() {
    let table: &[(&str, &str, Option<&str>, Option<&str>, Option<&str>)] = &[
        ("postgres://localhost", "localhost:5432", None, None, None),
        ("postgresql://127.0.0.1:7000/", "127.0.0.1:7000", None, None, None),
        ("postgres://[::1]:7000/shop", "[::1]:7000", Some("shop"), None, None),
        ("postgres://app@h/a%20b", "h:5432", Some("a b"), Some("app"), None),
        ("postgres://app:s%40c%2Fr%3Ft@h", "h:5432", None, Some("app"), Some("s@c/r?t")),
        ("postgres://app:p@ss:word@h,i:1/d", "h:5432, i:1", Some("d"), Some("app"), Some("p@ss:word")),
        ("postgres:///d?host=/run/postgresql", "/run/postgresql:5432", Some("d"), None, None),
        ("postgres://app@/d?host=%2Frun", "/run:5432", Some("d"), Some("app"), None),
        ("postgres://app@/d?host=/run&port=7", "/run:7", Some("d"), Some("app"), None),
        ("postgres:///d?port=7&user=app&host=%2Frun", "/run:7", Some("d"), Some("app"), None),
        ("postgres://app@%2Frun%2Fpg:7/d", "/run/pg:7", Some("d"), Some("app"), None),
        ("postgres://app@%2Frun%2Fpg/d", "/run/pg:5432", Some("d"), Some("app"), None),
        ("postgres://app@localhost:7/d?host=/run", "/run:7", Some("d"), Some("app"), None),
        ("postgres://app@:7/d?host=/run", "/run:7", Some("d"), Some("app"), None),
        (
            "postgres:///?host=h,i&port=1,2&user=u&password=p%40&dbname=d",
            "h:1, i:2",
            Some("d"),
            Some("u"),
            Some("p@"),
        ),
        ("postgres://h,i/d?port=7", "h:7, i:7", Some("d"), None, None),
    ];
    for (url, address, database, user, password) in table {
        let config = parsed(url);
        assert_eq!(config.address.to_string(), *address, "{url}");
        assert_eq!(config.driver.get_dbname(), *database, "{url}");
        assert_eq!(config.driver.get_user(), *user, "{url}");
        assert_eq!(config.driver.get_password(), password.map(str::as_bytes), "{url}");
    }
}

#[test]
fn options_are_read() {
    let config = parsed("postgres://h/?connect_timeout=3s&timeout=250ms&schema=shop_1&migrate=true");
    assert_eq!(
        (config.connect_timeout, config.timeout),
        (Duration::from_secs(3), Duration::from_millis(250))
    );
    assert_eq!((config.schema.as_str(), config.migrate), ("shop_1", true));
    let config = parsed("postgres://h");
    assert_eq!((config.connect_timeout, config.timeout), (CONNECT_TIMEOUT, CALL_TIMEOUT));
    assert_eq!((config.schema.as_str(), config.migrate), ("lock_core", false));
    for (pooling, session) in [("", false), ("?pooling=transaction", false), ("?pooling=session", true)] {
        assert_eq!(parsed(&format!("postgres://h{pooling}")).session_pooling, session);
    }
    let error = Config::parse("postgres://h?pooling=statement").expect_err("no such mode");
    assert!(error.to_string().contains("`session` or `transaction`"), "{error}");
    let past = parsed("postgres://h?pooling=session&listen=db").listening(true).expect("it listens");
    assert!(!past.session_pooling, "the pooler is bypassed");
}

/// Hosting services print URLs with these options, which matter only to other clients.
#[test]
fn what_means_nothing_for_a_lock_is_ignored() {
    for option in [
        "channel_binding=require",
        "target_session_attrs=read-write",
        "target_session_attrs=any",
        "gssencmode=disable",
        "pgbouncer=true",
        "statement_cache_capacity=0",
        "statement-cache-capacity=0",
        "fallback_application_name=shop",
        "keepalives=1&keepalives_idle=30&keepalives_interval=10&keepalives_count=3",
    ] {
        assert_eq!(parsed(&format!("postgres://h/d?{option}")).address.to_string(), "h:5432", "{option}");
    }
    let config =
        parsed("postgres://h/d?options=-c%20search_path%3Dx&application_name=shop&connect_timeout=7");
    assert_eq!(config.connect_timeout, Duration::from_secs(7));
    let driver = config.handshake(true);
    let options = driver.get_options().expect("options");
    let (theirs, ours) = (options.find("search_path=x"), options.find("search_path=pg_catalog"));
    assert!(theirs.is_some() && theirs < ours, "those of the store count: {options}");
    assert_eq!(driver.get_application_name(), Some("shop"));
    assert_eq!(parsed("postgres://h/d?connect_timeout=0").connect_timeout, CONNECT_TIMEOUT);
}

#[test]
fn notifications_are_listened_for_where_the_url_says() {
    let table = [
        ("postgres://u@h/d", false, Some("h:5432")),
        ("postgres://u@h/d", true, None),
        ("postgres://u@h/d?listen=off", false, None),
        ("postgres://u@h:6432/d?listen=db", true, Some("db:5432")),
        ("postgres://u@h/d?listen=db:1", false, Some("db:1")),
        ("postgres://u@h/d?listen=postgres%3A%2F%2Fo%40db%3A2%2Fe", true, Some("db:2")),
    ];
    for (url, pooled, expected) in table {
        let listening = parsed(url).listening(pooled);
        assert_eq!(listening.map(|config| config.address.to_string()).as_deref(), expected, "{url}");
    }
    let other = parsed("postgres://u@h/d?listen=postgres%3A%2F%2Fo%40db%2Fe").listening(true).expect("one");
    assert_eq!((other.driver.get_user(), other.driver.get_dbname()), (Some("o"), Some("e")));
}

#[test]
fn a_bad_url_says_what_was_expected() {
    let long = format!("postgres://h?schema={}", "a".repeat(64));
    let table: &[(&str, &str)] = &[
        ("localhost:5432", "this scheme is not one of"),
        ("postgress://h", "this scheme is not one of"),
        ("postgres://", "has no host"),
        ("postgres:///d", "has no host"),
        ("postgres://h:99999", "port"),
        ("postgres://a,,b", "has no host"),
        ("postgres://[::1", "closing `]`"),
        ("postgres://a:%zz@h", "%25"),
        ("postgres://h?timeout=soon", "`timeout` of the Postgres URL needs a duration"),
        ("postgres://h?connect_timeout=soon", "`connect_timeout` of the Postgres URL needs a duration"),
        ("postgres://h?tiemout=1s", "did you mean `timeout`?"),
        ("postgres://h?schema=Shop", "lower-case letters"),
        ("postgres://h?schema=a;b", "lower-case letters"),
        ("postgres://h?schema=", "lower-case letters"),
        (&long, "at most 63"),
        ("postgres://h?migrate=1", "`true` or `false`"),
        ("postgres:///d?host=", "has no host"),
        ("postgres://:7/d", "has no host"),
        ("postgres://h/d?port=0", "port"),
        ("postgres://h/d?port=1,2", "another number of ports"),
        ("postgres://h/d?target_session_attrs=standby", "locks need the primary"),
        ("postgres://h/d?gssencmode=require", "unknown option"),
        ("postgres://h?listen=", "has no host"),
        ("postgres://h?listen=redis%3A%2F%2Fh", "this scheme is not one of"),
        ("postgres://h?listen=postgres%3A%2F%2Fh%3Flisten%3Doff", "cannot have `listen`"),
        ("postgres://h?listen=postgres%3A%2F%2Fh%3Fschema%3Dother", "cannot have `schema`"),
        ("postgres://h?sslmode=disable&sslmode=verify-full", "`sslmode` of the Postgres URL is given twice"),
        ("postgres://h?sslmode=verify-full&ca=/a.pem&sslrootcert=/b.pem", "more than one `ca`"),
        // This password has an unescaped `/`.
        ("postgres://app:/s3cret@h/d", "`%2F` for a `/` in a password"),
        ("postgres://h?sslmode=on", "`sslmode` of the Postgres URL is"),
        ("postgres://h?ca=/ca.pem", "belong to `sslmode=verify-full`"),
        ("postgres://h?sslmode=disable&sslrootcert=/ca.pem", "belong to `sslmode=verify-full`"),
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
    let error = Config::parse("postgres://user:s3cret@h?sslmode=require").expect_err("no TLS");
    assert_eq!(error.kind(), LockErrorKind::Unsupported);
    assert!(error.to_string().contains("feature `tls`"), "{error}");
}

#[cfg(feature = "tls")]
#[test]
fn tls_is_read_with_its_files() {
    use std::path::PathBuf;

    use crate::backend::remote::TlsFiles;

    assert_eq!(parsed("postgres://h").tls, None);
    for mode in ["require", "verify-ca", "verify-full"] {
        assert_eq!(parsed(&format!("postgres://h?sslmode={mode}")).tls, Some(TlsFiles::default()));
    }
    for mode in ["allow", "prefer"] {
        let config = parsed(&format!("postgres://h?sslmode={mode}"));
        assert!(config.tls == Some(TlsFiles::default()) && config.prefers_tls, "{mode}");
    }
    let system = parsed("postgres://h?sslmode=verify-full&sslrootcert=system");
    assert_eq!(system.tls, Some(TlsFiles::default()));
    // The options may be in any order.
    let files = parsed("postgres://h?sslrootcert=/ca.pem&sslmode=require").tls.expect("TLS");
    assert_eq!(files.authorities, Some(PathBuf::from("/ca.pem")));
    for names in [["ca", "cert", "key"], ["sslrootcert", "sslcert", "sslkey"]] {
        let [ca, cert, key] = names;
        let url = format!("postgres://h?sslmode=verify-full&{ca}=/a%20b/ca.pem&{cert}=c.pem&{key}=k.pem");
        let files = parsed(&url).tls.expect("TLS");
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!((files.authorities, files.certificate), (path("/a b/ca.pem"), path("c.pem")));
        assert_eq!(files.key, path("k.pem"));
    }
    let error = Config::parse("postgres://h?sslmode=verify-full&cert=c.pem").expect_err("no key");
    assert!(error.to_string().contains("without its `key`"), "{error}");
}

#[test]
fn nothing_shows_the_password() {
    let url = "postgres://user:s3cret@127.0.0.1:1/";
    assert!(!format!("{0:?} {0:#?}", parsed(url)).contains("s3cret"));
    let url = "postgres://h?listen=postgres%3A%2F%2Fu%3As3cret%40db";
    assert!(!format!("{0:?} {0:#?}", parsed(url)).contains("s3cret"));
    // Each URL has a mistake next to its password. In some URLs the password itself is not escaped.
    for url in [
        "postgres:/user:s3cret@h",
        "http://user:s3cret@h",
        "postgres://s3cret@h:port",
        "postgres://user:s3cret@h:port",
        "postgres://user:s3cret,h",
        "postgres://user:s3cret%@h",
        "postgres://user:x?s3cret@h",
        "postgres://user:1?s3cret=x@h",
        "postgres://user:x&s3cret=1@h:p?s3cret",
        "postgres://user:s3cret@h?timeout=s3cret",
        "postgres://user:s3cret@h?schema=S3cret&timeout=s3cret",
        "postgres://h?listen=postgres%3A%2F%2Fu%3As3cret%40db%3Aport",
        "postgres://h?listen=s3cret%3Aport",
    ] {
        let error = Config::parse(url).map(|config| config.address.to_string()).expect_err(url);
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{url}: {error:?}");
    }
}
