//! Rules about the connections to a server.

use super::{Facts, set};
use crate::backend::{Finding, Severity};

/// The percentage of `maxclients` above which a server counts as nearly full.
const NEARLY_FULL: u64 = 90;
/// A healthy process never leaves a connection idle for this time, in seconds.
const LONG: u64 = 10;

/// Returns the advice to allow more clients.
fn more(facts: &Facts) -> String {
    let enough = facts.number("maxclients").max(5_000).saturating_mul(2);
    format!("look who has so many connections (`CLIENT LIST`), or {}", set("maxclients", &enough.to_string()))
}

pub(super) fn connected(facts: &Facts) -> Option<Finding> {
    let (clients, most) = (facts.number("connected_clients"), facts.number("maxclients"));
    if most == 0 || clients.saturating_mul(100) <= most.saturating_mul(NEARLY_FULL) {
        return None;
    }
    let found = format!(
        "{clients} clients are connected and maxclients is {most}: a process that starts or dials again is refused"
    );
    Some(Finding::new(Severity::Warning, "redis.clients", found, more(facts)))
}

pub(super) fn rejected(facts: &Facts) -> Option<Finding> {
    let count = facts.number("rejected_connections");
    if count == 0 {
        return None;
    }
    let found =
        format!("{count} connections were refused since the server started, because maxclients was reached");
    // On a voter that has evicted keys, CONFIG RESETSTAT would start a quarantine, in which the voter does not vote.
    let advice = if facts.is_voter() {
        format!("{}; the next restart sets the count to 0", more(facts))
    } else {
        format!("{}; `CONFIG RESETSTAT` sets the count to 0", more(facts))
    };
    Some(Finding::new(Severity::Warning, "redis.rejected", found, advice))
}

pub(super) fn idle(facts: &Facts) -> Option<Finding> {
    let limit: u64 = facts.setting("timeout")?.parse().ok()?;
    if limit == 0 || limit >= LONG {
        return None;
    }
    let found = format!(
        "timeout is {limit}: a process that pauses for {limit} s must connect again before it renews; no lock ends by it"
    );
    Some(Finding::new(Severity::Note, "redis.idle_timeout", found, set("timeout", "0")))
}
