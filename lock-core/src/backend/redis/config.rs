//! The URL of a Redis server, read once.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::redis::{ProtocolVersion, RedisConnectionInfo};

use super::durability::{Durability, MinReplicas};
use crate::error::{LockError, LockErrorKind, Result};

/// A dial that takes longer than this has most likely lost a packet on a network that drops them for good.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// A healthy server answers in less than a millisecond; half a second survives two retransmissions.
const CALL_TIMEOUT: Duration = Duration::from_millis(500);
const DEFAULT_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
const FORM: &str = "expected `redis[s]://[user:password@]host[:port][/db]` or `unix://[user:password@]/path/to.sock`, \
                    with `?connect_timeout=1s&timeout=500ms` if need be; percent-encode special characters of the \
                    password";

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Tcp {
        host: String,
        port: u16,
    },
    Unix(PathBuf),
    /// Wherever the sentinels say.
    Sentinel(Sentinels),
    /// Wherever these, and the nodes that they know, say: host and port, at least one.
    Cluster(Vec<(String, u16)>),
}

/// Who knows where the primary is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sentinels {
    /// Host and port; at least one.
    pub(super) places: Vec<(String, u16)>,
    /// The name under which they watch it.
    pub(super) master: String,
}

impl Address {
    /// Every host that it names.
    pub(super) fn hosts(&self) -> impl Iterator<Item = &str> {
        let (one, more): (_, &[(String, u16)]) = match self {
            Self::Tcp { host, .. } => (Some(host.as_str()), &[]),
            Self::Unix(_) => (None, &[]),
            Self::Sentinel(sentinels) => (None, &sentinels.places),
            Self::Cluster(places) => (None, places),
        };
        one.into_iter().chain(more.iter().map(|(host, _)| host.as_str()))
    }

    fn tcp(host: &str, port: u16) -> Self {
        Self::Tcp { host: host.to_owned(), port }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
            Self::Sentinel(sentinels) => {
                write!(f, "{} (by the sentinels {})", sentinels.master, listed(&sentinels.places))
            }
            Self::Cluster(places) => write!(f, "the cluster of {}", listed(places)),
        }
    }
}

fn listed(places: &[(String, u16)]) -> String {
    let places: Vec<_> = places.iter().map(|(host, port)| Address::tcp(host, *port).to_string()).collect();
    places.join(", ")
}

/// The PEM files of a `rediss://` URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TlsFiles {
    /// Who may have signed the server's certificate; without it, whom the system trusts.
    pub(super) authorities: Option<PathBuf>,
    /// What this client shows; without it, nothing.
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

/// Everything that the URL says. `Debug` shows no credentials.
#[derive(Clone)]
pub(super) struct Config {
    pub(super) address: Address,
    user: Option<String>,
    password: Option<String>,
    pub(super) db: i64,
    /// User and password of the sentinels.
    pub(super) sentinel_login: Option<(Option<String>, String)>,
    /// `rediss://`.
    pub(super) tls: Option<TlsFiles>,
    /// Who has to have a lock before it counts.
    pub(super) durability: Option<Durability>,
    /// What to do where `min-replicas-to-write` cannot be read.
    pub(super) min_replicas: MinReplicas,
    /// For one dial, from the look-up of the name to the last probe.
    pub(super) connect_timeout: Duration,
    /// For one call, reconnecting included.
    pub(super) timeout: Duration,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("address", &format_args!("{}", self.address))
            .field("db", &self.db)
            .field("tls", &self.tls)
            .field("durability", &self.durability)
            .field("credentials", &self.password.as_ref().map(|_| format_args!("..")))
            .field("connect_timeout", &self.connect_timeout)
            .field("timeout", &self.timeout)
            .finish()
    }
}

