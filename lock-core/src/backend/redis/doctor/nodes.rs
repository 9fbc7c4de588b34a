//! Rules about the nodes of a Cluster.

use super::{Facts, Kind, set};
use crate::backend::redis::slot::SLOTS;
use crate::backend::{Finding, Severity};

pub(super) fn slots(facts: &Facts) -> Option<Finding> {
    if facts.kind != Kind::Node {
        return None;
    }
    let missing = u64::from(SLOTS).saturating_sub(facts.number("cluster_slots_assigned"));
    let failed = facts.number("cluster_slots_fail");
    let state = facts.text("cluster_state").unwrap_or("unknown");
    let found = match (missing, failed) {
        (0, 0) if state == "ok" => return None,
        (0, 0) => format!("cluster_state is {state}: the node refuses every lock"),
        _ => format!(
            "{missing} of {SLOTS} slots have no node, {failed} have one that failed, and cluster_state is {state}: their keys \
             cannot be locked"
        ),
    };
    let advice = match (missing, failed) {
        (1.., 0) => {
            "`redis-cli --cluster check <host:port of a node>`, then `redis-cli --cluster fix <host:port of a node>`"
        }
        // Does not advise `redis-cli --cluster fix`, which would assign the slots of the failed nodes to other nodes
        // without the locks.
        _ => {
            "start the node that failed (`CLUSTER NODES` names it); only if it is certainly stopped, `CLUSTER FAILOVER FORCE` \
             on its replica"
        }
    };
    Some(Finding::new(Severity::Danger, "redis.slots", found, advice))
}

pub(super) fn full_coverage(facts: &Facts) -> Option<Finding> {
    if facts.kind != Kind::Node || facts.setting("cluster-require-full-coverage") != Some("yes") {
        return None;
    }
    let found = "cluster-require-full-coverage is yes: while one slot has no node, every node refuses to renew its locks";
    let advice = set("cluster-require-full-coverage", "no");
    Some(Finding::new(Severity::Note, "redis.full_coverage", found, advice))
}
