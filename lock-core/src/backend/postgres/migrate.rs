//! Creates the tables and functions.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::config::{Config, SEARCH_PATH, is_schema};
use super::error::{Failure, Reaction};
use super::link::{Goal, Session, Shared, check_version, dial};
use super::sql;
use crate::backend::remote::tries;
use crate::error::{LockError, LockErrorKind, Result};
use crate::runtime::current_runtime;

/// The time limit of the migration after the server is connected.
const LONGEST: Duration = Duration::from_secs(30);
/// The longest time for which the migration waits for the lock of a table.
const LOCK_TIMEOUT: &str = "1s";

/// Creates the schema, the tables and the functions that this version needs, in the database of `url`.
///
/// The migration is one transaction, and repeating it changes nothing. The migration deletes nothing, does not delay a
/// running service, and does not change the tables of a later version. The user of the URL needs the right to create a
/// schema in the database, or must own the schema that the option `schema` names (default `lock_core`). The service may
/// use another user; see the [module](super) for the permissions that the service needs.
///
/// # Errors
///
/// [`InvalidRequest`](LockErrorKind::InvalidRequest): the URL is wrong. [`Unavailable`](LockErrorKind::Unavailable):
/// the server does not answer or refuses the password, or the user lacks a permission.
/// [`Unsupported`](LockErrorKind::Unsupported): the server is too old, or the database is not in UTF8.
///
/// # Panics
///
/// Panics outside a tokio runtime with its I/O and time drivers.
///
/// # Cancel safety
///
/// If the future is dropped, the migration has either completed or changed nothing.
///
/// # Examples
///
/// ```no_run
/// # async fn set_up() -> lock_core::Result<()> {
/// lock_core::backend::postgres::migrate("postgres://admin:secret@db/shop").await?;
/// # Ok(())
/// # }
/// ```
pub async fn migrate(url: &str) -> Result<()> {
    current_runtime()?;
    let shared = Shared::new(Config::parse(url)?, Arc::default())?;
    run(&shared).await.map_err(|failure| failure.to_error(shared.address()))
}

/// Runs the migration if the tables are missing or too old. If they are up to date, does nothing, because replacing the
/// functions of a running service would delay its calls.
pub(super) async fn run_if_needed(shared: &Shared) -> std::result::Result<(), Failure> {
    let session = connect(shared).await?;
    let version = check_version(&session.live, &shared.statements.version);
    match timeout(shared.config.connect_timeout, version).await {
        Ok(Ok(())) => Ok(()),
        // If the error persists, the migration reports it.
        Ok(Err(_)) | Err(_) => run(shared).await,
    }
}

async fn connect(shared: &Shared) -> std::result::Result<Session, Failure> {
    let limit = shared.config.connect_timeout;
    tries::connect(shared.address(), limit, |left| Box::pin(dial(shared, Goal::Bare, left))).await
}

async fn run(shared: &Shared) -> std::result::Result<(), Failure> {
    let session = connect(shared).await?;
    let schema = &shared.config.schema;
    // Statements that are sent together are one transaction. All settings are local to this transaction, because the
    // session may belong to a pooler, or to a pool of the application. The advisory lock prevents concurrent
    // migrations: a second migration waits for the first one without a time limit. The wait for a table is short,
    // because the calls of a running service would queue behind the migration.
    let text = format!(
        "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL search_path = {SEARCH_PATH}; \
         SELECT pg_advisory_xact_lock(hashtextextended('{schema} migration', 0::bigint)); \
         SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'; {}",
        sql::steps(schema)
    );
    match timeout(LONGEST, session.live.batch(&text)).await {
        Ok(Err(failure)) if failure.reaction == Reaction::LeaveAlone => Ok(()),
        Ok(made) => made,
        Err(_) => Err(Failure::no_answer(LONGEST)),
    }
}

/// Returns the SQL text of the steps of [`migrate`], for psql or for the migrations of the service. Run it in one
/// transaction. `schema` is the name of the schema: lower-case letters, digits and `_`. The name must not begin with a
/// digit or with `pg_`.
///
/// # Errors
///
/// [`InvalidRequest`](LockErrorKind::InvalidRequest): `schema` is not a valid name.
///
/// # Examples
///
/// ```
/// # fn main() -> lock_core::Result<()> {
/// let text = lock_core::backend::postgres::migration("lock_core")?;
/// assert!(text.contains("CREATE TABLE IF NOT EXISTS lock_core.holders"));
/// # Ok(())
/// # }
/// ```
pub fn migration(schema: &str) -> Result<String> {
    if is_schema(schema) {
        return Ok(sql::migration(schema));
    }
    let detail = "the name of the schema has lower-case letters, digits and `_`, at most 63, and is none of Postgres itself";
    Err(LockError::new(LockErrorKind::InvalidRequest, detail))
}
