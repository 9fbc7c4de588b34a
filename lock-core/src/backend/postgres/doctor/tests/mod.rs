//! Tests each rule, with a fact that triggers it and a similar fact that does not.

mod cases;

use std::time::Duration;

use super::durable::awaited;
use super::facts::{Fact, Facts, ahead};
use super::findings;
use crate::backend::Severity;
use crate::backend::postgres::sql::VERSION;

fn row(kind: &str, name: &str, text: &str, more: &str, number: i64, other: i64) -> Fact {
    let owned = str::to_owned;
    Fact { kind: owned(kind), name: owned(name), text: owned(text), more: owned(more), number, other }
}

impl Facts {
    /// Replaces the row of this kind and name, or adds it.
    fn put(mut self, new: Fact) -> Self {
        self.rows.retain(|row| (&row.kind, &row.name) != (&new.kind, &new.name));
        self.rows.push(new);
        self
    }

    fn with(self, setting: &str, value: &str) -> Self {
        self.put(row("setting", setting, value, "default", 0, 0))
    }

    fn standby(self, name: &str, synchronous: &str, state: &str) -> Self {
        self.put(row("standby", name, synchronous, state, 0, 0))
    }

    fn table(self, logged: &str, options: &str, dead: i64, live: i64) -> Self {
        self.put(row("table", "holders", logged, options, dead, live))
    }
}

/// Returns the facts of a correctly configured server, whose user has only the necessary rights.
fn healthy(advisory: bool) -> Facts {
    let mut facts =
        Facts { version: Some(VERSION), schema: "lock_core".to_owned(), advisory, ..Facts::default() };
    for (name, value) in [
        ("autovacuum", "on"),
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("max_connections", "100"),
        ("max_locks_per_transaction", "64"),
        ("statement_timeout", "5001"),
        ("superuser_reserved_connections", "3"),
        ("synchronous_commit", "on"),
        ("track_counts", "on"),
    ] {
        facts = facts.with(name, value);
    }
    facts = facts.put(row("role", "app", "false", "app", -1, 3)).put(row("database", "shop", "", "", -1, 5));
    facts = facts.put(row("sessions", "", "true", "", 5, 0)).put(row("locks", "", "", "", 20, 0));
    facts.table("p", "fillfactor=70", 50, 10)
}

#[test]
fn each_fact_makes_its_finding_and_its_neighbour_makes_none() {
    for (advisory, table) in [(false, cases::TABLES), (true, cases::ADVISORY)] {
        let found = findings(&healthy(advisory));
        assert!(found.is_empty(), "advisory {advisory}: {found:?}");
        for (number, (rule, severity, makes, does_not)) in table.iter().enumerate() {
            let rule = format!("postgres.{rule}");
            let found = findings(&makes(healthy(advisory)));
            let one = found.iter().find(|one| one.rule == rule);
            assert_eq!(one.map(|one| one.severity), Some(*severity), "{number} {rule}: {found:?}");
            let one = one.expect("it was found");
            assert!(!one.found.ends_with('.') && !one.advice.ends_with('.'), "{one}");
            assert!(*severity == Severity::Note || one.advice.contains('`'), "{one}: nothing to copy");
            let found = findings(&does_not(healthy(advisory)));
            assert!(found.iter().all(|one| one.rule != rule), "{number} {rule}: {found:?}");
        }
    }
}

#[test]
fn what_to_do_can_be_copied() {
    let mut facts = healthy(false).put(row("no right", "keys", "INSERT", "", 0, 0)).table("u", "", 0, 0);
    facts.rows.retain(|row| row.kind != "role");
    let facts = facts.put(row("role", "\"my app\"", "false", "\"my app\"", -1, 0));
    let facts = facts.put(row("setting", "synchronous_commit", "off", "database user", 0, 0));
    let all: Vec<String> = findings(&facts).into_iter().map(|one| one.advice).collect();
    for expected in [
        "GRANT USAGE ON SCHEMA lock_core TO \"my app\";",
        "`ALTER ROLE \"my app\" IN DATABASE shop SET synchronous_commit = on`",
        "`ALTER TABLE lock_core.holders SET LOGGED;`",
    ] {
        assert!(all.iter().any(|advice| advice.contains(expected)), "{expected}: {all:#?}");
    }
}

#[test]
fn the_number_of_standbys_is_read() {
    let table = [
        ("", 0),
        (" ", 0),
        ("*", 1),
        ("a, b", 1),
        ("2 (a, b)", 2),
        ("FIRST 2 (a, b)", 2),
        ("any 3(a,b,c)", 3),
        ("\"a(b\"", 1),
    ];
    for (names, expected) in table {
        assert_eq!(awaited(names), expected, "{names}");
    }
}

/// The round trip hides smaller clock differences: a slow answer proves nothing about the clock.
#[test]
fn clocks_differ_by_what_the_round_trip_does_not_explain() {
    let secs = Duration::from_secs;
    for (at, expected) in [(100.0, 0.0), (109.5, 0.0), (112.0, 2.0), (98.0, -2.0)] {
        assert!((ahead(at, secs(100), secs(110)) - expected).abs() < 0.001, "{at}");
    }
    // The clock of this machine was set back during the request.
    assert!((ahead(105.0, secs(110), secs(100)) + 5.0).abs() < 0.001);
}
