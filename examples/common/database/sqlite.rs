//! A file of SQLite.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, TransactionBehavior, params_from_iter};

use super::{Result, Row, Statement, Value};

/// A file of SQLite. A statement takes some microseconds, so it runs on the calling thread, not on a blocking thread.
#[derive(Debug)]
pub(crate) struct Sqlite(Mutex<Connection>);

/// Replaces `$1` by `?1`, because SQLite reads a number after `$` as a name.
fn numbered(sql: &str) -> String {
    sql.replace('$', "?")
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Number(number) => ToSqlOutput::from(*number),
            Self::Text(text) => ToSqlOutput::from(text.as_str()),
        })
    }
}

impl Sqlite {
    pub(super) fn open(file: &str) -> Result<Self> {
        let connection = Connection::open(file)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        // With these settings, the file survives the death of a process, but not a crash of the machine. These programs
        // do not test such a crash.
        connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;")?;
        Ok(Self(Mutex::new(connection)))
    }

    pub(super) fn script(&self, sql: &str) -> Result<()> {
        Ok(self.connection().execute_batch(sql)?)
    }

    pub(super) fn change(&self, sql: &str, values: &[Value]) -> Result<u64> {
        let rows = self.connection().prepare_cached(&numbered(sql))?.execute(params_from_iter(values))?;
        Ok(u64::try_from(rows)?)
    }

    pub(super) fn all_if_first(&self, statements: &[Statement<'_>]) -> Result<bool> {
        let mut connection = self.connection();
        let all = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (number, (sql, values)) in statements.iter().enumerate() {
            let changed = all.prepare_cached(&numbered(sql))?.execute(params_from_iter(*values))?;
            if number == 0 && changed == 0 {
                // The drop of the transaction rolls it back.
                return Ok(false);
            }
        }
        all.commit()?;
        Ok(true)
    }

    pub(super) fn rows(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(&numbered(sql))?;
        let columns = statement.column_count();
        let rows = statement.query_map(params_from_iter(values), |row| {
            let value = |column| {
                Ok(match row.get_ref(column)? {
                    ValueRef::Integer(number) => Value::Number(number),
                    other => Value::Text(other.as_str()?.to_owned()),
                })
            };
            (0..columns).map(value).collect::<rusqlite::Result<Vec<_>>>().map(Row)
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A statement that panicked has ended its transaction.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
