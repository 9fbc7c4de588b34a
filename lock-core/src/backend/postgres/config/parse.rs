//! The parser of the URL.

use super::form::FORM;
use super::{Address, Config, Place};
use crate::error::{LockError, LockErrorKind, Result};

pub(super) const DEFAULT_PORT: u16 = 5432;

impl Config {
    /// Parses a URL. The errors never repeat it, because a URL holds a password.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let Some(("postgres" | "postgresql", rest)) = url.split_once("://") else {
            return Err(FORM.invalid("this scheme is not one of the Postgres backend"));
        };
        let (rest, options) = FORM.options(rest)?;
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        FORM.check_path(database)?;
        let (user, password, hosts) = login(authority)?;
        let mut config = Self::new(Address(Vec::new()), user, password);
        if !hosts.is_empty() {
            let hosts = FORM.hosts(hosts, DEFAULT_PORT)?;
            config.address.0 = hosts.into_iter().map(|(host, port)| Place::Tcp { host, port }).collect();
        }
        config.database = Some(FORM.decode(database)?).filter(|name| !name.is_empty());
        for (name, value) in options {
            config.set(name, value)?;
        }
        if config.address.0.is_empty() {
            return Err(FORM.invalid("the Postgres URL has no host"));
        }
        match &config.tls {
            Some(_) if !cfg!(feature = "postgres-tls") => Err(LockError::new(
                LockErrorKind::Unsupported,
                "this build has no TLS for Postgres: add the feature `postgres-tls` to lock-core in Cargo.toml",
            )),
            Some(files) => files.check(&FORM).map(|()| config),
            None => Ok(config),
        }
    }
}

/// Splits `user[:password]@hosts`. A user without a password is common: the server may trust it, or know its
/// certificate.
fn login(authority: &str) -> Result<(Option<String>, Option<String>, &str)> {
    match authority.rsplit_once('@') {
        Some((user, hosts)) if !user.contains(':') => {
            let user = FORM.decode(user)?;
            Ok((Some(user).filter(|user| !user.is_empty()), None, hosts))
        }
        _ => FORM.credentials(authority),
    }
}
