//! Checks whether a server may hold locks. This check is the *probe* of a new connection.

use std::sync::Arc;

use super::connection::{Connection, ServerProcess, text};
use crate::backend::postgres::config::{SEARCH_PATH, STATEMENT_TIMEOUT};
use crate::backend::postgres::error::Failure;
use crate::backend::postgres::sql::{VERSION, identifier};
use crate::error::LockErrorKind;

/// The oldest server that can run the functions of the migration.
const OLDEST: i32 = 12;

const PROBE: &str = "SELECT current_setting('server_version_num')::integer / 10000, pg_is_in_recovery(), \
                     current_setting('server_encoding'), current_setting('transaction_isolation'), \
                     current_setting('statement_timeout'), to_regclass($1 || '.version') IS NOT NULL, \
                     current_setting('transaction_read_only')::boolean, current_setting('search_path'), pg_backend_pid(), \
                     (SELECT a.backend_start::text FROM pg_catalog.pg_stat_activity a WHERE a.pid = pg_backend_pid())";

/// The facts that a server reports about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    version: i32,
    standby: bool,
    read_only: bool,
    encoding: String,
    isolation: String,
    statement_timeout: String,
    search_path: String,
    pub(super) has_tables: bool,
    pub(super) process: ServerProcess,
}

impl Facts {
    pub(super) async fn ask(connection: &Arc<Connection>, schema: &str) -> Result<Self, Failure> {
        let rows = connection.query(PROBE, vec![text(identifier(schema))]).await?;
        let row = rows.first().ok_or_else(|| Failure::unexpected("no row"))?;
        let read = || -> Result<Self, tokio_postgres::Error> {
            Ok(Self {
                version: row.try_get(0)?,
                standby: row.try_get(1)?,
                encoding: row.try_get(2)?,
                isolation: row.try_get(3)?,
                statement_timeout: row.try_get(4)?,
                has_tables: row.try_get(5)?,
                read_only: row.try_get(6)?,
                search_path: row.try_get(7)?,
                process: ServerProcess {
                    pid: row.try_get(8)?,
                    // `None` if the user may not see any session, not even this one.
                    started: row.try_get::<_, Option<String>>(9)?.unwrap_or_default(),
                },
            })
        };
        read().map_err(|error| Failure::from_driver(&error))
    }

    /// Returns whether the session lacks the settings that the login requested. If so, a pooler shares its connections.
    pub(super) fn is_pooled(&self) -> bool {
        self.statement_timeout != STATEMENT_TIMEOUT
    }

    /// Returns whether the session has all settings of the library, and keeps them.
    pub(super) fn has_settings(&self) -> bool {
        !self.is_pooled() && self.search_path == SEARCH_PATH
    }

    /// Refuses a server that cannot hold locks.
    pub(super) fn examine(&self) -> Result<(), Failure> {
        let unsupported = |text: String| Err(Failure::new(LockErrorKind::Unsupported, text));
        if self.version < OLDEST {
            return unsupported(format!(
                "the server is Postgres {}; {OLDEST} is the oldest that works",
                self.version
            ));
        }
        if self.standby {
            return Err(Failure::standby());
        }
        if self.read_only {
            return Err(Failure::read_only());
        }
        if self.encoding != "UTF8" {
            let encoding = &self.encoding;
            return unsupported(format!(
                "the database is in {encoding}; locks need one in UTF8, for any text is a key"
            ));
        }
        if self.isolation != "read committed" {
            let isolation = &self.isolation;
            return unsupported(format!(
                "transactions are {isolation} by default; set `default_transaction_isolation` of the user or the database \
                 to `read committed`"
            ));
        }
        Ok(())
    }
}

/// Refuses the tables of an earlier version.
pub(crate) async fn check_version(connection: &Arc<Connection>, statement: &str) -> Result<(), Failure> {
    let rows = connection.query(statement, Vec::new()).await?;
    let number = rows.first().and_then(|row| row.try_get::<_, i32>(0).ok());
    match number {
        Some(number) if number >= VERSION => Ok(()),
        _ => Err(Failure::not_migrated()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_hold_locks_is_refused() {
        let good = Facts {
            version: 15,
            standby: false,
            read_only: false,
            encoding: "UTF8".to_owned(),
            isolation: "read committed".to_owned(),
            statement_timeout: STATEMENT_TIMEOUT.to_owned(),
            search_path: SEARCH_PATH.to_owned(),
            has_tables: true,
            process: ServerProcess { pid: 7, started: String::new() },
        };
        good.examine().expect("a primary in UTF8");
        assert!(!good.is_pooled() && good.has_settings());
        assert!(Facts { statement_timeout: "0".to_owned(), ..good.clone() }.is_pooled());
        assert!(!Facts { statement_timeout: "0".to_owned(), ..good.clone() }.has_settings());
        assert!(!Facts { search_path: "public".to_owned(), ..good.clone() }.has_settings());
        let table = [
            (Facts { version: 11, ..good.clone() }, "12 is the oldest"),
            (Facts { standby: true, read_only: true, ..good.clone() }, "connect to its primary"),
            (Facts { read_only: true, ..good.clone() }, "`default_transaction_read_only`"),
            (Facts { encoding: "SQL_ASCII".to_owned(), ..good.clone() }, "need one in UTF8"),
            (Facts { isolation: "serializable".to_owned(), ..good }, "`read committed`"),
        ];
        for (facts, expected) in table {
            let failure = facts.examine().expect_err(expected);
            assert!(failure.text().contains(expected) && failure.is_permanent(), "{failure:?}");
        }
    }
}
