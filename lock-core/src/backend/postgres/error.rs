//! Classifies the failures of the server and of the connection by their meaning for a lock.

use std::error::Error as _;

use tokio_postgres::error::{DbError, Severity};

use super::config::Address;
use crate::backend::remote;
use crate::error::{LockError, LockErrorKind};

/// A failure of a Postgres server, or of a connection to it.
pub(crate) type Failure = remote::Failure<Reaction>;

/// How the connection reacts to a failure, beyond reporting it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Report the failure, and do nothing more.
    #[default]
    Report,
    /// Drop the connection and dial again, with all probes: the role of the server has changed.
    Reconnect,
    /// Dial again without settings for the session, because the pooler does not support them.
    WithoutSettings,
    /// Send fewer requests for the key, because its row is locked.
    Locked,
    /// Stop preparing statements: the present session is not the session in which they were prepared.
    Unprepare,
    /// Do not change the tables: they belong to a later version.
    LeaveAlone,
    /// Abandon the server process: it may still be working on a request.
    Abandon,
}

/// The meaning of all SQLSTATEs that begin with `code`.
struct Rule {
    code: &'static str,
    /// Whether another attempt may succeed.
    temporary: bool,
    /// Whether the statement may have been executed despite the error.
    doubt: bool,
    advice: &'static str,
}

/// The error of `verify` if the lease has ended; see verify.sql.
pub(crate) const LEASE_OVER: &str = "LC001";

/// The error of a migration that finds the tables of a later version; see tables.sql.
pub(crate) const LATER_VERSION: &str = "LC003";

/// The error of a call in a transaction whose isolation level is not READ COMMITTED; see shared.sql.
pub(crate) const OTHER_ISOLATION: &str = "LC002";

/// The error of a call that timed out while it waited for a row.
const ROW_LOCKED: &str = "55P03";

/// The error for a statement that was prepared in another session.
const UNPREPARED: &str = "26000";

/// The error of a server whose queue of notifications is full. A server that protects itself from the wraparound of its
/// transaction numbers returns the same error.
const LIMIT: &str = "54000";

const TEMPORARY: bool = true;
const PERMANENT: bool = false;

const fn rule(code: &'static str, temporary: bool, advice: &'static str) -> Rule {
    Rule { code, temporary, doubt: false, advice }
}

const fn doubtful(code: &'static str, advice: &'static str) -> Rule {
    Rule { doubt: true, ..rule(code, TEMPORARY, advice) }
}

const MISSING: &str = "the tables of this backend are missing or too old: run `lock_core::backend::postgres::migrate(url)` \
                       once as a user who may create them, feed `lock_core::backend::postgres::migration(schema)` to psql, or \
                       write `?migrate=true` into the URL";

const NOT_PERMITTED: &str = "the user lacks a permission: let the owner of the tables run, with the names of your schema and user, \
     `GRANT USAGE ON SCHEMA lock_core TO app; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA lock_core TO app; \
     GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA lock_core TO app;`, after each migration; to migrate, a user needs CREATE on the \
     database";

const LOCKED: &str = "another transaction keeps a row of the lock tables locked";

/// The rules for SQLSTATEs. If several codes are a prefix of the SQLSTATE, the first rule applies.
const RULES: &[Rule] = &[
    rule(
        UNPREPARED,
        TEMPORARY,
        "a pooler shares its connections, and has not told; the next calls prepare no statement",
    ),
    rule("28", PERMANENT, "the server refuses the user or the password of the URL"),
    rule("3D000", PERMANENT, "the server has no database of this name; `CREATE DATABASE` makes one"),
    rule("42501", PERMANENT, NOT_PERMITTED),
    rule("3F000", PERMANENT, MISSING),
    rule("42P01", PERMANENT, MISSING),
    rule("42883", PERMANENT, MISSING),
    rule("42704", PERMANENT, MISSING),
    rule("42703", PERMANENT, MISSING),
    rule(
        OTHER_ISOLATION,
        PERMANENT,
        "set `default_transaction_isolation` of the user or the database to `read committed`",
    ),
    rule(LATER_VERSION, PERMANENT, "the tables are those of a later version of this library"),
    rule("53300", TEMPORARY, "the server has as many connections as it allows"),
    rule("53", TEMPORARY, "the server is short of memory or disk"),
    rule(LIMIT, TEMPORARY, "a limit of the server is reached"),
    rule(ROW_LOCKED, TEMPORARY, LOCKED),
    rule("57014", TEMPORARY, "the statement took too long, and the server ended it"),
    rule("57P03", TEMPORARY, "the server is starting or shutting down"),
    // A server that shuts down may have committed the statement before it sent this error.
    doubtful("57", "the server ended the connection"),
    rule("40", TEMPORARY, "the statement met another one, and the server rolled it back"),
    rule(
        "25006",
        TEMPORARY,
        "the server is a standby, or the transaction is read-only: locks, and the check of a lease, need a primary and a \
         transaction that may write",
    ),
    // A pooler sends this error when it loses its connection to the server.
    doubtful("08", "the connection between the pooler and the server failed"),
];

