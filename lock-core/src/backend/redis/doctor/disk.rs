//! Rules about the data that a server writes to disk.

use super::{Facts, set};
use crate::backend::redis::config::Durability;
use crate::backend::{Finding, Severity};

fn has_log(facts: &Facts) -> bool {
    facts.number("aof_enabled") == 1
}

pub(super) fn persistence(facts: &Facts) -> Option<Finding> {
    if has_log(facts) {
        return None;
    }
    let forgets = match facts.setting("save") {
        Some("") => "save and appendonly are off: a restart forgets every lock".to_owned(),
        Some(save) => format!(
            "appendonly is off and save is `{save}`: a restart forgets the locks since the last snapshot"
        ),
        None => "appendonly is off: a restart forgets the locks since the last snapshot, if there is one"
            .to_owned(),
    };
    if facts.is_voter() {
        let found = format!(
            "{forgets}; the server does not vote until their leases are over, so no lock is held twice, but locks are lost if \
             a majority restarts at once"
        );
        return Some(Finding::new(Severity::Note, "redis.persistence", found, set("appendonly", "yes")));
    }
    let found = if facts.replicas().is_empty() {
        format!("{forgets}, and another owner gets them")
    } else {
        format!("{forgets}, also on the replicas, which copy the empty server, and another owner gets them")
    };
    let advice = format!(
        "{}; {}; or use `redlock://`, whose servers wait after a restart",
        set("appendonly", "yes"),
        set("appendfsync", "always")
    );
    Some(Finding::new(Severity::Warning, "redis.persistence", found, advice))
}

pub(super) fn fsync(facts: &Facts) -> Option<Finding> {
    let fsync = facts.setting("appendfsync").filter(|fsync| *fsync != "always")?;
    // After every restart, a voter does not vote for a while, whatever is on its disk.
    if !has_log(facts) || facts.is_voter() {
        return None;
    }
    let (severity, found) = match (facts.durability, fsync) {
        (Some(durability @ Durability::Aof { .. }), _) => (
            Severity::Warning,
            format!(
                "appendfsync is {fsync} and `durability={durability}` waits for the disk: a lock takes up to a second or more, \
                 and fails at its `timeout`"
            ),
        ),
        (_, "everysec") => (
            Severity::Note,
            "appendfsync is everysec: a power cut forgets the locks of the last second".to_owned(),
        ),
        _ => (
            Severity::Warning,
            format!("appendfsync is {fsync}: a power cut forgets the locks of the last half minute"),
        ),
    };
    let advice = format!("{}; each write then waits for the disk", set("appendfsync", "always"));
    Some(Finding::new(severity, "redis.fsync", found, advice))
}

pub(super) fn bgsave(facts: &Facts) -> Option<Finding> {
    if facts.text("rdb_last_bgsave_status") != Some("err") {
        return None;
    }
    let saves = facts.setting("save").is_some_and(|save| !save.is_empty());
    let stops = saves && facts.setting("stop-writes-on-bgsave-error") == Some("yes");
    let (severity, found) = if stops {
        let found =
            "the last snapshot failed, and stop-writes-on-bgsave-error is yes: the server refuses every lock";
        (Severity::Danger, found)
    } else {
        (Severity::Warning, "the last snapshot failed: a restart forgets more locks than usual")
    };
    let advice = "look at the server's log and at the free space of its directory (`CONFIG GET dir`), then run `BGSAVE`";
    Some(Finding::new(severity, "redis.bgsave", found, advice))
}

pub(super) fn aof_write(facts: &Facts) -> Option<Finding> {
    let is_err = |name| facts.text(name) == Some("err");
    let (severity, found) = if is_err("aof_last_write_status") {
        let found = "the last write to the append-only file failed: the server refuses every lock";
        (Severity::Danger, found)
    } else if is_err("aof_last_bgrewrite_status") {
        (
            Severity::Warning,
            "the last rewrite of the append-only file failed: the file grows until the disk is full",
        )
    } else {
        return None;
    };
    let advice = "look at the server's log and at the free space of its directory (`CONFIG GET dir`), then run \
                  `BGREWRITEAOF`";
    Some(Finding::new(severity, "redis.aof_write", found, advice))
}
