//! One database: a Postgres server, or a file of SQLite. This code is not about locks.

mod postgres;
mod sqlite;
mod value;

use postgres::Postgres;
use sqlite::Sqlite;
pub(crate) use value::{Row, Value};

use super::variable;

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// A statement with `$1`, `$2` .. and their values.
pub(crate) type Statement<'a> = (&'a str, &'a [Value]);

#[derive(Debug)]
pub(crate) enum Database {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

impl Database {
    /// Opens the database at `place`: `postgres://..`, or the path of a file.
    pub(crate) async fn open(place: &str) -> Result<Self> {
        if place.starts_with("postgres") {
            return Ok(Self::Postgres(Box::new(Postgres::connect(place).await?)));
        }
        if let Some((scheme, _)) = place.split_once("://") {
            return Err(format!(
                "DATABASE_URL names `{scheme}://`: expected `postgres://..` or the path of a file"
            )
            .into());
        }
        Ok(Self::Sqlite(Sqlite::open(place)?))
    }

    /// Returns the name of the database for people.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "a file of SQLite",
            Self::Postgres(_) => "Postgres",
        }
    }

    /// Executes several statements without values.
    pub(crate) async fn script(&self, sql: &str) -> Result<()> {
        match self {
            Self::Sqlite(sqlite) => sqlite.script(sql),
            Self::Postgres(postgres) => postgres.script(sql).await,
        }
    }

    /// Executes a statement. Returns how many rows it changed.
    pub(crate) async fn change(&self, sql: &str, values: &[Value]) -> Result<u64> {
        match self {
            Self::Sqlite(sqlite) => sqlite.change(sql, values),
            Self::Postgres(postgres) => postgres.change(sql, values).await,
        }
    }

    /// Executes all `statements` in one transaction. If the first one changes no row, executes none of them and returns
    /// `false`.
    ///
    /// In this way a fencing token protects several rows: the first statement compares the token.
    pub(crate) async fn all_if_first(&self, statements: &[Statement<'_>]) -> Result<bool> {
        match self {
            Self::Sqlite(sqlite) => sqlite.all_if_first(statements),
            Self::Postgres(postgres) => postgres.all_if_first(statements).await,
        }
    }

    /// Returns the rows of a query.
    pub(crate) async fn rows(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>> {
        match self {
            Self::Sqlite(sqlite) => sqlite.rows(sql, values),
            Self::Postgres(postgres) => postgres.rows(sql, values).await,
        }
    }
}

/// The place of the tables: the database that `DATABASE_URL` names, or else a temporary file of this process that is
/// removed at the end.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) name: String,
    own: bool,
}

impl Place {
    pub(crate) fn from_env(program: &str) -> Result<Self> {
        let named = variable::read("DATABASE_URL")?;
        Ok(named.map_or_else(|| Self::temporary(program), |name| Self { name, own: false }))
    }

    /// Returns the name of a new file in the temporary folder.
    pub(crate) fn temporary(program: &str) -> Self {
        let file = std::env::temp_dir().join(format!("{program}.{}.db", std::process::id()));
        let place = Self { name: file.to_string_lossy().into_owned(), own: true };
        // Removes the file of an earlier process with the same id.
        place.remove();
        place
    }

    /// Removes the file, and the other files of SQLite beside it.
    fn remove(&self) {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", self.name));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.own {
            self.remove();
        }
    }
}
