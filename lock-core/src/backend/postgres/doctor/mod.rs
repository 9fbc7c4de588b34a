//! Reports risks for locks in the setup of a server: `facts` reads the facts, and the other files contain the rules.
//!
//! | file | judges |
//! | --- | --- |
//! | `durable` | the data that a crash or a failover may lose |
//! | `limits` | connections, timeouts, the lock table of the server, its clock |
//! | `sessions` | open transactions of other sessions, and missing rights to see sessions |
//! | `tables` | the tables of the library, and the rights to them |

mod durable;
mod facts;
mod limits;
mod sessions;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use facts::{Facts, ask};

use crate::backend::Finding;

/// A rule, which returns at most one finding.
type Rule = fn(&Facts) -> Option<Finding>;

/// The rules for both kinds of locks.
const BOTH: [Rule; 5] = [
    limits::connections,
    limits::connection_limit_of_user,
    limits::connection_limit_of_database,
    limits::transaction_timeout,
    durable::failover,
];

/// The rules for locks in the tables.
const TABLES: [Rule; 15] = [
    durable::fsync,
    durable::full_page_writes,
    durable::synchronous_commit,
    durable::synchronous_standby,
    limits::idle_session_timeout,
    limits::statement_timeout,
    limits::clock,
    sessions::old_transaction,
    sessions::unread,
    tables::unlogged,
    tables::version,
    tables::grants,
    tables::autovacuum,
    tables::no_autovacuum,
    tables::dead_rows,
];

/// The rules for advisory locks.
const ADVISORY: [Rule; 1] = [limits::lock_table];

/// Applies the rules to the facts.
pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    let judge = |rules: &[Rule]| -> Vec<Finding> { rules.iter().filter_map(|rule| rule(facts)).collect() };
    let mut findings = judge(&BOTH);
    if facts.advisory {
        findings.extend(judge(&ADVISORY));
    } else {
        findings.extend(judge(&TABLES));
        findings.extend(sessions::idle_in_transaction(facts));
    }
    findings
}
