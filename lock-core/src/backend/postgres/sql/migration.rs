//! Builds the text of the migration from the files of this folder. Inserts the name of the schema and the constants of
//! the library.

use crate::backend::WAITER_LEASE;
use crate::backend::postgres::config::{LOCK_TIMEOUT, SEARCH_PATH};
use crate::backend::postgres::error::{LATER_VERSION, LEASE_OVER, OTHER_ISOLATION};

/// The steps of the migration in their order. They need a `search_path` with only `pg_catalog`.
const STEPS: [&str; 11] = [
    include_str!("tables.sql"),
    include_str!("shared.sql"),
    include_str!("acquire.sql"),
    include_str!("release.sql"),
    include_str!("short.sql"),
    include_str!("attempt.sql"),
    include_str!("together.sql"),
    include_str!("renew.sql"),
    include_str!("verify.sql"),
    include_str!("latch.sql"),
    include_str!("inspect.sql"),
];

/// The statements that set the `search_path` before the steps, and restore it afterwards. They are for a session that
/// was opened by hand.
const AROUND: (&str, &str) = (include_str!("begin.sql"), include_str!("end.sql"));

/// The number of the migration that this version needs.
pub(crate) const VERSION: i32 = 1;

/// The prefix of a notification channel. The identity of the process follows the prefix.
pub(crate) const CHANNEL: &str = "lock:wake:";

/// The name that the files use for the schema.
const NAME: &str = "lock_core";

/// Returns the migration of a schema, for a session that was opened by hand.
pub(crate) fn migration(schema: &str) -> String {
    let (before, after) = AROUND;
    [before, &steps(schema), after].concat()
}

/// Returns the migration of a schema, for a transaction that has set the `search_path`.
pub(crate) fn steps(schema: &str) -> String {
    let text = STEPS.concat().replace(NAME, &identifier(schema));
    constants().into_iter().fold(text, |text, (name, value)| text.replace(name, &value))
}

/// Returns the name of a schema in the form for statements: with quotes, except for the default name. The name may be a
/// reserved word of SQL.
pub(crate) fn identifier(schema: &str) -> String {
    if schema == NAME { schema.to_owned() } else { format!("\"{schema}\"") }
}

/// Returns the placeholders in the files, with the constants that replace them.
fn constants() -> [(&'static str, String); 7] {
    [
        // The settings of functions that any session may call; see shared.sql.
        (
            ":settings",
            format!(
                "SET search_path = {SEARCH_PATH} SET lock_timeout = '{LOCK_TIMEOUT}' SET enable_seqscan = off SET jit = off"
            ),
        ),
        (":waiter_lease_us", WAITER_LEASE.as_micros().to_string()),
        (":version", VERSION.to_string()),
        (":channel", CHANNEL.to_owned()),
        (":lease_over", LEASE_OVER.to_owned()),
        (":other_isolation", OTHER_ISOLATION.to_owned()),
        (":later_version", LATER_VERSION.to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_and_the_constants_are_in_the_text() {
        let text = migration("shop_locks");
        assert!(!text.contains(NAME) && text.contains("CREATE SCHEMA \"shop_locks\""));
        for (name, value) in constants() {
            assert!(!text.contains(name) && text.contains(&value), "{name}");
        }
    }
}