impl Config {
    /// Reads a URL. The errors never repeat it, because a URL holds a password.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| invalid("the Redis URL has no scheme"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (tls, scheme) = match scheme.strip_prefix("rediss") {
            Some(kind) => (Some(TlsFiles::default()), kind),
            None if scheme == "unix" => (None, "+unix"),
            None => (None, scheme.strip_prefix("redis").unwrap_or("?")),
        };
        let mut config = match scheme {
            "" => Self::tcp(rest)?,
            "+sentinel" => Self::sentinel(rest)?,
            "+cluster" => Self::cluster(rest)?,
            "+unix" if tls.is_none() => Self::unix(rest)?,
            _ => return Err(invalid("this scheme is not one of the Redis backend")),
        };
        if tls.is_some() && !cfg!(feature = "redis-tls") {
            return Err(LockError::new(
                LockErrorKind::Unsupported,
                "this build has no TLS for Redis: add the feature `redis-tls` to lock-core in Cargo.toml",
            ));
        }
        config.tls = tls;
        if query.contains('@') {
            // A password with an unescaped `?`: the rest of it must not be taken for options, and shown.
            return Err(invalid("there is an `@` behind the `?` of the Redis URL"));
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            config.set(name, value)?;
        }
        if config.min_replicas == MinReplicas::Assumed && config.durability.is_none() {
            return Err(invalid("the option `min_replicas` of the Redis URL belongs to `durability`"));
        }
        match &config.tls {
            Some(TlsFiles { certificate: Some(_), key: None, .. }) => {
                Err(invalid("the Redis URL has a `cert` without its `key`"))
            }
            Some(TlsFiles { certificate: None, key: Some(_), .. }) => {
                Err(invalid("the Redis URL has a `key` without its `cert`"))
            }
            _ => Ok(config),
        }
    }

    fn tcp(rest: &str) -> Result<Self> {
        let (authority, db) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, password, host) = credentials(authority)?;
        let (host, port) = host_and_port(host, DEFAULT_PORT)?;
        let db = match db {
            "" => 0,
            db => number(db).ok_or_else(|| invalid("the database in the Redis URL is not a number"))?,
        };
        Ok(Self::new(Address::Tcp { host, port }, user, password, db))
    }

    /// `user:password@h1:26379,h2,h3/mymaster/db`; user and password are those of the primary.
    fn sentinel(rest: &str) -> Result<Self> {
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, password, hosts) = credentials(authority)?;
        let (master, db) = path.split_once('/').unwrap_or((path, ""));
        let master = decode(master)?;
        if master.is_empty() {
            return Err(invalid(
                "the URL of the sentinels names no primary: `redis+sentinel://h1,h2,h3/mymaster`",
            ));
        }
        let place = |text: &str| host_and_port(text, SENTINEL_PORT);
        let places = hosts.split(',').map(place).collect::<Result<_>>()?;
        let db = match db {
            "" => 0,
            db => number(db).ok_or_else(|| invalid("the database in the Redis URL is not a number"))?,
        };
        Ok(Self::new(Address::Sentinel(Sentinels { places, master }), user, password, db))
    }

    /// `user:password@h1,h2,h3`; any of the nodes, and not all need be there.
    fn cluster(rest: &str) -> Result<Self> {
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, password, hosts) = credentials(authority)?;
        if !matches!(path, "" | "0") {
            return Err(invalid(
                "a Redis Cluster has no databases: nothing may stand behind the `/` of its URL",
            ));
        }
        let place = |text: &str| host_and_port(text, DEFAULT_PORT);
        let places = hosts.split(',').map(place).collect::<Result<_>>()?;
        Ok(Self::new(Address::Cluster(places), user, password, 0))
    }

    /// The same for one node of the Cluster.
    pub(super) fn of_node(&self, (host, port): (String, u16)) -> Self {
        Self { address: Address::Tcp { host, port }, ..self.clone() }
    }

    fn unix(rest: &str) -> Result<Self> {
        let (authority, _) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, password, host) = credentials(authority)?;
        let path = &rest[authority.len()..];
        if !host.is_empty() || path.len() < 2 {
            return Err(invalid("the path of the Redis socket must be absolute"));
        }
        let path = Path::new(&decode(path)?).to_path_buf();
        Ok(Self::new(Address::Unix(path), user, password, 0))
    }

    fn new(address: Address, user: Option<String>, password: Option<String>, db: i64) -> Self {
        let (connect_timeout, timeout) = (CONNECT_TIMEOUT, CALL_TIMEOUT);
        Self {
            address,
            user,
            password,
            db,
            sentinel_login: None,
            tls: None,
            durability: None,
            min_replicas: MinReplicas::Read,
            connect_timeout,
            timeout,
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "connect_timeout" => self.connect_timeout = duration("connect_timeout", value)?,
            "timeout" => self.timeout = duration("timeout", value)?,
            "durability" => {
                let durability = Durability::parse(&decode(value)?);
                self.durability = Some(durability.ok_or_else(|| {
                    invalid("the option `durability` of the Redis URL is `replicas(1)`, or `aof(1,0)`: the primary's own \
                             disk and those of so many replicas")
                })?);
            }
            "min_replicas" if value == "assumed" => self.min_replicas = MinReplicas::Assumed,
            "min_replicas" => {
                return Err(invalid("the option `min_replicas` of the Redis URL can only be `assumed`"));
            }
            "db" if !matches!(self.address, Address::Unix(_)) => {
                return Err(invalid(
                    "the database of a `redis://` URL stands in its path, `/2`, not in `db`",
                ));
            }
            "db" => {
                self.db = number(value)
                    .ok_or_else(|| invalid("the option `db` of the Redis URL is not a number"))?;
            }
            "sentinel_user" | "sentinel_password" if !matches!(self.address, Address::Sentinel(_)) => {
                return Err(invalid(
                    "`sentinel_user` and `sentinel_password` are options of a `redis+sentinel://` URL",
                ));
            }
            "sentinel_password" => {
                let user = self.sentinel_login.take().and_then(|(user, _)| user);
                self.sentinel_login = Some((user, decode(value)?));
            }
            "sentinel_user" => {
                let password = self.sentinel_login.take().map(|(_, password)| password).unwrap_or_default();
                self.sentinel_login = Some((Some(decode(value)?), password));
            }
            "ca" | "cert" | "key" => {
                let Some(tls) = &mut self.tls else {
                    return Err(invalid("`ca`, `cert` and `key` are options of a `rediss://` URL"));
                };
                let file = Some(Path::new(&decode(value)?).to_path_buf());
                if value.is_empty() {
                    return Err(invalid(
                        "`ca`, `cert` and `key` of the Redis URL need the path of a PEM file",
                    ));
                }
                match name {
                    "ca" => tls.authorities = file,
                    "cert" => tls.certificate = file,
                    _ => tls.key = file,
                }
            }
            other => return Err(unknown_option(other)),
        }
        Ok(())
    }

    /// The part of this that the driver's handshake needs.
    pub(super) fn handshake(&self) -> RedisConnectionInfo {
        let mut info = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP3)
            .set_lib_name(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
            .set_db(self.db);
        if let Some(user) = &self.user {
            info = info.set_username(user);
        }
        if let Some(password) = &self.password {
            info = info.set_password(password);
        }
        info
    }
}

