//! Parses the URL of a store.

use std::fmt;
use std::time::Duration;

use zookeeper_client::{Acls, CreateMode, CreateOptions};

use super::secure::Secure;
use crate::backend::remote::tries::CONNECT_TIMEOUT;
use crate::backend::remote::{TlsFiles, UrlForm, host_port};
use crate::error::{LockError, LockErrorKind, Result};

const FORM: UrlForm = UrlForm {
    store: "ZooKeeper",
    expected: "expected `zookeeper[s]://[user:password@]host[:port][,host..][/path]`, with \
               `?session_timeout=10s&timeout=5s&connect_timeout=10s&auth=digest&curator=mutex` if need be; percent-encode \
               special characters of the password",
    options: &["session_timeout", "timeout", "connect_timeout", "auth", "curator", "ca", "cert", "key"],
};

const DEFAULT_PORT: u16 = 2181;
/// ZooKeeper has no default for its `secureClientPort`. Its documentation uses this port.
const DEFAULT_SECURE_PORT: u16 = 2281;
/// The default directory of the locks.
const DEFAULT_BASE: &str = "/locks";
/// The default session timeout. It is as long as the default ttl, so that a lock without options is not refused.
const DEFAULT_SESSION: Duration = Duration::from_secs(10);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// The kind of Curator's locks that an exclusive lock of this library excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// `InterProcessMutex`.
    Mutex,
    /// `InterProcessReadWriteLock`: exclusive locks are its writers.
    ReadWrite,
}

/// How the user of a URL is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Auth {
    /// The scheme `digest`. The client sends the password to the servers, which store a hash of it in each node.
    Digest,
    /// SASL with DIGEST-MD5. The servers have a list of users, and the client never sends the password.
    Sasl,
}

/// The content of a URL.
#[derive(Clone)]
pub(super) struct Config {
    pub(super) hosts: Vec<(String, u16)>,
    /// The directory in which the directories of the keys are.
    pub(super) base: String,
    pub(super) credentials: Option<(String, String)>,
    pub(super) auth: Auth,
    /// The TLS files of the URL; `None` without TLS.
    pub(super) files: Option<TlsFiles>,
    /// The content of the TLS files.
    pub(super) secure: Option<Secure>,
    pub(super) session_timeout: Duration,
    pub(super) timeout: Duration,
    /// The time limit for the first session.
    pub(super) connect_timeout: Duration,
    /// The time limit for the start of a later session.
    pub(super) dial_timeout: Duration,
    pub(super) names: Names,
}

/// Shows no password.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("hosts", &self.hosts())
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

/// Writes the name of the store for errors.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZooKeeper at {}", self.hosts())
    }
}

