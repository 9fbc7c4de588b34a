//! Rules about the memory of a server.

use super::{Facts, set};
use crate::backend::{Finding, Severity};

/// The percentage of `maxmemory` above which a server counts as nearly full.
const NEARLY_FULL: u64 = 90;
const MB: u64 = 1_048_576;

/// Returns the memory that counts for `maxmemory`. The buffers of replicas and of the append-only file do not count.
fn used(facts: &Facts) -> u64 {
    facts.number("used_memory").saturating_sub(facts.number("mem_not_counted_for_evict"))
}

/// Returns the percentage of `maxmemory` that is in use.
fn percent(facts: &Facts) -> u64 {
    used(facts).saturating_mul(100).checked_div(facts.number("maxmemory")).unwrap_or(0)
}

/// Returns the eviction policy, if it can evict locks.
fn evicts(facts: &Facts) -> Option<&str> {
    // Without a limit, the server evicts nothing, whatever the policy is.
    let policy = facts.text("maxmemory_policy").filter(|policy| *policy != "noeviction");
    policy.filter(|_| facts.number("maxmemory") > 0)
}

pub(super) fn eviction(facts: &Facts) -> Option<Finding> {
    let found = format!(
        "maxmemory-policy is {} and maxmemory is {}: a server that is short of memory evicts locks, and another owner gets \
         them",
        evicts(facts)?,
        mb(facts.number("maxmemory"))
    );
    let policy = set("maxmemory-policy", "noeviction");
    let advice = if percent(facts) > NEARLY_FULL {
        format!(
            "give the locks a server of their own, or this one more memory; then {policy}. It is nearly full, and without \
             eviction a full server refuses each write"
        )
    } else {
        policy
    };
    Some(Finding::new(Severity::Danger, "redis.eviction", found, advice))
}

pub(super) fn evicted(facts: &Facts) -> Option<Finding> {
    let keys = facts.number("evicted_keys");
    if keys == 0 {
        return None;
    }
    let found =
        format!("{keys} keys were evicted since the server started, and locks may have been among them");
    let (severity, advice) = if facts.is_voter() {
        // Does not advise CONFIG RESETSTAT, which would start a quarantine.
        let advice = "nothing if maxmemory-policy is noeviction by now: the quarantine after each eviction covers it, and the \
                      next restart sets the count to 0";
        (Severity::Note, advice.to_owned())
    } else {
        let advice = "give the locks a server of their own, or more memory; with `maxmemory-policy noeviction`, `CONFIG \
                      RESETSTAT` sets the count to 0";
        (Severity::Warning, advice.to_owned())
    };
    Some(Finding::new(severity, "redis.evicted", found, advice))
}

pub(super) fn full(facts: &Facts) -> Option<Finding> {
    let limit = facts.number("maxmemory");
    if limit == 0 || evicts(facts).is_some() {
        return None;
    }
    let (used, percent) = (used(facts), percent(facts));
    if percent <= NEARLY_FULL {
        return None;
    }
    let severity = if used > limit { Severity::Danger } else { Severity::Warning };
    let found = format!(
        "{} of {} are in use ({percent} %): a server that is full refuses new locks",
        mb(used),
        mb(limit)
    );
    let enough = used.max(limit).saturating_mul(2).div_ceil(MB);
    let advice = format!(
        "remove other data, or, if the machine has the memory, {}",
        set("maxmemory", &format!("{enough}mb"))
    );
    Some(Finding::new(severity, "redis.memory", found, advice))
}

fn mb(bytes: u64) -> String {
    format!("{}.{} MB", bytes / MB, bytes % MB * 10 / MB)
}