/// `user:password@host` in three parts. The last `@` counts, so that an unescaped one in the password does not turn
/// a piece of it into a host name that an error would then show.
fn credentials(authority: &str) -> Result<(Option<String>, Option<String>, &str)> {
    let Some((credentials, host)) = authority.rsplit_once('@') else {
        return Ok((None, None, authority));
    };
    let Some((user, password)) = credentials.split_once(':') else {
        return Err(invalid(
            "the Redis URL names a user without a password (a password alone is `:password@`)",
        ));
    };
    let user = decode(user)?;
    Ok(((!user.is_empty()).then_some(user), Some(decode(password)?), host))
}

fn host_and_port(text: &str, default: u16) -> Result<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(v6) => {
            let (host, port) =
                v6.split_once(']').ok_or_else(|| invalid("the IPv6 address has no closing `]`"))?;
            (host, port.strip_prefix(':').unwrap_or(port))
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(invalid("the Redis URL has no host"));
    }
    let port = match port {
        "" => default,
        port => port.parse().map_err(|_| invalid("the port in the Redis URL is not a number up to 65535"))?,
    };
    Ok((host.to_owned(), port))
}

/// A database number; the server checks the upper end.
fn number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number| (0..=i64::from(i32::MAX)).contains(number))
}

fn duration(option: &'static str, value: &str) -> Result<Duration> {
    let parsed = humantime::parse_duration(value).ok().filter(|duration| !duration.is_zero());
    parsed.ok_or_else(|| {
        LockError::new(
            LockErrorKind::InvalidRequest,
            format!(
                "the option `{option}` of the Redis URL needs a duration above zero, such as `500ms` or `2s`"
            ),
        )
    })
}

