//! Rules about the replicas of a primary.

use super::{Facts, Kind, set};
use crate::backend::redis::config::Durability;
use crate::backend::{Finding, Severity};

/// The largest lag of a healthy replica, in seconds. A replica reports once a second.
const KEEPS_UP: u64 = 3;

/// The command that adds a replica to a Cluster node.
const ADD_NODE: &str =
    "`redis-cli --cluster add-node <new host:port> <host:port of this node> --cluster-slave`";

/// Returns the number of replicas that the primary needs to grant a lock.
fn needed(facts: &Facts) -> usize {
    let durable = facts.durability.map_or(0, Durability::replicas);
    let set = facts.setting("min-replicas-to-write").and_then(|text| text.parse().ok()).unwrap_or(0);
    usize::try_from(durable.max(set)).unwrap_or(usize::MAX)
}

pub(super) fn failover(facts: &Facts) -> Option<Finding> {
    let is_durable = facts.durability.is_some_and(|durability| durability.replicas() > 0);
    if facts.is_voter() || is_durable || facts.replicas().is_empty() {
        return None;
    }
    let in_url = "`durability=replicas(1)` in the URL";
    if facts.setting("min-replicas-to-write") == Some("0") {
        let found = "the server has replicas and min-replicas-to-write is 0: a failover loses the locks that no replica has, \
                     and a primary that was replaced goes on granting locks";
        let first = match facts.replicas().iter().filter(|one| one.is_online).count() {
            0 | 1 => "run a second replica first, because all writes stop while the only one is down; then ",
            _ => "",
        };
        let advice = format!(
            "{first}on the primary and on every replica: {}; and {in_url}",
            set("min-replicas-to-write", "1")
        );
        return Some(Finding::new(Severity::Warning, "redis.failover", found, advice));
    }
    let found = "a failover loses the locks that have not reached a replica";
    let advice = format!("{in_url}: a lock then counts once a replica has it");
    Some(Finding::new(Severity::Note, "redis.failover", found, advice))
}

pub(super) fn spare(facts: &Facts) -> Option<Finding> {
    let (needed, online) = (needed(facts), facts.replicas().iter().filter(|one| one.is_online).count());
    if facts.is_voter() || needed == 0 || online > needed {
        return None;
    }
    let (severity, then) = if online < needed {
        (Severity::Danger, "no lock can be taken")
    } else {
        (Severity::Warning, "the loss of one stops all locks")
    };
    let found = format!("{online} replicas are online and a lock needs {needed}: {then}");
    let add =
        if facts.kind == Kind::Node { ADD_NODE } else { "`REPLICAOF <host> <port>` of this primary on each" };
    let advice = format!("run {} replicas: {add}", needed + 1);
    Some(Finding::new(severity, "redis.spare_replica", found, advice))
}

pub(super) fn lag(facts: &Facts) -> Option<Finding> {
    let behind: Vec<String> = facts
        .replicas()
        .iter()
        .filter(|one| !one.is_online || one.lag > KEEPS_UP)
        .map(|one| {
            if one.is_online {
                format!("{} last reported {} s ago", one.place, one.lag)
            } else {
                format!("{} is still copying the data", one.place)
            }
        })
        .collect();
    if facts.is_voter() || behind.is_empty() {
        return None;
    }
    let found = format!("the replica {}: it lacks the newest locks if it is promoted", behind.join(", "));
    let advice = "look at that replica and at its network: `INFO replication` there has `master_link_status`";
    Some(Finding::new(Severity::Warning, "redis.replica_lag", found, advice))
}

pub(super) fn none(facts: &Facts) -> Option<Finding> {
    let (watched, advice) = match facts.kind {
        Kind::Watched => ("its sentinels", "`REPLICAOF <host> <port>` of this primary on another server"),
        Kind::Node => ("the Cluster", ADD_NODE),
        Kind::Single | Kind::Voter => return None,
    };
    if !facts.replicas().is_empty() {
        return None;
    }
    let found = format!(
        "the primary has no replica: {watched} cannot replace it, and its keys cannot be locked while it is down"
    );
    Some(Finding::new(Severity::Warning, "redis.no_replica", found, advice))
}
