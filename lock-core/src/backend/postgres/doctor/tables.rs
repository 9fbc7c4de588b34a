//! Rules about the tables of the library, and about the rights to them.

use super::facts::{Fact, Facts};
use crate::backend::postgres::sql::VERSION;
use crate::backend::{Finding, Severity};

/// The number of dead rows from which a table is reported, if it has fewer live rows. At some thousand locks a second,
/// that many dead rows accumulate between two runs of autovacuum.
const DEAD: i64 = 300_000;

const EVERY: &[&str] = &["SELECT", "INSERT", "UPDATE", "DELETE"];

/// The tables of the library, with the rights that calls need. The right to read `version` needs no check: connecting
/// already reads this table.
const TABLES: [(&str, &[&str]); 7] = [
    ("keys", EVERY),
    ("holders", EVERY),
    ("waiters", EVERY),
    ("latch_counts", &["SELECT", "INSERT", "DELETE"]),
    ("latch_waiters", EVERY),
    ("floor", &["SELECT", "UPDATE"]),
    ("version", &[]),
];

/// Returns the tables of the library for which `is` returns `true`.
fn tables<'a>(facts: &'a Facts, is: impl Fn(&Fact) -> bool + 'a) -> Vec<&'a Fact> {
    let known = |table: &Fact| TABLES.iter().any(|(name, _)| *name == table.name);
    facts.rows_of("table").filter(move |table| known(table) && is(table)).collect()
}

/// Returns a statement for each table.
fn for_each(facts: &Facts, tables: &[&Fact], before: &str, after: &str) -> String {
    let schema = &facts.schema;
    let all: Vec<String> =
        tables.iter().map(|table| format!("{before} {schema}.{}{after};", table.name)).collect();
    format!("`{}`", all.join(" "))
}

fn names(tables: &[&Fact]) -> String {
    tables.iter().map(|table| &*table.name).collect::<Vec<_>>().join(", ")
}

pub(super) fn unlogged(facts: &Facts) -> Option<Finding> {
    let unlogged = tables(facts, |table| table.text == "u");
    (!unlogged.is_empty()).then(|| {
        let found = format!(
            "unlogged tables: {}. A crash of the server empties them, and a standby has none of their rows",
            names(&unlogged)
        );
        let advice = for_each(facts, &unlogged, "ALTER TABLE", " SET LOGGED");
        Finding::new(Severity::Danger, "postgres.unlogged", found, advice)
    })
}

pub(super) fn version(facts: &Facts) -> Option<Finding> {
    let version = facts.version.filter(|version| *version != VERSION)?;
    let (severity, found, advice) = if version > VERSION {
        let found = format!("the tables have version {version}, and this program makes version {VERSION}");
        (Severity::Note, found, "update the services that still use this version of the library")
    } else {
        let found = format!("the tables have version {version}, and this program needs version {VERSION}");
        (
            Severity::Danger,
            found,
            "run the migration: connect once with `?migrate=true`, as a user that may create tables",
        )
    };
    Some(Finding::new(severity, "postgres.version", found, advice))
}

pub(super) fn grants(facts: &Facts) -> Option<Finding> {
    let needs = |row: &&Fact| {
        TABLES.iter().any(|(name, rights)| *name == row.name && rights.contains(&row.text.as_str()))
    };
    let rights = facts.rows_of("no right").filter(needs).map(|row| format!("{} on {}", row.text, row.name));
    let calls = facts.rows_of("no call").map(|row| format!("EXECUTE on {}", row.name));
    let missing: Vec<String> = rights.chain(calls).collect();
    (!missing.is_empty()).then(|| {
        let (schema, user) = (&facts.schema, facts.grantee());
        let found = format!("the user {user} lacks {}: some calls fail", missing.join(", "));
        let advice = format!(
            "as the owner of the tables, and after each migration: `GRANT USAGE ON SCHEMA {schema} TO {user}; GRANT SELECT, \
             INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {user}; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA \
             {schema} TO {user};`"
        );
        Finding::new(Severity::Danger, "postgres.grants", found, advice)
    })
}

/// Checks the server's setting for autovacuum.
pub(super) fn autovacuum(facts: &Facts) -> Option<Finding> {
    let name = ["autovacuum", "track_counts"].into_iter().find(|name| facts.is_off(name))?;
    let found = format!("{name} is off: nothing frees the space of old rows, and calls get slower");
    let advice = format!("`ALTER SYSTEM SET {name} = on`, then `SELECT pg_reload_conf()`");
    Some(Finding::new(Severity::Warning, "postgres.autovacuum", found, advice))
}

/// Checks the tables' own options for autovacuum.
pub(super) fn no_autovacuum(facts: &Facts) -> Option<Finding> {
    let is_off = |option: &str| {
        let value = option.strip_prefix("autovacuum_enabled=");
        value.is_some_and(|value| ["off", "false", "no", "0"].contains(&&*value.to_ascii_lowercase()))
    };
    let off = tables(facts, |table| table.more.split(' ').any(is_off));
    (!off.is_empty()).then(|| {
        let found = format!(
            "autovacuum is off for the tables {}: nothing frees the space of old rows, and calls get slower",
            names(&off)
        );
        let advice = for_each(facts, &off, "ALTER TABLE", " RESET (autovacuum_enabled)");
        Finding::new(Severity::Warning, "postgres.autovacuum", found, advice)
    })
}

pub(super) fn dead_rows(facts: &Facts) -> Option<Finding> {
    let full = tables(facts, |table| table.number >= DEAD && table.number > table.other);
    (!full.is_empty()).then(|| {
        let all: Vec<String> = full
            .iter()
            .map(|table| {
                format!("{} has {} dead rows and {} live ones", table.name, table.number, table.other)
            })
            .collect();
        let found = format!("{}: calls get slower", all.join(", "));
        let advice = format!(
            "{}; if they come back, an old transaction keeps them, or autovacuum is too slow",
            for_each(facts, &full, "VACUUM", "")
        );
        Finding::new(Severity::Warning, "postgres.dead_rows", found, advice)
    })
}
