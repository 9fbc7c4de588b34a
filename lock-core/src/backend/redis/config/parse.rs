//! The forms that a URL has.

use std::path::Path;

use super::settings::TlsFiles;
use super::text::{credentials, decode, host_and_port, invalid, number};
use super::{Address, Config, Sentinels};
use crate::backend::redis::durability::MinReplicas;
use crate::error::{LockError, LockErrorKind, Result};

const DEFAULT_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl Config {
    /// Reads a URL. The errors never repeat it, because a URL holds a password.
    pub(in crate::backend::redis) fn parse(url: &str) -> Result<Self> {
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
        if host.contains(',') {
            return Err(invalid(
                "a `redis://` URL names one server; several are `redis+cluster://h1,h2,h3` (nodes of one Cluster), \
                 `redis+sentinel://h1,h2,h3/primary` (the sentinels of one primary) or `redlock://h1,h2,h3` (servers that \
                 share nothing, of which a majority decides)",
            ));
        }
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
}
