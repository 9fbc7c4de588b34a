//! Parses a `redlock://` or `redlocks://` URL.

use std::time::Duration;

use super::voter::VoterOptions;
use crate::backend::redis::config::Config;
use crate::backend::remote::UrlForm;
use crate::error::Result;

const FORM: UrlForm = UrlForm {
    store: "redlock",
    expected: "expected `redlock[s]://[user:password@]host[:port],host[:port],host[:port][/db]` with an odd number of servers, \
               and `?max_ttl=30s&node_timeout=50ms&timeout=500ms&connect_timeout=10s` if need be",
    options: &["max_ttl", "node_timeout", "timeout", "connect_timeout", "client_name", "ca", "cert", "key"],
};

/// The servers and the options of a `redlock://` URL. This type has no `Debug`, because the URLs contain the password.
pub(crate) struct RedlockUrl {
    /// One `redis://` or `rediss://` URL for each server.
    pub(crate) urls: Vec<String>,
    /// The host and port of each server. Logs and errors use them as the names of the nodes.
    pub(crate) names: Vec<String>,
    /// The options for which all clients must use the same values.
    pub(crate) options: VoterOptions,
    /// How long an attempt waits for one server. With `None`, the quorum chooses this time.
    pub(crate) node_timeout: Option<Duration>,
}

#[derive(Default)]
struct Query {
    options: VoterOptions,
    node_timeout: Option<Duration>,
    /// The options for the URL of each server, in the form `name=value`.
    others: Vec<String>,
}

impl RedlockUrl {
    /// Parses the part after `redlock://`, or after `redlocks://` if `tls` is true. Errors never show this part,
    /// because it contains the password.
    pub(crate) fn parse(rest: &str, tls: bool) -> Result<Self> {
        let (rest, query) = FORM.options(rest)?;
        let (authority, db) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, hosts) = match authority.rsplit_once('@') {
            Some((credentials, hosts)) => (format!("{credentials}@"), hosts),
            None => (String::new(), authority),
        };
        let Query { options, node_timeout, others } = Query::parse(&query, tls)?;
        let others = others.join("&");
        let hosts: Vec<&str> = hosts.split(',').map(str::trim).collect();
        if hosts.len().is_multiple_of(2) {
            return Err(FORM.invalid(
                "the redlock URL names an even number of servers: one more tolerates no further failure, so name an \
                 odd number",
            ));
        }
        if hosts.iter().any(|host| host.is_empty()) {
            return Err(FORM.invalid("the redlock URL names an empty server"));
        }
        let scheme = if tls { "rediss" } else { "redis" };
        let url = |host: &&str| format!("{scheme}://{credentials}{host}/{db}?{others}");
        let names = hosts.iter().map(ToString::to_string).collect();
        Ok(Self { urls: hosts.iter().map(url).collect(), names, options, node_timeout })
    }
}

impl Query {
    fn parse(options: &[(&str, &str)], tls: bool) -> Result<Self> {
        let mut query = Self::default();
        let mut timeout = Config::CALL_TIMEOUT;
        for &(name, value) in options {
            match name {
                "max_ttl" => {
                    query.options = VoterOptions::new(FORM.duration("max_ttl", value)?).checked()?;
                }
                "node_timeout" => query.node_timeout = Some(FORM.duration("node_timeout", value)?),
                "timeout" => {
                    // An invalid duration is accepted here, because the parser of each server's URL refuses it later.
                    timeout = crate::words::duration::parse(value).unwrap_or(Duration::MAX);
                    query.others.push(format!("{name}={value}"));
                }
                "connect_timeout" | "client_name" => query.others.push(format!("{name}={value}")),
                "ca" | "cert" | "key" if tls => query.others.push(format!("{name}={value}")),
                "ca" | "cert" | "key" => {
                    return Err(FORM.invalid("`ca`, `cert` and `key` are options of a `redlocks://` URL"));
                }
                "durability" | "min_replicas" => {
                    return Err(FORM.invalid(
                        "`durability` is no option of the redlock URL: the servers of a majority have no replicas, and a \
                         lock that a majority has survives the loss of the others",
                    ));
                }
                unknown => return Err(FORM.unknown_option(unknown)),
            }
        }
        match query.node_timeout {
            Some(node_timeout) if node_timeout > timeout => Err(FORM.invalid(format_args!(
                "the `node_timeout` of the redlock URL is {node_timeout:?}, and no call takes longer than its `timeout`, \
                 {timeout:?}: make that one longer too"
            ))),
            _ => Ok(query),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::config::Config;
    use crate::error::LockErrorKind;

    #[test]
    fn every_server_gets_a_url_of_its_own() {
        let url = "app:s%2Cx@a,b:7000, [::1]:7001/2?max_ttl=10s&node_timeout=20ms&timeout=250ms";
        let url = RedlockUrl::parse(url, false).expect("a URL");
        let expected = [
            "redis://app:s%2Cx@a/2?timeout=250ms",
            "redis://app:s%2Cx@b:7000/2?timeout=250ms",
            "redis://app:s%2Cx@[::1]:7001/2?timeout=250ms",
        ];
        assert_eq!(url.urls, expected);
        assert_eq!(url.names, ["a", "b:7000", "[::1]:7001"]);
        assert_eq!(url.options, VoterOptions::new(Duration::from_secs(10)));
        assert_eq!(url.node_timeout, Some(Duration::from_millis(20)));
        for url in &url.urls {
            Config::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        }
        let url = RedlockUrl::parse("one", false).expect("a URL");
        assert_eq!((url.urls, url.options), (vec!["redis://one/?".to_owned()], VoterOptions::default()));
        assert_eq!(url.node_timeout, None);
    }

    #[test]
    fn a_bad_url_says_what_was_expected_and_shows_no_password() {
        let table = [
            ("u:s3cret@a,b", "even number"),
            ("u:s3cret@a,b,", "empty server"),
            ("", "empty server"),
            ("u:s3cret@a,b,c?max_ttl=s3cret", "`max_ttl` of the redlock URL needs"),
            ("u:s3cret@a,b,c?max_ttl=1ms", "it can be 10ms"),
            (
                "u:s3cret@a,b,c?db=1",
                "unknown option `db` in the redlock URL; there are `max_ttl`, `node_timeout`",
            ),
            ("u:s3cret@a,b,c?s3cret=1", "unknown option in the redlock URL; there are"),
            (
                "u:s3cret@a,b,c?nodetimeout=20ms",
                "`nodetimeout` in the redlock URL; did you mean `node_timeout`?",
            ),
            ("u:s3cret@a,b,c?max_tll=1s", "did you mean `max_ttl`?"),
            ("u:s3cret@a,b,c?node_timeout=s3cret", "`node_timeout` of the redlock URL needs a duration"),
            ("u:s3cret@a,b,c?node_timeout", "`node_timeout` of the redlock URL needs a duration"),
            ("u:s3cret@a,b,c?node_timeout=0s", "needs a duration above zero, such as `500ms`"),
            (
                "u:s3cret@a,b,c?node_timeout=501ms",
                "is 501ms, and no call takes longer than its `timeout`, 500ms",
            ),
            ("u:s3cret@a,b,c?node_timeout=300ms&timeout=200ms", "`timeout`, 200ms: make that one longer too"),
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
            assert_eq!(outcome.is_ok(), cfg!(feature = "tls"), "{url}");
        }
    }
}
