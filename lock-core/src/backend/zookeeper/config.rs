//! The URL.

use std::fmt;
use std::time::Duration;

use zookeeper_client::{Acls, Client, Connector, CreateMode, CreateOptions};

use crate::backend::remote::UrlForm;
use crate::error::{LockError, LockErrorKind, Result};

const FORM: UrlForm = UrlForm {
    store: "ZooKeeper",
    expected: "expected `zookeeper://[user:password@]host[:port][,host..][/path]`, with \
               `?session_timeout=10s&timeout=5s&connect_timeout=5s&curator=mutex` if need be; percent-encode special \
               characters of the password",
    options: &["session_timeout", "timeout", "connect_timeout", "curator"],
};

const DEFAULT_PORT: u16 = 2181;
/// The directory of the locks, where the URL names none.
const DEFAULT_BASE: &str = "/locks";
/// As long as the default ttl, so that a lock without options is not refused.
const DEFAULT_SESSION: Duration = Duration::from_secs(10);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// The shortest deadline of a release.
const SHORTEST_RELEASE: Duration = Duration::from_millis(50);

/// The lock of Curator that our exclusive locks exclude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// `InterProcessMutex`.
    Mutex,
    /// `InterProcessReadWriteLock`: exclusive locks are its writers.
    ReadWrite,
}

/// What a URL says.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Config {
    /// `host:port,host:port`, as the client takes them.
    hosts: String,
    /// The directory that has the directories of the keys.
    pub(super) base: String,
    credentials: Option<(String, String)>,
    pub(super) session_timeout: Duration,
    pub(super) timeout: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) names: Names,
}

/// Shows no password.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("hosts", &self.hosts).field("base", &self.base).finish_non_exhaustive()
    }
}

/// Names the store in an error.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZooKeeper at {}", self.hosts)
    }
}

impl Config {
    /// Returns the servers, each with its port.
    pub(super) fn hosts(&self) -> &str {
        &self.hosts
    }

