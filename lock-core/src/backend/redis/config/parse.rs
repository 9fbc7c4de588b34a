//! Parses each form of the URL.

use std::path::Path;

use super::durability::MinReplicas;
use super::form::FORM;
use super::{Address, Config, Sentinels};
use crate::backend::remote::TlsFiles;
use crate::error::{LockError, LockErrorKind, Result};

const DEFAULT_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl Config {
    /// Parses a URL. Errors never repeat the URL, because it may contain a password.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| FORM.invalid("the Redis URL has no scheme"))?;
        let (rest, options) = FORM.options(rest)?;
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
            _ => return Err(FORM.invalid("this scheme is not one of the Redis backend")),
        };
        config.tls = tls;
        config.check_tls()?;
        for (name, value) in options {
            config.set(name, value)?;
        }
        if config.min_replicas == MinReplicas::Assumed && config.durability.is_none() {
            return Err(FORM.invalid("the option `min_replicas` of the Redis URL belongs to `durability`"));
        }
        if let Some(files) = &config.tls {
            files.check(&FORM)?;
        }
        Ok(config)
    }

    /// Returns an error if the settings require TLS and this build does not support it.
    pub(super) fn check_tls(&self) -> Result<()> {
        if self.tls.is_some() && !cfg!(feature = "tls") {
            return Err(LockError::new(
                LockErrorKind::Unsupported,
                "this build has no TLS for Redis: add the feature `tls` to lock-core in Cargo.toml",
            ));
        }
        Ok(())
    }

    fn tcp(rest: &str) -> Result<Self> {
        let (authority, db) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, password, host) = FORM.credentials(authority)?;
        if host.contains(',') {
            return Err(FORM.invalid(
                "a `redis://` URL names one server; several are `redis+cluster://h1,h2,h3` (nodes of one Cluster), \
                 `redis+sentinel://h1,h2,h3/primary` (the sentinels of one primary) or `redlock://h1,h2,h3` (servers that \
                 share nothing, of which a majority decides)",
            ));
        }
        let (host, port) = FORM.host_and_port(host, DEFAULT_PORT)?;
        let db = match db {
            "" => 0,
            db => number(db).ok_or_else(|| FORM.invalid("the database in the Redis URL is not a number"))?,
        };
        Ok(Self::new(Address::Tcp { host, port }, user, password, db))
    }

    /// Parses `user:password@h1:26379,h2,h3/mymaster/db`. The user and the password are for the primary, not for the
    /// sentinels.
    fn sentinel(rest: &str) -> Result<Self> {
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, password, hosts) = FORM.credentials(authority)?;
        let (master, db) = path.split_once('/').unwrap_or((path, ""));
        let master = FORM.decode(master)?;
        if master.is_empty() {
            return Err(FORM
                .invalid("the URL of the sentinels names no primary: `redis+sentinel://h1,h2,h3/mymaster`"));
        }
        let places = FORM.hosts(hosts, SENTINEL_PORT)?;
        let db = match db {
            "" => 0,
            db => number(db).ok_or_else(|| FORM.invalid("the database in the Redis URL is not a number"))?,
        };
        Ok(Self::new(Address::Sentinel(Sentinels { places, master }), user, password, db))
    }

    /// Parses `user:password@h1,h2,h3`. The hosts may be any nodes of the Cluster, and some may be down.
    fn cluster(rest: &str) -> Result<Self> {
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, password, hosts) = FORM.credentials(authority)?;
        if !matches!(path, "" | "0") {
            return Err(
                FORM.invalid("a Redis Cluster has no databases: nothing may stand behind the `/` of its URL")
            );
        }
        let places = FORM.hosts(hosts, DEFAULT_PORT)?;
        Ok(Self::new(Address::Cluster(places), user, password, 0))
    }

    fn unix(rest: &str) -> Result<Self> {
        let (authority, _) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, password, host) = FORM.credentials(authority)?;
        let path = &rest[authority.len()..];
        if !host.is_empty() || path.len() < 2 {
            return Err(FORM.invalid("the path of the Redis socket must be absolute"));
        }
        let path = Path::new(&FORM.decode(path)?).to_path_buf();
        Ok(Self::new(Address::Unix(path), user, password, 0))
    }
}

/// Reads the number of a database. The server checks the maximum.
pub(super) fn number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number| (0..=i64::from(i32::MAX)).contains(number))
}
