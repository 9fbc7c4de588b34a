//! The cases: a rule, its severity, a fact that triggers it, and a similar fact that does not.

use super::row;
use crate::backend::Severity::{self, Danger, Note, Warning};
use crate::backend::postgres::doctor::facts::Facts;
use crate::backend::postgres::sql::VERSION;

pub(super) type Change = fn(Facts) -> Facts;

pub(super) const TABLES: &[(&str, Severity, Change, Change)] = &[
    ("fsync", Danger, |f| f.with("fsync", "off"), |f| f.with("fsync", "on")),
    ("full_page_writes", Warning, |f| f.with("full_page_writes", "off"), |f| f),
    (
        "synchronous_commit",
        Warning,
        |f| f.with("synchronous_commit", "off"),
        // If no commit waits for a standby, `local` is as strong as `on`.
        |f| f.with("synchronous_commit", "local"),
    ),
    (
        "synchronous_commit",
        Warning,
        |f| f.with("synchronous_commit", "local").with("synchronous_standby_names", "*"),
        |f| f.with("synchronous_commit", "remote_write"),
    ),
    (
        "synchronous_commit",
        Note,
        |f| {
            let f = f.with("synchronous_commit", "remote_write").with("synchronous_standby_names", "*");
            f.standby("a", "sync", "streaming")
        },
        |f| f.with("synchronous_commit", "remote_apply").with("synchronous_standby_names", "*"),
    ),
    (
        "synchronous_standby",
        Danger,
        |f| f.with("synchronous_standby_names", "*").standby("a", "potential", "catchup"),
        |f| f.with("synchronous_standby_names", "*").standby("a", "sync", "streaming"),
    ),
    (
        "synchronous_standby",
        Danger,
        |f| f.with("synchronous_standby_names", "ANY 2 (a, b)").standby("a", "quorum", "streaming"),
        // With `local`, no commit of this user waits for a standby.
        |f| f.with("synchronous_standby_names", "*").with("synchronous_commit", "local"),
    ),
    (
        "synchronous_standby",
        Danger,
        |f| f.with("synchronous_standby_names", "*").put(row("sessions", "", "false", "", 5, 0)),
        |f| {
            let f = f.with("synchronous_standby_names", "*").put(row("sessions", "", "false", "", 5, 0));
            f.standby("a", "", "")
        },
    ),
    (
        "failover",
        Warning,
        |f| f.standby("a", "async", "streaming"),
        |f| f.standby("pg_receivewal", "async", "streaming").standby("b", "async", "backup"),
    ),
    (
        "idle_session_timeout",
        Warning,
        |f| f.with("idle_session_timeout", "1999"),
        |f| f.with("idle_session_timeout", "2000"),
    ),
    (
        "transaction_timeout",
        Warning,
        |f| f.with("transaction_timeout", "4999"),
        |f| f.with("transaction_timeout", "5000"),
    ),
    (
        "statement_timeout",
        Note,
        |f| Facts { pooled: true, ..f.with("statement_timeout", "0") },
        // Without a pooler, the library sets this timeout itself.
        |f| f.with("statement_timeout", "0"),
    ),
    (
        "statement_timeout",
        Warning,
        |f| Facts { pooled: true, ..f.with("statement_timeout", "999") },
        |f| Facts { pooled: true, ..f },
    ),
    ("clock", Warning, |f| Facts { ahead: -1.5, ..f }, |f| Facts { ahead: -0.9, ..f }),
    ("clock", Warning, |f| Facts { ahead: 1.5, ..f }, |f| Facts { ahead: 0.9, ..f }),
    (
        "old_transaction",
        Warning,
        |f| f.put(row("open", "psql", "active", "", 7, 600)),
        |f| f.put(row("open", "psql", "active", "", 7, 599)),
    ),
    (
        "old_transaction",
        Warning,
        |f| f.put(row("prepared", "'gid'", "", "", 0, 600)),
        |f| f.put(row("prepared", "'gid'", "", "", 0, 599)),
    ),
    (
        "unread",
        Note,
        |f| f.put(row("sessions", "", "false", "", 5, 1)),
        |f| f.put(row("sessions", "", "false", "", 5, 0)),
    ),
    ("unlogged", Danger, |f| f.table("u", "", 0, 0), |f| f.put(row("table", "mine", "u", "", 0, 0))),
    ("version", Note, |f| Facts { version: Some(VERSION + 1), ..f }, |f| Facts { version: None, ..f }),
    ("version", Danger, |f| Facts { version: Some(VERSION - 1), ..f }, |f| f),
    (
        "grants",
        Danger,
        |f| f.put(row("no right", "floor", "UPDATE", "", 0, 0)),
        |f| f.put(row("no right", "floor", "DELETE", "", 0, 0)),
    ),
    ("grants", Danger, |f| f.put(row("no call", "renew", "", "", 0, 0)), |f| f),
    ("autovacuum", Warning, |f| f.with("autovacuum", "off"), |f| f),
    ("autovacuum", Warning, |f| f.with("track_counts", "off"), |f| f),
    (
        "autovacuum",
        Warning,
        |f| f.table("p", "fillfactor=70 autovacuum_enabled=False", 0, 0),
        |f| f.table("p", "autovacuum_enabled=true", 0, 0),
    ),
    ("dead_rows", Warning, |f| f.table("p", "", 300_000, 9), |f| f.table("p", "", 299_999, 9)),
    ("dead_rows", Warning, |f| f.table("p", "", 300_000, 9), |f| f.table("p", "", 300_000, 300_000)),
    (
        "idle_in_transaction",
        Warning,
        |f| f.put(row("idle", "psql", "RowShareLock", "app", 7, 2)),
        |f| f.put(row("idle", "psql", "RowShareLock", "app", 7, 1)),
    ),
    (
        "idle_in_transaction",
        Danger,
        |f| f.put(row("idle", "psql", "RowShareLock ShareLock", "app", 7, 2)),
        |f| f.put(row("idle", "psql", "AccessShareLock", "app", 7, 2)),
    ),
    (
        "connections",
        Warning,
        |f| f.put(row("sessions", "", "true", "", 88, 0)),
        |f| f.put(row("sessions", "", "true", "", 87, 0)),
    ),
    (
        "connection_limit",
        Warning,
        |f| f.put(row("role", "app", "false", "app", 5, 3)),
        |f| f.put(row("role", "app", "false", "app", 6, 3)),
    ),
    (
        "connection_limit",
        Warning,
        |f| f.put(row("database", "shop", "", "", 5, 5)),
        |f| f.put(row("database", "shop", "", "", 5, 5)).put(row("role", "app", "true", "app", 5, 5)),
    ),
];

pub(super) const ADVISORY: &[(&str, Severity, Change, Change)] = &[
    (
        "lock_table",
        Warning,
        |f| f.put(row("locks", "", "", "", 4_800, 0)),
        |f| f.put(row("locks", "", "", "", 4_799, 0)),
    ),
    // Advisory locks are not replicated, even if commits wait for a standby.
    (
        "failover",
        Warning,
        |f| f.with("synchronous_standby_names", "*").standby("a", "sync", "streaming"),
        // Advisory locks commit nothing, so `fsync` does not matter.
        |f| f.with("synchronous_standby_names", "*").with("fsync", "off"),
    ),
    (
        "connection_limit",
        Warning,
        |f| f.put(row("role", "app", "false", "app", 5, 5)),
        |f| f.put(row("role", "app", "false", "app", 5, 4)),
    ),
];
