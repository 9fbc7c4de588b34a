//! Parses the URL.

use super::form::FORM;
use super::hosts::Hosts;
use super::{Address, Config};
use crate::error::{LockError, LockErrorKind, Result};

impl Config {
    /// Parses a URL. Errors never repeat the URL, because it may contain a password.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let Some(("postgres" | "postgresql", rest)) = url.split_once("://") else {
            return Err(FORM.invalid("this scheme is not one of the Postgres backend"));
        };
        let (rest, options) = FORM.options(rest)?;
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        FORM.check_path(database)?;
        let (user, password, hosts) = login(authority)?;
        let (mut driver, mut named_hosts) = (tokio_postgres::Config::new(), Hosts::read(hosts)?);
        if let Some(user) = user {
            driver.user(user);
        }
        if let Some(password) = password {
            driver.password(password);
        }
        if !database.is_empty() {
            driver.dbname(FORM.decode(database)?);
        }
        let mut config = Self::new(Address(Vec::new()), driver);
        // `sslmode` is set first, even if it is the last option, because the TLS files need it.
        let (mode, others): (Vec<_>, Vec<_>) = options.into_iter().partition(|(name, _)| *name == "sslmode");
        for (name, value) in mode.into_iter().chain(others) {
            match name {
                "host" | "port" => named_hosts.set(name, value)?,
                _ => config.set(name, value)?,
            }
        }
        config.address = named_hosts.address()?;
        match &config.tls {
            Some(_) if config.prefers_tls && !cfg!(feature = "tls") => Ok(Self { tls: None, ..config }),
            Some(_) if !cfg!(feature = "tls") => Err(LockError::new(
                LockErrorKind::Unsupported,
                "this build has no TLS for Postgres: add the feature `tls` to lock-core in Cargo.toml",
            )),
            Some(files) => files.check(&FORM).map(|()| config),
            None => Ok(config),
        }
    }
}

/// Splits `user[:password]@hosts`. A user without a password is common: the server may trust the user, or use a
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
