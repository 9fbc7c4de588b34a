//! Tests of the rules about one server. For each rule, one fact triggers the rule, and a similar fact does not.

mod replicas;

use std::collections::HashMap;

use super::*;
use crate::backend::Severity::{self, Danger, Note, Warning};

/// A primary with an append-only file and without findings.
const GOOD: &str = "redis_version:7.0.15\r\nconnected_clients:7\r\nmaxclients:100\r\nused_memory:1000\r\nmaxmemory:0\r\n\
    maxmemory_policy:noeviction\r\nmem_not_counted_for_evict:100\r\naof_enabled:1\r\nrdb_last_bgsave_status:ok\r\n\
    aof_last_bgrewrite_status:ok\r\naof_last_write_status:ok\r\nrejected_connections:0\r\nevicted_keys:0\r\n\
    role:master\r\nconnected_slaves:0\r\ncluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_fail:0\r\n";
const TWO: &str =
    "slave0:ip=h,port=1,state=online,offset=1,lag=1\r\nslave1:ip=h,port=2,state=online,offset=1,lag=0\r\n";

/// One change of the facts: a line of `INFO`, or a setting.
type Change = (&'static str, &'static str);

fn facts(kind: Kind, changes: &[Change]) -> Facts {
    let settings = [
        ("save", "3600 1"),
        ("appendfsync", "always"),
        ("stop-writes-on-bgsave-error", "yes"),
        ("timeout", "0"),
        ("min-replicas-to-write", "0"),
        ("cluster-require-full-coverage", "no"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut facts = Facts {
        kind,
        durability: None,
        user: "app".to_owned(),
        info: GOOD.to_owned(),
        settings: HashMap::from(settings),
        refused: None,
        ahead: 0,
    };
    for (name, value) in changes {
        if let Some(setting) = facts.settings.get_mut(*name) {
            *setting = (*value).to_owned();
        } else if *name == "replicas" {
            facts.info.push_str(value);
        } else {
            let line = facts.info.lines().find(|line| line.starts_with(&format!("{name}:")));
            let line = line.unwrap_or_else(|| panic!("no line {name}")).to_owned();
            facts.info = facts.info.replace(&line, &format!("{name}:{value}"));
        }
    }
    facts
}

fn shown(facts: &Facts) -> Vec<(&'static str, Severity)> {
    findings(facts).iter().map(|one| (one.rule, one.severity)).collect()
}

#[test]
fn a_good_server_has_no_findings() {
    for kind in [Kind::Single, Kind::Voter] {
        assert_eq!(shown(&facts(kind, &[])), []);
    }
    for kind in [Kind::Watched, Kind::Node] {
        let good = [("replicas", TWO), ("min-replicas-to-write", "1")];
        // Without `durability` this note stays, because replication is asynchronous.
        assert_eq!(shown(&facts(kind, &good)), [("redis.failover", Note)]);
    }
}

#[test]
fn each_rule_about_one_server() {
    let table: &[(&[Change], &[(&str, Severity)])] = &[
        (&[("maxmemory_policy", "allkeys-lru")], &[]),
        (&[("maxmemory_policy", "allkeys-lru"), ("maxmemory", "900")], &[("redis.eviction", Danger)]),
        (&[("maxmemory_policy", "volatile-ttl"), ("maxmemory", "9000")], &[("redis.eviction", Danger)]),
        (&[("evicted_keys", "1")], &[("redis.evicted", Warning)]),
        (&[("maxmemory", "1000")], &[]),
        (&[("maxmemory", "980")], &[("redis.memory", Warning)]),
        (&[("maxmemory", "890")], &[("redis.memory", Danger)]),
        (&[("aof_enabled", "0")], &[("redis.persistence", Warning)]),
        (&[("aof_enabled", "0"), ("save", "")], &[("redis.persistence", Warning)]),
        (&[("appendfsync", "everysec")], &[("redis.fsync", Note)]),
        (&[("appendfsync", "no")], &[("redis.fsync", Warning)]),
        (&[("rdb_last_bgsave_status", "err")], &[("redis.bgsave", Danger)]),
        (&[("rdb_last_bgsave_status", "err"), ("save", "")], &[("redis.bgsave", Warning)]),
        (
            &[("rdb_last_bgsave_status", "err"), ("stop-writes-on-bgsave-error", "no")],
            &[("redis.bgsave", Warning)],
        ),
        (&[("aof_last_write_status", "err")], &[("redis.aof_write", Danger)]),
        (&[("aof_last_bgrewrite_status", "err")], &[("redis.aof_write", Warning)]),
        (&[("connected_clients", "90")], &[]),
        (&[("connected_clients", "91")], &[("redis.clients", Warning)]),
        (&[("rejected_connections", "1")], &[("redis.rejected", Warning)]),
        (&[("timeout", "9")], &[("redis.idle_timeout", Note)]),
        (&[("timeout", "10")], &[]),
        (&[("redis_version", "6.2.14")], &[("redis.version", Note)]),
        (&[("redis_version", "10.0.0")], &[]),
        (&[("redis_version", "unstable")], &[]),
    ];
    for (changes, expected) in table {
        assert_eq!(shown(&facts(Kind::Single, changes)), *expected, "{changes:?}");
    }
}

/// Because of a voter's quarantine after a restart or an eviction, some findings are harmless for a voter.
#[test]
fn a_voter_is_judged_by_what_its_quarantine_leaves_open() {
    let table: &[(&[Change], &[(&str, Severity)])] = &[
        (&[("aof_enabled", "0"), ("save", "")], &[("redis.persistence", Note)]),
        (&[("evicted_keys", "1")], &[("redis.evicted", Note)]),
        (&[("appendfsync", "everysec")], &[]),
        (&[("replicas", TWO)], &[]),
        (&[("maxmemory_policy", "allkeys-lru"), ("maxmemory", "900")], &[("redis.eviction", Danger)]),
        (&[("aof_last_write_status", "err")], &[("redis.aof_write", Danger)]),
    ];
    for (changes, expected) in table {
        assert_eq!(shown(&facts(Kind::Voter, changes)), *expected, "{changes:?}");
    }
}

#[test]
fn a_clock_and_what_is_not_shown() {
    for (ahead, expected) in
        [(0, None), (1_000, None), (1_001, Some("1.0 s ahead of")), (-31_250, Some("31.2 s behind"))]
    {
        let found = findings(&Facts { ahead, ..facts(Kind::Single, &[]) });
        assert_eq!(found.len(), usize::from(expected.is_some()), "{found:?}");
        if let Some(expected) = expected {
            assert!(found[0].rule == "redis.clock" && found[0].found.contains(expected), "{found:?}");
        }
    }
    let settings = || HashMap::from([("save".to_owned(), String::new())]);
    for (refused, advice) in
        [(Some("NOPERM"), "`ACL SETUSER app +config|get`"), (Some("ERR"), "look at"), (None, "look at")]
    {
        let refused = refused.map(str::to_owned);
        let hidden = Facts { settings: settings(), refused, ..facts(Kind::Voter, &[("aof_enabled", "0")]) };
        let found = findings(&hidden);
        assert_eq!(shown(&hidden), [("redis.persistence", Note), ("redis.unread", Note)]);
        assert!(found[1].advice.starts_with(advice), "{found:?}");
        assert!(found[1].found.contains("appendfsync, stop-writes-on-bgsave-error, timeout"), "{found:?}");
    }
}

#[test]
fn no_text_ends_with_a_full_stop() {
    let bad = [
        ("maxmemory_policy", "allkeys-lru"),
        ("maxmemory", "900"),
        ("evicted_keys", "1"),
        ("aof_enabled", "0"),
        ("rdb_last_bgsave_status", "err"),
        ("aof_last_write_status", "err"),
        ("connected_clients", "99"),
        ("rejected_connections", "1"),
        ("timeout", "1"),
        ("redis_version", "6.2.1"),
        ("cluster_state", "fail"),
        ("cluster-require-full-coverage", "yes"),
    ];
    let found = findings(&Facts { ahead: 9_999, ..facts(Kind::Node, &bad) });
    assert!(found.len() > 12, "{found:?}");
    for one in found {
        assert!(one.rule.starts_with("redis.") && one.about.is_empty(), "{one:?}");
        assert!(!one.found.ends_with('.') && !one.advice.ends_with('.'), "{one:?}");
    }
}
