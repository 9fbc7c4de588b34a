//! Checks the settings of advisory locks.

use std::time::Duration;

use super::settings::SCHEMA;
use super::{Config, Listen};
use crate::error::{LockError, LockErrorKind, Result};

/// The default session timeout, the same as in the ZooKeeper store.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// The limits of the session timeout. With a shorter timeout, a pause of the machine would end sessions.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60 * 60);

impl Config {
    /// Returns the time after which the server ends a silent session of advisory locks.
    pub(crate) fn session_timeout(&self) -> Duration {
        self.session_timeout.unwrap_or(SESSION_TIMEOUT)
    }

    pub(crate) fn set_session_timeout(&mut self, timeout: Duration) {
        self.session_timeout = Some(timeout);
    }

    /// Refuses options that have no meaning for advisory locks.
    pub(crate) fn check_advisory(&self) -> Result<()> {
        let timeout = self.session_timeout();
        if !(SHORTEST..=LONGEST).contains(&timeout) {
            return Err(invalid(format!(
                "`session_timeout` is {timeout:?}: it is {SHORTEST:?} to {LONGEST:?}"
            )));
        }
        let named = match () {
            () if self.schema != SCHEMA => "schema",
            () if self.migrate => "migrate",
            () if !matches!(self.listen, Listen::Here) => "listen",
            () => return Ok(()),
        };
        Err(invalid(format!(
            "`{named}` has no meaning with `mode=advisory`, which has neither tables nor notifications"
        )))
    }

    /// Refuses options that have no meaning for leases in tables.
    pub(crate) fn check_leases(&self) -> Result<()> {
        match () {
            () if self.advisory => Err(invalid(
                "`mode=advisory` is another store: `PostgresAdvisory::connect`, or `LockManager::connect`"
                    .to_owned(),
            )),
            () if self.session_timeout.is_some() => Err(invalid(
                "`session_timeout` belongs to `mode=advisory`: the leases of the tables have no session"
                    .to_owned(),
            )),
            () => Ok(()),
        }
    }
}

fn invalid(detail: String) -> LockError {
    LockError::new(LockErrorKind::InvalidRequest, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_has_its_options() {
        let table = [
            ("", None, None),
            ("?mode=leases", None, None),
            ("?mode=advisory", None, Some("another store")),
            ("?session_timeout=2s", None, Some("belongs to `mode=advisory`")),
            ("?mode=advisory&session_timeout=2s", None, Some("another store")),
            ("?session_timeout=999ms", Some("1s to"), Some("belongs to")),
            ("?session_timeout=2h", Some("1s to"), Some("belongs to")),
            ("?schema=shop", Some("`schema`"), None),
            ("?migrate=true", Some("`migrate`"), None),
            ("?listen=off", Some("`listen`"), None),
        ];
        for (options, advisory, leases) in table {
            let config = Config::parse(&format!("postgres://h/{options}")).expect(options);
            for (checked, expected) in [(config.check_advisory(), advisory), (config.check_leases(), leases)]
            {
                match (checked, expected) {
                    (Ok(()), None) => {}
                    (Err(error), Some(expected)) => {
                        assert!(error.to_string().contains(expected), "{options}: {error}")
                    }
                    (checked, expected) => panic!("{options}: {checked:?} {expected:?}"),
                }
            }
        }
        assert_eq!(Config::parse("postgres://h").expect("a URL").session_timeout(), SESSION_TIMEOUT);
        let error = Config::parse("postgres://h?mode=both").expect_err("no such mode");
        assert!(error.to_string().contains("`leases` or `advisory`"), "{error}");
    }
}
