//! A stock in a file.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::database::{COUNT, LOOK, NOTE, Order, Result, SCHEMA, TAKE, Taken, WRITE};

/// A stock in a file. A statement takes some microseconds, so it runs on the calling thread, not on a blocking thread.
#[derive(Debug)]
pub(crate) struct Sqlite {
    file: PathBuf,
    /// Whether this process created the file, and so removes it at the end.
    own: bool,
    connection: Mutex<Connection>,
    take: String,
    look: String,
    write: String,
    note: String,
}

/// Replaces `$1` by `?1`, because SQLite reads a number after `$` as a name.
fn numbered(sql: &str) -> String {
    sql.replace('$', "?")
}

impl Sqlite {
    pub(super) fn open(file: &Path, own: bool) -> Result<Self> {
        if own {
            remove(file);
        }
        let connection = Connection::open(file)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        // With these settings a power cut may lose the sale. This program does not test power cuts.
        connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;")?;
        connection.execute_batch(SCHEMA)?;
        let [take, look, write, note] = [TAKE, LOOK, WRITE, NOTE].map(numbered);
        Ok(Self { file: file.to_owned(), own, connection: Mutex::new(connection), take, look, write, note })
    }

    pub(super) fn place(&self) -> String {
        self.file.to_string_lossy().into_owned()
    }

    pub(super) fn execute(&self, sql: &str) -> Result<()> {
        Ok(self.connection().execute_batch(sql)?)
    }

    pub(super) fn take(&self, order: Order<'_>, fence: i64) -> Result<Taken> {
        let Order { item, buyer, request } = order;
        let mut connection = self.connection();
        let both = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let taken: Option<i64> =
            both.prepare_cached(&self.take)?.query_row(params![item, fence], |row| row.get(0)).optional()?;
        if taken.is_none() {
            let (remaining, seen) =
                both.prepare_cached(&self.look)?.query_row([item], |row| Ok((row.get(0)?, row.get(1)?)))?;
            return Ok(Taken::not(remaining, seen, fence));
        }
        both.prepare_cached(&self.note)?.execute(params![item, buyer, request])?;
        both.commit()?;
        Ok(Taken::Sold)
    }

    pub(super) fn remaining(&self, item: &str) -> Result<i64> {
        Ok(self.connection().prepare_cached(&self.look)?.query_row([item], |row| row.get(0))?)
    }

    pub(super) fn write(&self, order: Order<'_>, remaining: i64) -> Result<()> {
        let connection = self.connection();
        connection.prepare_cached(&self.write)?.execute(params![order.item, remaining])?;
        connection.prepare_cached(&self.note)?.execute(params![order.item, order.buyer, order.request])?;
        Ok(())
    }

    pub(super) fn count(&self, item: &str) -> Result<(i64, i64)> {
        Ok(self.connection().query_row(&numbered(COUNT), [item], |row| Ok((row.get(0)?, row.get(1)?)))?)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A statement that panicked has ended its transaction.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        if self.own {
            remove(&self.file);
        }
    }
}

/// Removes the file of a stock, and the other files of SQLite beside it.
fn remove(file: &Path) {
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", file.display()));
    }
}
