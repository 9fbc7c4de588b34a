//! `redlock://` and `redlocks://`, read once.

use super::options::VoterOptions;
use crate::error::{LockError, LockErrorKind, Result};

const FORM: &str = "expected `redlock[s]://[user:password@]host[:port],host[:port],host[:port][/db]` with an odd number \
                    of servers, and `?max_ttl=30s&timeout=500ms&connect_timeout=1s` if need be";

/// A `redlock://` URL as those of its servers. `Debug` is left out: they hold the password.
pub(crate) struct RedlockUrl {
    /// One `redis://` or `rediss://` URL for each server.
    pub(crate) urls: Vec<String>,
    /// The servers by host and port alone.
    pub(crate) names: Vec<String>,
    /// What the clients agree on.
    pub(crate) options: VoterOptions,
}

impl RedlockUrl {
    /// Reads what stands behind `redlock://`, or behind `redlocks://` with `tls`. The errors never repeat it.
    pub(crate) fn parse(rest: &str, tls: bool) -> Result<Self> {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if query.contains('@') {
            // A password with an unescaped `?`.
            return Err(invalid("there is an `@` behind the `?` of the redlock URL"));
        }
        let (authority, db) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, hosts) = match authority.rsplit_once('@') {
            Some((credentials, hosts)) => (format!("{credentials}@"), hosts),
            None => (String::new(), authority),
        };
        let mut options = VoterOptions::default();
        let mut others = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("max_ttl", value)) => options = max_ttl(value)?,
                // Left to the reader of each server's URL, but for what makes no sense here.
                Some(("timeout" | "connect_timeout", _)) => others.push(pair),
                Some(("ca" | "cert" | "key", _)) if tls => others.push(pair),
                Some(("ca" | "cert" | "key", _)) => {
                    return Err(invalid("`ca`, `cert` and `key` are options of a `redlocks://` URL"));
                }
                Some(("durability" | "min_replicas", _)) => {
                    return Err(invalid(
                        "`durability` is no option of the redlock URL: the servers of a majority have no replicas, and a \
                         lock that a majority has survives the loss of the others",
                    ));
                }
                _ => {
                    return Err(invalid(
                        "unknown option in the redlock URL; there are `max_ttl`, `timeout` and `connect_timeout`, and \
                         `ca`, `cert` and `key` with `redlocks://`",
                    ));
                }
            }
        }
        let others = others.join("&");
        let hosts: Vec<&str> = hosts.split(',').map(str::trim).collect();
        if hosts.len().is_multiple_of(2) {
            return Err(invalid(
                "the redlock URL names an even number of servers: one more tolerates no further failure, so name an \
                 odd number",
            ));
        }
        if hosts.iter().any(|host| host.is_empty()) {
            return Err(invalid("the redlock URL names an empty server"));
        }
        let scheme = if tls { "rediss" } else { "redis" };
        let url = |host: &&str| format!("{scheme}://{credentials}{host}/{db}?{others}");
        let names = hosts.iter().map(ToString::to_string).collect();
        Ok(Self { urls: hosts.iter().map(url).collect(), names, options })
    }
}

fn max_ttl(value: &str) -> Result<VoterOptions> {
    match humantime::parse_duration(value) {
        Ok(max_ttl) => VoterOptions::new(max_ttl).checked(),
        Err(_) => Err(invalid("the option `max_ttl` of the redlock URL needs a duration such as `30s`")),
    }
}

fn invalid(what: &'static str) -> LockError {
    LockError::new(LockErrorKind::InvalidRequest, format!("{what}; {FORM}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::config::Config;
    use super::*;

    #[test]
    fn every_server_gets_a_url_of_its_own() {
        let url = RedlockUrl::parse("app:s%2Cx@a,b:7000, [::1]:7001/2?max_ttl=10s&timeout=250ms", false)
            .expect("a URL");
        let expected = [
            "redis://app:s%2Cx@a/2?timeout=250ms",
            "redis://app:s%2Cx@b:7000/2?timeout=250ms",
            "redis://app:s%2Cx@[::1]:7001/2?timeout=250ms",
        ];
        assert_eq!(url.urls, expected);
        assert_eq!(url.names, ["a", "b:7000", "[::1]:7001"]);
        assert_eq!(url.options, VoterOptions::new(Duration::from_secs(10)));
        for url in &url.urls {
            Config::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        }
        let url = RedlockUrl::parse("one", false).expect("a URL");
        assert_eq!((url.urls, url.options), (vec!["redis://one/?".to_owned()], VoterOptions::default()));
    }

    #[test]
    fn a_bad_url_says_what_was_expected_and_shows_no_password() {
        let table = [
            ("u:s3cret@a,b", "even number"),
            ("u:s3cret@a,b,", "empty server"),
            ("", "empty server"),
            ("u:s3cret@a,b,c?max_ttl=s3cret", "`max_ttl` of the redlock URL needs"),
            ("u:s3cret@a,b,c?max_ttl=1ms", "it can be 10ms"),
            ("u:s3cret@a,b,c?db=1", "unknown option"),
            ("u:s3cret@a,b,c?ca=/s3cret.pem", "options of a `redlocks://` URL"),
            ("u:s3cret@a,b,c?durability=replicas(1)", "no option of the redlock URL"),
            ("u:x?s3cret@a,b,c", "behind the `?`"),
        ];
        for (rest, expected) in table {
            let Err(error) = RedlockUrl::parse(rest, false) else { panic!("{rest} was read") };
            assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{rest}");
            assert!(error.to_string().contains(expected), "{rest}: {error}");
            assert!(!error.to_string().contains("s3cret"), "{rest}: {error}");
        }
    }

    #[test]
    fn with_tls_every_server_has_it() {
        let url = RedlockUrl::parse("app:x@a,b:1,c?ca=/ca.pem&cert=c.pem&key=k.pem&timeout=1s", true)
            .expect("a URL");
        assert_eq!(url.urls[1], "rediss://app:x@b:1/?ca=/ca.pem&cert=c.pem&key=k.pem&timeout=1s");
        for url in &url.urls {
            let outcome = Config::parse(url);
            assert_eq!(outcome.is_ok(), cfg!(feature = "redis-tls"), "{url}");
        }
    }
}
