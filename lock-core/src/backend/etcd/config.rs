//! Parses the URL of a cluster.

use std::fmt;
use std::time::Duration;

use crate::backend::remote::tries::CONNECT_TIMEOUT;
use crate::backend::remote::{TlsFiles, UrlForm, host_port};
use crate::error::Result;

/// The form of an etcd URL, for its errors.
pub(super) const FORM: UrlForm = UrlForm {
    store: "etcd",
    expected: "expected `etcd[s]://[user:password@]host[:port],host[:port],..`, with \
               `?connect_timeout=10s&timeout=2s` if need be; percent-encode special characters of the password",
    options: &["connect_timeout", "timeout", "round_ttl", "ca", "cert", "key"],
};

const PORT: u16 = 2379;

/// The default time limit of one call, and of one dial of a store that was connected before. A healthy cluster answers
/// a read within a few milliseconds, and a write within the time that the disks of a majority need. An election takes
/// one to two seconds.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The settings of a URL. `Debug` shows no credentials.
#[derive(Clone)]
pub(super) struct Config {
    /// Host and port of each member that the URL names; at least one.
    pub(super) members: Vec<(String, u16)>,
    pub(super) user: Option<(String, String)>,
    /// The files of an `etcds://` URL; `None` without TLS.
    pub(super) tls: Option<TlsFiles>,
    /// The time limit of the first connection, from the look-up of the host name to the first answer.
    pub(super) connect_timeout: Duration,
    /// The time limit of a later dial. After a slow dial, the next limit is longer.
    pub(super) dial_timeout: Duration,
    /// The time limit of a call, including a reconnection.
    pub(super) timeout: Duration,
    /// Whether a ttl that etcd cannot store is rounded up to the next ttl that etcd can store.
    pub(super) rounds_ttl: bool,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("members", &format_args!("{self}"))
            .field("tls", &self.tls)
            .field("credentials", &self.user.as_ref().map(|_| format_args!("..")))
            .field("connect_timeout", &self.connect_timeout)
            .field("timeout", &self.timeout)
            .field("rounds_ttl", &self.rounds_ttl)
            .finish()
    }
}

/// Writes the members, without credentials.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (host, port)) in self.members.iter().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { "," }, host_port(host, *port))?;
        }
        Ok(())
    }
}

impl Config {
    /// Parses `etcd[s]://[user:password@]host[:port],..[/][?options]`.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let (secure, rest) = match url.split_once("://") {
            Some(("etcd", rest)) => (false, rest),
            Some(("etcds", rest)) => (true, rest),
            _ => return Err(FORM.invalid("the etcd URL begins with neither `etcd://` nor `etcds://`")),
        };
        let (rest, options) = FORM.options(rest)?;
        let (user, password, hosts) = FORM.credentials(rest)?;
        let hosts = hosts.strip_suffix('/').unwrap_or(hosts);
        if hosts.contains('/') {
            return Err(
                FORM.invalid("an etcd URL has no path; a prefix of the keys is the manager's namespace")
            );
        }
        let user = match (user, password) {
            (Some(user), Some(password)) => Some((user, password)),
            (None, None) => None,
            _ => return Err(FORM.invalid("the etcd URL has a password without a user")),
        };
        let mut config = Self {
            members: FORM.hosts(hosts, PORT)?,
            user,
            tls: secure.then(TlsFiles::default),
            connect_timeout: CONNECT_TIMEOUT,
            dial_timeout: TIMEOUT,
            timeout: TIMEOUT,
            rounds_ttl: false,
        };
        for (name, value) in options {
            config.set(name, value)?;
        }
        if let Some(tls) = &config.tls {
            tls.check(&FORM)?;
        }
        Ok(config)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match (name, &mut self.tls) {
            ("connect_timeout", _) => {
                self.connect_timeout = FORM.duration("connect_timeout", value)?;
                self.dial_timeout = self.connect_timeout;
            }
            ("timeout", _) => self.timeout = FORM.duration("timeout", value)?,
            ("round_ttl", _) if value == "up" => self.rounds_ttl = true,
            ("round_ttl", _) => {
                return Err(FORM.invalid(format_args!(
                    "`round_ttl` is `{value}`: the only value is `up`; without the option a ttl is not rounded"
                )));
            }
            ("ca" | "cert" | "key", Some(tls)) => tls.set(&FORM, name, value)?,
            ("ca" | "cert" | "key", None) => {
                return Err(FORM.invalid("`ca`, `cert` and `key` are options of an `etcds://` URL"));
            }
            (other, _) => return Err(FORM.unknown_option(other)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LockErrorKind;

    #[test]
    fn every_part_of_a_url_is_read() {
        let table = [
            ("etcd://h", "h:2379", None),
            ("etcd://a,b:1,[::1]:2/", "a:2379,b:1,[::1]:2", None),
            ("etcd://app:s3%40cret@a,b", "a:2379,b:2379", Some(("app", "s3@cret"))),
        ];
        for (url, members, user) in table {
            let config = Config::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            let found = config.user.as_ref().map(|(user, password)| (user.as_str(), password.as_str()));
            assert_eq!((config.to_string().as_str(), found), (members, user), "{url}");
            assert!(!format!("{config:?}").contains("s3"), "{config:?}");
        }
        let config = Config::parse("etcd://h?timeout=3s&connect_timeout=500ms").expect("options");
        assert_eq!((config.timeout, config.connect_timeout), (Duration::from_secs(3), TIMEOUT / 4));
        assert_eq!(config.dial_timeout, TIMEOUT / 4);
        assert!(!config.rounds_ttl && Config::parse("etcd://h?round_ttl=up").expect("it rounds").rounds_ttl);
        let config = Config::parse("etcds://h?ca=/a.pem&cert=/c.pem&key=/k.pem").expect("files");
        assert!(config.tls.is_some_and(|tls| tls.authorities.is_some() && tls.key.is_some()));
    }

    #[test]
    fn what_is_wrong_is_named_without_the_password() {
        let table = [
            ("etcd://", "no host"),
            ("etcd://h/prefix", "namespace"),
            ("etcd://:s3cret@h", "a password without a user"),
            ("etcd://h?ca=/a.pem", "options of an `etcds://` URL"),
            ("etcds://h?cert=/a.pem", "without its `key`"),
            ("etcd://h?round_ttl=down", "the only value is `up`"),
            ("etcd://h?tiemout=1s", "did you mean `timeout`?"),
            ("etcd://app:s3cret@h:99999", "up to 65535"),
            ("http://h", "begins with neither"),
        ];
        for (url, expected) in table {
            let error = Config::parse(url).expect_err(url);
            assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{url}");
            assert!(error.to_string().contains(expected), "{url}: {error}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
    }
}
