//! Starts examples as a reader would, and checks their tables. The tests of several stores include this module.
#![allow(dead_code, reason = "each store uses its part")]

pub(crate) mod import;
pub(crate) mod scheduler;

use std::process::ExitStatus;
use std::time::Duration;

use lock_tests::{Worker, wait_until};
use rusqlite::{Connection, Row};

/// The longest time that a program may take on a busy machine.
const LONGEST: Duration = Duration::from_secs(240);

/// A running program.
pub(crate) struct Program(Worker);

impl Program {
    pub(crate) fn start(program: &str, arguments: &[&str], locks: &str, database: &str) -> Self {
        let variables = [("LOCK_URL", locks), ("DATABASE_URL", database)];
        Self(Worker::start_with(program, arguments, &variables))
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.process().exited().is_some()
    }

    /// Waits until the program ends. Returns its exit status and its output.
    pub(crate) async fn ended(mut self) -> (ExitStatus, String) {
        let mut status = None;
        wait_until("the program ends", LONGEST, async || {
            status = self.0.process().exited();
            status.is_some()
        })
        .await;
        let mut lines = Vec::new();
        while let Some(line) = self.0.line().await {
            lines.push(line);
        }
        (status.expect("it has ended"), lines.join("\n"))
    }
}

/// Returns the rows of a query in a file of SQLite.
pub(crate) fn rows<T>(
    file: &str,
    sql: &str,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.prepare(sql)?.query_map([], read)?.collect()
}

/// Returns the number that a query finds, or 0 while the tables do not exist.
pub(crate) fn number(file: &str, sql: &str) -> i64 {
    rows(file, sql, |row| row.get(0)).ok().and_then(|rows| rows.first().copied()).unwrap_or(0)
}
