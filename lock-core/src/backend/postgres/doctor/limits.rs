//! Rules about connections, timeouts, the lock table of the server, and its clock.

use super::facts::{Fact, Facts};
use crate::backend::{Finding, Severity};

/// The connections of one service process: one for a runtime, one for renewals, one that listens.
const OF_A_PROCESS: i64 = 3;
/// The shortest `idle_session_timeout`, in ms, that ends no session: each session sends a request twice a second.
const IDLE_MS: i64 = 2_000;
/// The default time limit of a call, in ms.
const CALL_MS: i64 = 1_000;
/// The time limit of a statement of the library, in ms.
const STATEMENT_MS: i64 = 5_000;
/// The smallest clock difference that is reported, in seconds.
const APART: f64 = 1.0;

/// Returns how many connections one more service process needs.
fn needed(facts: &Facts) -> i64 {
    if facts.advisory || facts.pooled { 1 } else { OF_A_PROCESS }
}

/// Returns the end of the advice to raise a setting. Standbys come first, because a standby stops if its own value is
/// below its primary's value.
fn standbys_first(facts: &Facts) -> &'static str {
    if facts.rows_of("standby").next().is_some() { ", each standby before its primary" } else { "" }
}

pub(super) fn connections(facts: &Facts) -> Option<Finding> {
    let all = facts.number("max_connections");
    let reserved = if facts.is_superuser() {
        0
    } else {
        facts.number("superuser_reserved_connections") + facts.number("reserved_connections")
    };
    let used = facts.rows_of("sessions").next()?.number;
    let open = all - reserved - used;
    (open < needed(facts).max(all / 10)).then(|| {
        let found = format!(
            "{used} connections of {all} are in use, and {} are left for this user: a service may get none for its locks",
            open.max(0)
        );
        let advice = format!(
            "put a pooler in front of other clients, or `ALTER SYSTEM SET max_connections = {}` and restart the server{}",
            all * 2,
            standbys_first(facts)
        );
        Finding::new(Severity::Warning, "postgres.connections", found, advice)
    })
}

pub(super) fn connection_limit_of_user(facts: &Facts) -> Option<Finding> {
    connection_limit(facts, facts.rows_of("role").next()?, "role", "ROLE")
}

pub(super) fn connection_limit_of_database(facts: &Facts) -> Option<Finding> {
    connection_limit(facts, facts.rows_of("database").next()?, "database", "DATABASE")
}

fn connection_limit(facts: &Facts, of: &Fact, kind: &str, word: &str) -> Option<Finding> {
    let (name, limit, used) = (&of.name, of.number, of.other);
    // -1 means no limit, and a superuser has no limit.
    if limit < 0 || facts.is_superuser() || limit - used >= needed(facts) {
        return None;
    }
    let found = format!(
        "the {kind} {name} may have {limit} connections and has {used}: a further process of a service needs {}",
        needed(facts)
    );
    let advice = format!("`ALTER {word} {name} CONNECTION LIMIT -1`, or a larger number than {limit}");
    Some(
        Finding::new(Severity::Warning, "postgres.connection_limit", found, advice)
            .about(format!("{kind} {name}")),
    )
}

pub(super) fn idle_session_timeout(facts: &Facts) -> Option<Finding> {
    let timeout = facts.number("idle_session_timeout");
    (1..IDLE_MS).contains(&timeout).then(|| {
        let found = format!(
            "idle_session_timeout is {timeout} ms: the server may end a connection of the library between two signs of life"
        );
        let advice = facts.set("idle_session_timeout", "0");
        Finding::new(Severity::Warning, "postgres.idle_session_timeout", found, advice)
    })
}

pub(super) fn transaction_timeout(facts: &Facts) -> Option<Finding> {
    let timeout = facts.number("transaction_timeout");
    (1..STATEMENT_MS).contains(&timeout).then(|| {
        let found = format!(
            "transaction_timeout is {timeout} ms: a slow call ends the connection, and with it all calls that are under way"
        );
        let advice = facts.set("transaction_timeout", "'10s'");
        Finding::new(Severity::Warning, "postgres.transaction_timeout", found, advice)
    })
}

/// Checks a session without the settings of the library. In all other sessions, the library sets this timeout.
pub(super) fn statement_timeout(facts: &Facts) -> Option<Finding> {
    let timeout = facts.number("statement_timeout");
    let (severity, found) = match timeout {
        _ if !facts.pooled => return None,
        0 => (
            Severity::Note,
            "statement_timeout is 0 behind a pooler: the server goes on with a call that nobody waits for"
                .to_owned(),
        ),
        1..CALL_MS => (
            Severity::Warning,
            format!(
                "statement_timeout is {timeout} ms behind a pooler: the server ends calls that are only slow"
            ),
        ),
        _ => return None,
    };
    let advice = format!("if the role is for locks alone, {}", facts.set("statement_timeout", "'5s'"));
    Some(Finding::new(severity, "postgres.statement_timeout", found, advice))
}

pub(super) fn clock(facts: &Facts) -> Option<Finding> {
    (facts.ahead.abs() > APART).then(|| {
        let (by, side) = (facts.ahead.abs(), if facts.ahead > 0.0 { "ahead of" } else { "behind" });
        let found = format!(
            "the clock of the server is {by:.1} s {side} the clock of this machine: leases count by the server's clock, so \
             they end early or late if it is set right in one step; `since=` in the record of a holder is the time of its own machine"
        );
        let advice = "let NTP keep both machines (`chronyc tracking`), and let it slew the server's clock, not step it";
        Finding::new(Severity::Warning, "postgres.clock", found, advice)
    })
}

/// Checks the lock table of the server. The table has space for at least `size` locks.
pub(super) fn lock_table(facts: &Facts) -> Option<Finding> {
    let each = facts.number("max_locks_per_transaction");
    let size = each * (facts.number("max_connections") + facts.number("max_prepared_transactions"));
    let used = facts.rows_of("locks").next()?.number;
    (used * 4 >= size * 3).then(|| {
        let found = format!(
            "the server has {used} locks, and room for about {size} (max_locks_per_transaction = {each}): when there is no \
             room, no lock can be acquired"
        );
        let advice = format!(
            "`ALTER SYSTEM SET max_locks_per_transaction = {}` and restart the server{}",
            each.max(1) * 4,
            standbys_first(facts)
        );
        Finding::new(Severity::Warning, "postgres.lock_table", found, advice)
    })
}