fn decode(text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = tail;
            continue;
        }
        let digit = |at: usize| tail.get(at).and_then(|&digit| char::from(digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            return Err(invalid(
                "a `%` in the Redis URL is not followed by two hexadecimal digits; write `%25` for it",
            ));
        };
        bytes.push(u8::try_from(high * 16 + low).expect("BUG: two hexadecimal digits are a byte"));
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| invalid("the Redis URL is not UTF-8 after percent-decoding"))
}

fn invalid(what: &'static str) -> LockError {
    LockError::new(LockErrorKind::InvalidRequest, format!("{what}; {FORM}"))
}

/// The name is shown only when it looks like one.
fn unknown_option(name: &str) -> LockError {
    const KNOWN: &[&str] = &[
        "connect_timeout",
        "timeout",
        "db",
        "ca",
        "cert",
        "key",
        "sentinel_user",
        "sentinel_password",
        "durability",
        "min_replicas",
    ];
    let shown = name.len() <= 32 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let detail = match KNOWN.iter().find(|known| shown && alike(name, known)) {
        Some(known) => format!("unknown option `{name}` in the Redis URL; did you mean `{known}`?"),
        None if shown => {
            format!("unknown option `{name}` in the Redis URL; there are `{}`", KNOWN.join("`, `"))
        }
        None => format!("unknown option in the Redis URL; there are `{}`; {FORM}", KNOWN.join("`, `")),
    };
    LockError::new(LockErrorKind::InvalidRequest, detail)
}

/// Whether a name is a slip of another: the same letters in another order, or one the beginning of the other.
fn alike(name: &str, known: &str) -> bool {
    let sorted = |text: &str| {
        let mut letters: Vec<u8> = text.bytes().filter(|byte| *byte != b'_').collect();
        letters.sort_unstable();
        letters
    };
    sorted(name) == sorted(known) || (name.len() > 3 && (known.starts_with(name) || name.starts_with(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!((config.connect_timeout, config.timeout), (CONNECT_TIMEOUT, CALL_TIMEOUT));
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
    fn a_bad_url_says_what_was_expected() {
        let table: &[(&str, &str)] = &[
            ("localhost:6379", "has no scheme"),
            ("rediss+unix:///a", "this scheme is not one of"),
            ("redisunix:///a", "this scheme is not one of"),
            ("http://h", "this scheme is not one of"),
            ("redis://", "has no host"),
            ("redis://:6379", "has no host"),
            ("redis://h:99999", "port"),
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
            ("redis://h?tiemout=1s", "did you mean `timeout`?"),
            ("redis://h?connection_timeout=1s", "there are `connect_timeout`"),
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

    #[cfg(not(feature = "redis-tls"))]
    #[test]
    fn tls_is_refused_aloud() {
        let error = Config::parse("rediss://user:s3cret@h").expect_err("no TLS");
        assert_eq!(error.kind(), LockErrorKind::Unsupported);
        assert!(error.to_string().contains("feature `redis-tls`"), "{error}");
    }

    #[cfg(feature = "redis-tls")]
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
        // Everything that can go wrong beside a password, including one that was not escaped.
        for url in [
            "redis:/user:s3cret@h",
            "http://user:s3cret@h",
            "rediss://user:s3cret@h:port",
            "redis://s3cret@h",
            "redis://user:s3cret@h:port",
            "redis://user:s3cret@h/db",
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
}
