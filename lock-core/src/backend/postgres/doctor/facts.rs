//! Reads the facts for the rules: the rows of the statement in sql/doctor.sql, and the version of the tables.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::backend::postgres::error::Failure;
use crate::backend::postgres::link::{Connection, Shared, text};
use crate::backend::postgres::sql::identifier;
use crate::clock::wall;

/// The settings that the rules use. A server that is older than a setting returns no row for it.
const SETTINGS: [&str; 14] = [
    "autovacuum",
    "fsync",
    "full_page_writes",
    "idle_session_timeout",
    "max_connections",
    "max_locks_per_transaction",
    "max_prepared_transactions",
    "reserved_connections",
    "statement_timeout",
    "superuser_reserved_connections",
    "synchronous_commit",
    "synchronous_standby_names",
    "track_counts",
    "transaction_timeout",
];

/// A row of the statement. If a column is null, its field is empty or zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fact {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) text: String,
    pub(super) more: String,
    pub(super) number: i64,
    pub(super) other: i64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(super) rows: Vec<Fact>,
    /// The number of the migration that created the tables.
    pub(super) version: Option<i32>,
    /// The number of seconds by which the server's clock is ahead of this machine's clock, without the uncertainty of
    /// the round trip. The number is negative if the server's clock is behind.
    pub(super) ahead: f64,
    /// The schema of the tables, quoted for statements if necessary.
    pub(super) schema: String,
    /// Whether the locks are advisory locks, which need no tables.
    pub(super) advisory: bool,
    /// Whether the session lacks the settings of the library.
    pub(super) pooled: bool,
}

/// Reads the facts: with one statement for advisory locks, and with two for locks in tables.
pub(crate) async fn ask(live: &Arc<Connection>, shared: &Shared) -> Result<Facts, Failure> {
    let (config, statements) = (&shared.config, &shared.statements);
    let settings: Vec<&'static str> = SETTINGS.to_vec();
    let parameters = vec![text(config.schema.as_str()), (Box::new(settings) as Box<_>, Type::TEXT_ARRAY)];
    let sent = wall();
    let rows = live.query(&statements.doctor, parameters).await?;
    let answered = wall();
    let rows: Result<Vec<Fact>, tokio_postgres::Error> = rows.iter().map(fact).collect();
    let rows = rows.map_err(|_| Failure::unexpected("another type"))?;
    let version = if config.advisory {
        None
    } else {
        let rows = live.query(&statements.version, Vec::new()).await?;
        rows.first().and_then(|row| row.try_get(0).ok())
    };
    let clock = rows.iter().find(|row| row.kind == "clock").and_then(|row| row.text.parse().ok());
    Ok(Facts {
        ahead: clock.map_or(0.0, |at| ahead(at, sent, answered)),
        rows,
        version,
        schema: identifier(&config.schema),
        advisory: config.advisory,
        pooled: shared.is_pooled(),
    })
}

fn fact(row: &Row) -> Result<Fact, tokio_postgres::Error> {
    let text = |at| row.try_get::<_, Option<String>>(at).map(Option::unwrap_or_default);
    let number = |at| row.try_get::<_, Option<i64>>(at).map(Option::unwrap_or_default);
    Ok(Fact {
        kind: text(0)?,
        name: text(1)?,
        text: text(2)?,
        more: text(3)?,
        number: number(4)?,
        other: number(5)?,
    })
}

/// Returns by how many seconds another clock is ahead. That clock showed `at` at a moment between `sent` and
/// `answered`. If `at` is between these two times, returns 0.
pub(super) fn ahead(at: f64, sent: Duration, answered: Duration) -> f64 {
    let (sent, answered) = (sent.as_secs_f64(), answered.as_secs_f64());
    at - at.clamp(sent, answered.max(sent))
}

impl Facts {
    pub(super) fn rows_of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Fact> {
        self.rows.iter().filter(move |row| row.kind == kind)
    }

    fn row(&self, name: &str) -> Option<&Fact> {
        self.rows_of("setting").find(|row| row.name == name)
    }

    /// Returns the value of a setting. The value is empty if the server does not have the setting.
    pub(super) fn setting(&self, name: &str) -> &str {
        self.row(name).map_or("", |row| &row.text)
    }

    pub(super) fn number(&self, name: &str) -> i64 {
        self.setting(name).parse().unwrap_or(0)
    }

    pub(super) fn is_off(&self, name: &str) -> bool {
        self.setting(name) == "off"
    }

    /// Returns the name of the user that logged in, quoted for statements if necessary.
    pub(super) fn user(&self) -> &str {
        self.rows_of("role").next().map_or("app", |role| &role.name)
    }

    /// Returns the user whose rights apply.
    pub(super) fn grantee(&self) -> &str {
        self.rows_of("role").next().map_or("app", |role| &role.more)
    }

    pub(super) fn is_superuser(&self) -> bool {
        self.rows_of("role").any(|role| role.text == "true")
    }

    /// Returns whether the user may see the state of other users' sessions.
    pub(super) fn sees_all(&self) -> bool {
        self.rows_of("sessions").all(|all| all.text == "true")
    }

    /// Returns the statement that changes a setting of this user, at a level that overrides the present value.
    pub(super) fn set(&self, name: &str, value: &str) -> String {
        let user = self.user();
        let place = match (self.row(name), self.rows_of("database").next()) {
            (Some(row), Some(database)) if row.more == "database user" => {
                format!("{user} IN DATABASE {}", database.name)
            }
            _ => user.to_owned(),
        };
        format!("`ALTER ROLE {place} SET {name} = {value}`, for new sessions")
    }
}
