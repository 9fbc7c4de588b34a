//! Rules about open transactions of other sessions, and about missing rights to see sessions.

use std::time::Duration;

use super::durable::awaited;
use super::facts::{Fact, Facts};
use crate::backend::{Finding, Severity};

/// The number of seconds after which a session that is idle in a transaction is reported. Normally, a session is idle
/// in a transaction only briefly.
const IDLE_SECS: i64 = 2;
/// The number of seconds after which an open transaction is reported.
const OLD_SECS: i64 = 600;

/// The modes of a table lock that prevent the library from changing any row.
const BLOCKING: [&str; 4] = ["ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock"];

fn time(seconds: i64) -> String {
    humantime::format_duration(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))).to_string()
}

/// Returns the name of a session for an operator.
fn session(of: &Fact) -> String {
    match &*of.name {
        "" => format!("process {}", of.number),
        name => format!("process {}, {name}", of.number),
    }
}

/// Finds sessions that are idle in a transaction and keep a lock on the tables. A session that only reads is omitted,
/// because it blocks no call.
pub(super) fn idle_in_transaction(facts: &Facts) -> Vec<Finding> {
    let keeps = |one: &&Fact| one.other >= IDLE_SECS && one.text != "AccessShareLock";
    let finding = |one: &Fact| {
        let blocks = one.text.split(' ').any(|mode| BLOCKING.contains(&mode));
        let (severity, what) = if blocks {
            (Severity::Danger, "no lock can be acquired until it ends")
        } else {
            (Severity::Warning, "calls for the keys that it has locked fail until it ends")
        };
        let found = format!(
            "a session of {} is idle in a transaction since {}, and has locked rows or tables of the library ({}): {what}",
            one.more,
            time(one.other),
            one.text
        );
        let advice = format!(
            "`SELECT pg_terminate_backend({})`; against the next one `ALTER ROLE {} SET \
             idle_in_transaction_session_timeout = '30s'`",
            one.number, one.more
        );
        Finding::new(severity, "postgres.idle_in_transaction", found, advice).about(session(one))
    };
    facts.rows_of("idle").filter(keeps).map(finding).collect()
}

pub(super) fn old_transaction(facts: &Facts) -> Option<Finding> {
    let oldest = facts.rows_of("open").chain(facts.rows_of("prepared")).max_by_key(|one| one.other)?;
    if oldest.other < OLD_SECS {
        return None;
    }
    let (about, advice) = if oldest.kind == "prepared" {
        (
            format!("prepared transaction {}", oldest.name),
            format!(
                "ask its transaction manager how it ended, then `COMMIT PREPARED {0}` or `ROLLBACK PREPARED {0}`",
                oldest.name
            ),
        )
    } else {
        let end = format!(
            "if it is no backup and no change of a schema, `SELECT pg_terminate_backend({})`; long reports belong on a \
                 standby",
            oldest.number
        );
        (session(oldest), end)
    };
    let found = format!(
        "a transaction is open since {}: the server keeps all row versions since then, and calls get slower",
        time(oldest.other)
    );
    Some(Finding::new(Severity::Warning, "postgres.old_transaction", found, advice).about(about))
}

pub(super) fn unread(facts: &Facts) -> Option<Finding> {
    let hidden = facts.rows_of("sessions").next()?.other;
    let has_unread_standbys =
        awaited(facts.setting("synchronous_standby_names")) > 0 && facts.rows_of("standby").next().is_some();
    if facts.sees_all() || (hidden == 0 && !has_unread_standbys) {
        return None;
    }
    let user = facts.grantee();
    let found = format!(
        "the user {user} does not see what the sessions of others do ({hidden}): their open transactions, and whether a \
         standby is synchronous, are not looked at"
    );
    Some(Finding::new(
        Severity::Note,
        "postgres.unread",
        found,
        format!("`GRANT pg_read_all_stats TO {user}`"),
    ))
}