    /// Parses a URL. The errors never repeat it, because a URL holds a password.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| FORM.invalid("the ZooKeeper URL has no scheme"))?;
        if scheme == "zookeepers" {
            return Err(unsupported(
                "TLS to ZooKeeper is not supported: the client library reads certificates with a crate that is no longer \
                 maintained (RUSTSEC-2025-0134); use a private network or a TLS tunnel, and `zookeeper://`",
            ));
        }
        let (rest, options) = FORM.options(rest)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, password, hosts) = FORM.credentials(authority)?;
        let credentials = match (user, password) {
            (Some(user), Some(password)) if !user.contains(':') => Some((user, password)),
            (None, None) => None,
            _ => return Err(FORM.invalid("ZooKeeper wants a user without `:`, and a password")),
        };
        let host = |(host, port): &(String, u16)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        let hosts = FORM.hosts(hosts, DEFAULT_PORT)?.iter().map(host).collect::<Vec<_>>().join(",");
        let mut config = Self {
            hosts,
            base: base(&FORM.decode(path)?)?,
            credentials,
            session_timeout: DEFAULT_SESSION,
            timeout: DEFAULT_TIMEOUT,
            connect_timeout: DEFAULT_TIMEOUT,
            names: Names::Mutex,
        };
        options.into_iter().try_for_each(|(name, value)| config.set(name, value))?;
        Ok(config)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "session_timeout" => self.session_timeout = FORM.duration("session_timeout", value)?,
            "timeout" => self.timeout = FORM.duration("timeout", value)?,
            "connect_timeout" => self.connect_timeout = FORM.duration("connect_timeout", value)?,
            "curator" => {
                self.names = match value {
                    "mutex" => Names::Mutex,
                    "read-write" => Names::ReadWrite,
                    _ => {
                        let detail = "the option `curator` of the ZooKeeper URL is `mutex` (exclusive locks are those of \
                             `InterProcessMutex`) or `read-write` (they are the writers of `InterProcessReadWriteLock`)";
                        return Err(LockError::new(LockErrorKind::InvalidRequest, detail));
                    }
                };
            }
            "sasl" => {
                return Err(unsupported(
                    "SASL is not supported: use `user:password@` in the URL, which is the scheme `digest` of ZooKeeper",
                ));
            }
            other => return Err(FORM.unknown_option(other)),
        }
        Ok(())
    }

    /// Connects, and begins a session.
    pub(super) async fn connect(&self) -> Result<Client, zookeeper_client::Error> {
        self.connector().connect(&self.hosts).await
    }

    /// Begins another session, where the servers give sessions of `session`.
    ///
    /// A server that is silent for a fifth of that is given up. By default it would be two fifths: then a lock, which is
    /// certain for a half, would not outlive a silent server where the next one that is tried is silent too.
    pub(super) async fn connect_again(&self, session: Duration) -> Result<Client, zookeeper_client::Error> {
        self.connector().with_connection_timeout(session / 5).connect(&self.hosts).await
    }

    /// Returns a connector. A connector that finds no server says so at once, and its caller tries again.
    fn connector(&self) -> Connector {
        let connector = Client::connector().with_session_timeout(self.session_timeout).with_fail_eagerly();
        match &self.credentials {
            Some((user, password)) => connector.with_auth("digest", format!("{user}:{password}").as_bytes()),
            None => connector,
        }
    }

    /// Ends the session of `client` from another connection, as an operator would.
    #[cfg(feature = "testkit")]
    pub(super) async fn end_session(&self, client: &Client) -> Result<(), zookeeper_client::Error> {
        loop {
            match self.connector().with_session(client.session().clone()).connect(&self.hosts).await {
                Ok(other) => {
                    let mut state = other.state_watcher();
                    // The last handle ends the session, unless the other connection takes it back before: the next
                    // round finds out.
                    drop(other);
                    while !state.changed().await.is_terminated() {}
                }
                Err(zookeeper_client::Error::SessionExpired) => return Ok(()),
                // The two connections take the session from each other.
                Err(zookeeper_client::Error::NoHosts) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the options of a node: with a password, only whoever has it may touch the node.
    pub(super) fn node(&self, mode: CreateMode) -> CreateOptions<'static> {
        let open = self.credentials.is_none();
        mode.with_acls(if open { Acls::anyone_all() } else { Acls::creator_all() })
    }

    /// Returns the deadline of a call that asks for a lease of `lease`.
    pub(super) fn deadline(&self, lease: Duration) -> Duration {
        self.timeout.min(lease / 2)
    }

    /// Returns the deadline of the release of a grant with a lease of `lease`.
    pub(super) fn deadline_of_release(&self, lease: Duration) -> Duration {
        self.timeout.min(lease.max(SHORTEST_RELEASE))
    }
}

fn unsupported(detail: &'static str) -> LockError {
    LockError::new(LockErrorKind::Unsupported, detail)
}

/// Returns the directory of the locks that the path of a URL names.
fn base(path: &str) -> Result<String> {
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Ok(DEFAULT_BASE.to_owned());
    }
    let is_name = |name: &str| {
        !matches!(name, "" | "." | "..") && name.bytes().all(|byte| (b' '..=b'~').contains(&byte))
    };
    if !path.split('/').all(is_name) || path.split('/').next() == Some("zookeeper") {
        return Err(FORM.invalid(
            "the path in the ZooKeeper URL has an empty part, a part of dots, characters outside of ASCII, or is that of \
             ZooKeeper itself",
        ));
    }
    Ok(format!("/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_hosts_a_directory_and_a_user() {
        for (url, hosts, base, user) in [
            ("zookeeper://h", "h:2181", "/locks", None),
            ("zookeeper://h/", "h:2181", "/locks", None),
            ("zookeeper://a,b:1,[::1]:3/app/jobs", "a:2181,b:1,[::1]:3", "/app/jobs", None),
            ("zookeeper://u:p%40@h/app/", "h:2181", "/app", Some(("u".to_owned(), "p@".to_owned()))),
        ] {
            let config = Config::parse(url).expect(url);
            assert_eq!(
                (config.hosts.as_str(), config.base.as_str(), config.credentials),
                (hosts, base, user)
            );
            assert_eq!((config.session_timeout, config.names), (DEFAULT_SESSION, Names::Mutex));
        }
        let config =
            Config::parse("zookeeper://h?session_timeout=4s&timeout=1s&curator=read-write").expect("it");
        assert_eq!((config.session_timeout.as_secs(), config.timeout.as_secs()), (4, 1));
        assert_eq!(config.names, Names::ReadWrite);
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_and_no_password_shown() {
        for (url, expected) in [
            ("zookeepers://u:s3cret@h", "TLS to ZooKeeper is not supported"),
            ("zookeeper://u:s3cret@h?sasl=gssapi", "SASL is not supported"),
            ("zookeeper://:s3cret@h", "wants a user"),
            ("zookeeper://u:s3cret@h//a", "has an empty part"),
            ("zookeeper://u:s3cret@h/zookeeper", "of ZooKeeper itself"),
            ("zookeeper://u:s3cret@h/a/../b", "a part of dots"),
            ("zookeeper://u:s3cret@h?curator=latch", "`mutex`"),
            ("zookeeper://u:s3cret@h?session=1s", "did you mean `session_timeout`?"),
            ("zookeeper://u:s3cret@h?timeout=0s", "a duration above zero"),
            ("zookeeper://u:s3cret@", "has no host"),
        ] {
            let error = Config::parse(url).expect_err(url);
            assert!(error.to_string().contains(expected), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        }
        let config = Config::parse("zookeeper://u:s3cret@h").expect("a URL");
        assert_eq!(config.to_string(), "ZooKeeper at h:2181");
        assert!(!format!("{config:?}").contains("s3cret"));
    }
}
