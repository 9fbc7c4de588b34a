//! Tests of the rules about replicas and about the nodes of a Cluster.

use super::{Change, TWO, facts, shown};
use crate::backend::Severity::{self, Danger, Note, Warning};
use crate::backend::redis::config::Durability;
use crate::backend::redis::doctor::{Facts, Kind};

#[test]
fn each_rule_about_replicas_and_nodes() {
    const ONE: &str = "slave0:ip=h,port=1,state=online,offset=1,lag=3\r\n";
    const LATE: &str = "slave0:ip=h,port=1,state=online,offset=1,lag=4\r\n";
    const COPIES: &str = "slave0:ip=h,port=1,state=wait_bgsave,offset=0,lag=0\r\n";
    use Kind::{Node, Single, Watched};
    let table: &[(Kind, &[Change], &[(&str, Severity)])] = &[
        (Single, &[("replicas", TWO)], &[("redis.failover", Warning)]),
        (
            Single,
            &[("replicas", ONE), ("min-replicas-to-write", "1")],
            &[("redis.failover", Note), ("redis.spare_replica", Warning)],
        ),
        (Single, &[("min-replicas-to-write", "1")], &[("redis.spare_replica", Danger)]),
        (Single, &[("replicas", ONE)], &[("redis.failover", Warning)]),
        (Single, &[("replicas", LATE)], &[("redis.failover", Warning), ("redis.replica_lag", Warning)]),
        (Single, &[("replicas", COPIES)], &[("redis.failover", Warning), ("redis.replica_lag", Warning)]),
        (Watched, &[], &[("redis.no_replica", Warning)]),
        (Node, &[], &[("redis.no_replica", Warning)]),
        (
            Node,
            &[("replicas", TWO), ("cluster-require-full-coverage", "yes")],
            &[("redis.failover", Warning), ("redis.full_coverage", Note)],
        ),
        (
            Node,
            &[("replicas", TWO), ("cluster_slots_assigned", "16383")],
            &[("redis.failover", Warning), ("redis.slots", Danger)],
        ),
        (
            Node,
            &[("replicas", TWO), ("cluster_slots_fail", "1")],
            &[("redis.failover", Warning), ("redis.slots", Danger)],
        ),
        (
            Node,
            &[("replicas", TWO), ("cluster_state", "fail")],
            &[("redis.failover", Warning), ("redis.slots", Danger)],
        ),
        (Single, &[("cluster_state", "fail"), ("cluster-require-full-coverage", "yes")], &[]),
    ];
    for (kind, changes, expected) in table {
        assert_eq!(shown(&facts(*kind, changes)), *expected, "{kind:?} {changes:?}");
    }
}

#[test]
fn durability_answers_for_a_failover_and_needs_its_replicas() {
    let with = |durability, changes: &[Change]| {
        shown(&Facts { durability: Some(durability), ..facts(Kind::Single, changes) })
    };
    let (two, copies) = (("replicas", TWO), Durability::Replicas);
    let aof = |replicas| Durability::Aof { local: true, replicas };
    assert_eq!(with(copies(1), &[two]), []);
    assert_eq!(with(copies(2), &[two]), [("redis.spare_replica", Warning)]);
    assert_eq!(with(copies(3), &[two]), [("redis.spare_replica", Danger)]);
    assert_eq!(with(aof(0), &[two]), [("redis.failover", Warning)]);
    assert_eq!(with(aof(1), &[two]), []);
    assert_eq!(with(aof(1), &[two, ("appendfsync", "everysec")]), [("redis.fsync", Warning)]);
}