fn rule_of(code: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| code.starts_with(rule.code))
}

/// Returns the advice for an exceeded limit. If the server's text is in another language, the advice names both limits.
fn advice_of_limit(message: &str) -> &'static str {
    match message {
        _ if message.contains("wraparound") => {
            "the server takes no writes before its databases are vacuumed: end old transactions, prepared transactions and \
             replication slots, then run VACUUM"
        }
        _ if message.contains("NOTIFY") => {
            "the server's queue of notifications is full: a session listens, and does not read"
        }
        _ => {
            "the server's queue of notifications is full, because a session listens and does not read; or the server takes no \
             writes before its databases are vacuumed"
        }
    }
}

/// Returns whether an error ends the session, so that the outcome of the statement is unknown. After any other error,
/// the statement was rolled back. If a pooler loses a connection, it reports a fatal error (PgCat: 58000). If a server
/// panics, it may have written the commit.
fn ends_the_session(severity: Option<Severity>) -> bool {
    matches!(severity, Some(Severity::Fatal | Severity::Panic))
}

impl Failure {
    /// Returns the failure of a standby. The failure is permanent until the standby is promoted.
    pub(crate) fn standby() -> Self {
        let text = "this is a standby, which cannot grant locks; connect to its primary";
        Self::new(LockErrorKind::Unavailable, text).permanent().with_reaction(Reaction::Reconnect)
    }

    /// Returns the failure of a server whose transactions are read-only by default.
    pub(crate) fn read_only() -> Self {
        let text = "transactions are read-only by default; set `default_transaction_read_only` of the server, the database \
                    or the user to `off`";
        Self::new(LockErrorKind::Unavailable, text).permanent().with_reaction(Reaction::Reconnect)
    }

    /// Returns the failure of a call that found the row of its key or of its grant locked.
    pub(crate) fn locked() -> Self {
        Self::new(LockErrorKind::Unavailable, LOCKED).temporary()
    }

    /// Returns the failure of a database without the tables, or with the tables of an earlier version.
    pub(crate) fn not_migrated() -> Self {
        Self::new(LockErrorKind::Unavailable, MISSING).permanent()
    }

    /// Returns the failure for an answer that no version of the library's functions returns.
    pub(crate) fn unexpected(what: &str) -> Self {
        let text = format!("unexpected answer ({what}); were the functions of the migration changed?");
        Self::new(LockErrorKind::Unavailable, text).in_doubt()
    }

    /// Classifies an error of the driver.
    pub(crate) fn from_driver(error: &tokio_postgres::Error) -> Self {
        if let Some(error) = error.as_db_error() {
            return Self::of_server(error);
        }
        // The driver's own text describes only the operation. The cause describes the error.
        let text = match error.source() {
            Some(cause) => format!("{error} ({cause})"),
            None => error.to_string(),
        };
        Self::new(LockErrorKind::Unavailable, text).in_doubt()
    }

    /// Classifies an error of the application that could not open a connection.
    pub(crate) fn of_opening(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(one) = cause {
            if let Some(error) = one.downcast_ref::<tokio_postgres::Error>() {
                return Self::from_driver(error);
            }
            cause = one.source();
        }
        Self::new(LockErrorKind::Unavailable, format!("the application opened no connection ({error})"))
    }

