//! Makes the tables of the locks in Postgres, or prints the statements that make them.

use lock_core::backend::postgres::{migrate as make, migration};

use crate::args::Store;
use crate::exit::{Exit, Fault};
use crate::out;

/// Makes the tables in the database that the command line names.
pub(crate) async fn migrate(store: &Store, json: bool) -> Result<Exit, Fault> {
    make(store.url()?).await?;
    if json {
        out::line(serde_json::json!({ "migrated": true }));
    } else {
        out::line("the tables are there");
    }
    Ok(Exit::OK)
}

/// Prints the statements that make the tables.
pub(crate) fn sql(schema: &str) -> Result<Exit, Fault> {
    out::print(migration(schema)?);
    Ok(Exit::OK)
}