impl Config {
    /// Parses a URL. The errors never contain the URL, because it may contain a password.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let (secure, rest) = match url.split_once("://") {
            Some(("zookeeper", rest)) => (false, rest),
            Some(("zookeepers", rest)) => (true, rest),
            _ => {
                let detail = "the ZooKeeper URL begins with neither `zookeeper://` nor `zookeepers://`";
                return Err(FORM.invalid(detail));
            }
        };
        let (rest, options) = FORM.options(rest)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        FORM.check_path(path)?;
        let (user, password, hosts) = FORM.credentials(authority)?;
        let credentials = match (user, password) {
            (Some(user), Some(password)) if !user.contains(':') => Some((user, password)),
            (None, None) => None,
            _ => return Err(FORM.invalid("ZooKeeper wants a user without `:`, and a password")),
        };
        let mut config = Self {
            hosts: FORM.hosts(hosts, if secure { DEFAULT_SECURE_PORT } else { DEFAULT_PORT })?,
            base: base(&FORM.decode(path)?)?,
            credentials,
            auth: Auth::Digest,
            files: secure.then(TlsFiles::default),
            secure: None,
            session_timeout: DEFAULT_SESSION,
            timeout: DEFAULT_TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            dial_timeout: DEFAULT_TIMEOUT,
            names: Names::Mutex,
        };
        options.into_iter().try_for_each(|(name, value)| config.set(name, value))?;
        config.check()?;
        Ok(config)
    }

    /// Reads the TLS files that the URL names.
    pub(super) fn secured(mut self) -> Result<Self> {
        let read = self.files.as_ref().map(|files| Secure::read(&FORM, files, &self.hosts));
        self.secure = read.transpose()?;
        Ok(self)
    }

    /// Returns the servers, each with its port.
    pub(super) fn hosts(&self) -> String {
        let hosts: Vec<_> = self.hosts.iter().map(|(host, port)| host_port(host, *port)).collect();
        hosts.join(",")
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "ca" | "cert" | "key" => {
                let files = self.files.as_mut().ok_or_else(|| {
                    FORM.invalid("`ca`, `cert` and `key` are options of a `zookeepers://` URL")
                })?;
                files.set(&FORM, name, value)?;
            }
            "auth" => self.auth = auth(value)?,
            "session_timeout" => self.session_timeout = FORM.duration("session_timeout", value)?,
            "timeout" => self.timeout = FORM.duration("timeout", value)?,
            "connect_timeout" => {
                self.connect_timeout = FORM.duration("connect_timeout", value)?;
                self.dial_timeout = self.connect_timeout;
            }
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
            other => return Err(FORM.unknown_option(other)),
        }
        Ok(())
    }

    /// Refuses parts of a URL that contradict each other.
    fn check(&self) -> Result<()> {
        if let Some(files) = &self.files {
            files.check(&FORM)?;
        }
        match (&self.credentials, self.auth) {
            (None, Auth::Sasl) => {
                Err(FORM.invalid("`auth=sasl` of the ZooKeeper URL needs a user and a password"))
            }
            // The client library writes the name between quotation marks without escaping it.
            (Some((user, _)), Auth::Sasl) if user.contains(['"', '\\']) => {
                Err(FORM.invalid("a user of SASL is a name without `\"` and `\\`"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the options for the creation of a node. If the URL has a user, only that user has access to the node. In
    /// that case, the servers insert all authenticated users of the session into the node's access control list.
    pub(super) fn node(&self, mode: CreateMode) -> CreateOptions<'static> {
        let open = self.credentials.is_none();
        mode.with_acls(if open { Acls::anyone_all() } else { Acls::creator_all() })
    }
}

fn auth(value: &str) -> Result<Auth> {
    let unsupported = |detail| Err(LockError::new(LockErrorKind::Unsupported, detail));
    match value {
        "digest" => Ok(Auth::Digest),
        "sasl" if cfg!(feature = "zookeeper-sasl") => Ok(Auth::Sasl),
        "sasl" => unsupported(
            "this build has no SASL for ZooKeeper: add the feature `zookeeper-sasl` to lock-core in Cargo.toml",
        ),
        "gssapi" | "kerberos" => unsupported(
            "GSSAPI (Kerberos) is not supported, because it needs a C library of the system: use `auth=sasl`, which is \
             DIGEST-MD5, or a client certificate",
        ),
        _ => {
            let detail = "the option `auth` of the ZooKeeper URL is `digest` (the scheme of ZooKeeper itself) or `sasl` \
                          (SASL with DIGEST-MD5)";
            Err(LockError::new(LockErrorKind::InvalidRequest, detail))
        }
    }
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
            ("zookeepers://a,b:1", "a:2281,b:1", "/locks", None),
        ] {
            let config = Config::parse(url).expect(url);
            assert_eq!(
                (config.hosts().as_str(), config.base.as_str(), config.credentials),
                (hosts, base, user)
            );
            assert_eq!((config.session_timeout, config.names), (DEFAULT_SESSION, Names::Mutex));
        }
        let config =
            Config::parse("zookeeper://h?session_timeout=4s&timeout=1s&curator=read-write").expect("it");
        assert_eq!((config.session_timeout.as_secs(), config.timeout.as_secs()), (4, 1));
        assert_eq!(config.names, Names::ReadWrite);
        let files = Config::parse("zookeepers://h?ca=/a.pem&cert=/c.pem&key=/k.pem").expect("files").files;
        assert!(files.is_some_and(|files| files.authorities.is_some() && files.key.is_some()));
    }

    #[test]
    fn what_the_build_lacks_is_told_with_its_feature() {
        for (url, feature, on) in [
            ("zookeepers://u:s3cret@h?ca=/none.pem", "`tls`", cfg!(feature = "tls")),
            ("zookeeper://u:s3cret@h?auth=sasl", "`zookeeper-sasl`", cfg!(feature = "zookeeper-sasl")),
        ] {
            let text = match Config::parse(url).and_then(Config::secured) {
                Ok(config) => format!("{config:?}"),
                Err(error) => {
                    assert_eq!(error.kind() == LockErrorKind::Unsupported, !on, "{error}");
                    format!("{error} {error:?}")
                }
            };
            assert_eq!(text.contains(feature), !on, "{text}");
            assert!(!text.contains("s3cret"), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_and_no_password_shown() {
        for (url, expected) in [
            ("http://u:s3cret@h", "begins with neither"),
            ("zookeeper://u:s3cret@h?ca=/a.pem", "options of a `zookeepers://` URL"),
            ("zookeepers://u:s3cret@h?cert=/a.pem", "without its `key`"),
            ("zookeeper://u:s3cret@h?auth=gssapi", "GSSAPI (Kerberos) is not supported"),
            ("zookeeper://u:s3cret@h?auth=plain", "is `digest`"),
            ("zookeeper://:s3cret@h", "wants a user"),
            ("zookeeper://u:s3cret@h//a", "has an empty part"),
            ("zookeeper://u:s3cret@h/zookeeper", "of ZooKeeper itself"),
            ("zookeeper://u:s3cret@h/a/../b", "a part of dots"),
            ("zookeeper://u:s3cret@h?curator=latch", "`mutex`"),
            ("zookeeper://u:s3cret@h?session=1s", "did you mean `session_timeout`?"),
            ("zookeeper://u:s3cret@h?timeout=0s", "a duration above zero"),
            ("zookeeper://u:s3cret@", "has no host"),
            // This password has an unescaped `/`.
            ("zookeeper://u:/s3cret@h/a", "`%2F` for a `/` in a password"),
        ] {
            let error = Config::parse(url).expect_err(url);
            assert!(error.to_string().contains(expected), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        }
        if cfg!(feature = "zookeeper-sasl") {
            for (url, expected) in [
                ("zookeeper://h?auth=sasl", "needs a user and a password"),
                ("zookeeper://a%22b:s3cret@h?auth=sasl", "without `\"`"),
            ] {
                let error = Config::parse(url).expect_err(url).to_string();
                assert!(error.contains(expected) && !error.contains("s3cret"), "{error}");
            }
        }
        let config = Config::parse("zookeeper://u:s3cret@h").expect("a URL");
        assert_eq!(config.to_string(), "ZooKeeper at h:2181");
        assert!(!format!("{config:?}").contains("s3cret"));
    }
}
