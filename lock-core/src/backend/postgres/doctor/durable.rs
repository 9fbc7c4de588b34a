//! Rules about the data that a crash of the server, or a failover, may lose.

use super::facts::{Fact, Facts};
use crate::backend::{Finding, Severity};

/// Programs that receive the log of the server and cannot become a primary.
const ARCHIVES: [&str; 3] = ["pg_basebackup", "pg_receivewal", "barman_receive_wal"];

/// Returns the advice with the statements that change a setting of the server.
fn change(name: &str, value: &str) -> String {
    format!("`ALTER SYSTEM SET {name} = {value}`, then `SELECT pg_reload_conf()`")
}

pub(super) fn fsync(facts: &Facts) -> Option<Finding> {
    let found = "fsync is off: a crash of the server's machine may lose any lock, and damage the database";
    facts
        .is_off("fsync")
        .then(|| Finding::new(Severity::Danger, "postgres.fsync", found, change("fsync", "on")))
}

pub(super) fn full_page_writes(facts: &Facts) -> Option<Finding> {
    let found = "full_page_writes is off: a crash of the server's machine may damage the tables, unless the file system \
                 writes each page whole";
    let advice = || change("full_page_writes", "on");
    facts
        .is_off("full_page_writes")
        .then(|| Finding::new(Severity::Warning, "postgres.full_page_writes", found, advice()))
}

pub(super) fn synchronous_commit(facts: &Facts) -> Option<Finding> {
    let has_standbys = awaited(facts.setting("synchronous_standby_names")) > 0;
    let (severity, found) = match facts.setting("synchronous_commit") {
        "off" => (
            Severity::Warning,
            "synchronous_commit is off: a crash of the server loses the last grants, and others may acquire these keys",
        ),
        "local" if has_standbys => (
            Severity::Warning,
            "synchronous_commit is local: no grant waits for the synchronous standby, so a failover may lose locks",
        ),
        "remote_write" if has_standbys => (
            Severity::Note,
            "synchronous_commit is remote_write: if the machines of the server and of the standby crash together, locks \
             may be lost",
        ),
        _ => return None,
    };
    let advice = facts.set("synchronous_commit", "on");
    Some(Finding::new(severity, "postgres.synchronous_commit", found, advice))
}

/// Returns the number of standbys that a commit waits for, from the value of `synchronous_standby_names`.
pub(super) fn awaited(names: &str) -> usize {
    if names.trim().is_empty() {
        return 0;
    }
    let number =
        names.split_once('(').and_then(|(before, _)| before.split_whitespace().next_back()?.parse().ok());
    number.unwrap_or(1)
}

pub(super) fn synchronous_standby(facts: &Facts) -> Option<Finding> {
    if matches!(facts.setting("synchronous_commit"), "off" | "local") {
        return None;
    }
    let names = facts.setting("synchronous_standby_names");
    // A user who may not see the state of the standbys sees only how many there are. So each standby counts.
    let serves = |standby: &&Fact| !facts.sees_all() || matches!(&*standby.text, "sync" | "quorum");
    let (awaited, connected) = (awaited(names), facts.rows_of("standby").filter(serves).count());
    (connected < awaited).then(|| {
        let found = format!(
            "each commit waits for {awaited} of the synchronous standbys `{names}`, and {connected} of them serve now: no \
             lock can be acquired"
        );
        let advice = format!(
            "start the standby; if it is gone for good, {}, and a failover may lose locks from then on",
            change("synchronous_standby_names", "''")
        );
        Finding::new(Severity::Danger, "postgres.synchronous_standby", found, advice)
    })
}

pub(super) fn failover(facts: &Facts) -> Option<Finding> {
    let takes_over = |one: &&Fact| one.more != "backup" && !ARCHIVES.contains(&one.name.as_str());
    let names: Vec<String> = facts
        .rows_of("standby")
        .filter(takes_over)
        .map(|one| format!("\"{}\"", one.name.replace('"', "\"\"")))
        .collect();
    let standbys = names.len();
    let is_synchronous = awaited(facts.setting("synchronous_standby_names")) > 0;
    if standbys == 0 || (is_synchronous && !facts.advisory) {
        return None;
    }
    let (found, advice) = if facts.advisory {
        let found = format!(
            "standbys are connected: {standbys}. Advisory locks are not replicated, so a failover frees all of them at once"
        );
        (found, "connect without `mode=advisory`, and make a standby synchronous".to_owned())
    } else {
        let found = format!(
            "standbys are connected: {standbys}. None of them is synchronous, so a failover may lose the last grants"
        );
        let advice = format!(
            "{}; have two standbys for that, because commits wait when the last one is gone",
            change(
                "synchronous_standby_names",
                &format!("'ANY 1 ({})'", names.join(", ").replace('\'', "''"))
            )
        );
        (found, advice)
    };
    Some(Finding::new(Severity::Warning, "postgres.failover", found, advice))
}