    fn of_server(error: &DbError) -> Self {
        let ends = ends_the_session(error.parsed_severity());
        Self::of_answer(ends, error.code().code(), error.message())
    }

    /// Classifies an error of the server or of a pooler by its SQLSTATE. If the error ends the session, the result of the
    /// call is in doubt.
    pub(crate) fn of_answer(ends_the_session: bool, code: &str, message: &str) -> Self {
        let failure = Self::of_code(code, message);
        match (ends_the_session, rule_of(code)) {
            (false, _) => failure,
            (true, Some(_)) => failure.in_doubt(),
            // The next session may succeed.
            (true, None) => failure.temporary().in_doubt(),
        }
    }

    fn of_code(code: &str, message: &str) -> Self {
        if message.starts_with("unsupported startup parameter") {
            let text = format!("the pooler refuses settings for the session ({message})");
            let failure = Self::new(LockErrorKind::Unavailable, text);
            return failure.permanent().with_reaction(Reaction::WithoutSettings);
        }
        let message: String = message.chars().take(160).collect();
        let Some(rule) = rule_of(code) else {
            // A failed statement was rolled back as a whole, so its outcome is known.
            let text = format!("the server answered {code}: {message}");
            return Self::new(LockErrorKind::Unavailable, text).permanent();
        };
        let advice = if code == LIMIT { advice_of_limit(&message) } else { rule.advice };
        let failure = Self::new(LockErrorKind::Unavailable, format!("{advice} ({code}: {message})"));
        let failure = if rule.temporary { failure.temporary() } else { failure.permanent() };
        let failure = match code {
            "25006" => failure.with_reaction(Reaction::Reconnect),
            ROW_LOCKED => failure.with_reaction(Reaction::Locked),
            UNPREPARED => failure.with_reaction(Reaction::Unprepare),
            LATER_VERSION => failure.with_reaction(Reaction::LeaveAlone),
            _ => failure,
        };
        if rule.doubt { failure.in_doubt() } else { failure }
    }

    /// Returns the error for the caller.
    pub(crate) fn to_error(&self, address: &Address) -> LockError {
        self.error_of(format_args!("postgres at {address}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_ends_the_session_leaves_the_statement_in_doubt() {
        for (severity, ends) in [
            (Some(Severity::Fatal), true),
            (Some(Severity::Panic), true),
            (Some(Severity::Error), false),
            (Some(Severity::Warning), false),
            (None, false),
        ] {
            assert_eq!(ends_the_session(severity), ends, "{severity:?}");
        }
    }

    #[test]
    fn codes_have_their_meaning() {
        let table: [(&str, &str, bool, bool); 12] = [
            ("26000", "shares its connections", true, false),
            ("28P01", "password", false, false),
            ("42P01", "migrate(url)", false, false),
            ("3D000", "CREATE DATABASE", false, false),
            ("53300", "as many connections", true, false),
            ("40P01", "rolled it back", true, false),
            ("55P03", "keeps a row", true, false),
            ("54000", "queue of notifications is full, because", true, false),
            ("57014", "took too long", true, false),
            ("57P01", "ended the connection", true, true),
            ("08006", "pooler", true, true),
            ("XX000", "answered XX000", false, false),
        ];
        for (code, expected, temporary, doubt) in table {
            let error = Failure::of_code(code, "it failed").error_of("postgres");
            assert!(error.to_string().contains(expected), "{code}: {error}");
            assert_eq!((error.is_temporary(), error.is_ambiguous()), (temporary, doubt), "{code}: {error}");
        }
        for (message, expected) in [
            ("too many notifications in the NOTIFY queue", "listens, and does not read"),
            (
                "database is not accepting commands to avoid wraparound data loss in database \"shop\"",
                "run VACUUM",
            ),
        ] {
            let failure = Failure::of_code("54000", message);
            assert!(failure.text().contains(expected) && failure.text().contains(message), "{failure:?}");
        }
        assert_eq!(Failure::of_code("25006", "read-only").reaction, Reaction::Reconnect);
        let refused = Failure::of_code("08P01", "unsupported startup parameter: options");
        assert_eq!(refused.reaction, Reaction::WithoutSettings);
    }
}
