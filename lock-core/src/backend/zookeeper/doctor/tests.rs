//! Tests the rules with facts that cause a finding, and similar facts that cause none.

use std::time::Duration;

use zookeeper_client::{Acl, AuthId, Permission};

use super::facts::{Ensemble, Facts, Limits, Quota};
use super::rules::{CHILDREN, findings};
use crate::backend::Severity::{self, Note, Warning};
use crate::backend::zookeeper::config::{Auth, Config};

/// Returns the facts of three servers without a finding.
fn healthy() -> Facts {
    Facts {
        config: Config::parse("zookeepers://app:s3cret@a,b,c").expect("a URL"),
        given: Duration::from_secs(10),
        ensemble: Some(Ensemble { voters: 3, is_plain: true }),
        children: CHILDREN,
        acl: vec![Acl::new(Permission::ALL, AuthId::new("digest", "app:hash"))],
        quotas: Vec::new(),
        addresses: 3,
        silent: Vec::new(),
        unread: Vec::new(),
    }
}

fn voters(facts: &mut Facts, voters: usize, is_plain: bool) {
    facts.ensemble = Some(Ensemble { voters, is_plain });
    facts.addresses = voters;
}

fn open(facts: &mut Facts, permission: Permission) {
    facts.acl.push(Acl::new(permission, AuthId::anyone()));
}

fn quota(facts: &mut Facts, used: i64, soft: Option<i64>, hard: Option<i64>) {
    let nodes = Limits { used, soft, hard };
    facts.quotas.push(Quota { path: "/locks".to_owned(), nodes, bytes: Limits::default() });
}

/// A change of the [`healthy`] facts, and the expected finding: the severity, the rule, and a part of the text.
type Case = (fn(&mut Facts), Option<(Severity, &'static str, &'static str)>);

fn check(table: &[Case]) {
    for (at, (change, expected)) in table.iter().enumerate() {
        let mut facts = healthy();
        change(&mut facts);
        let found = findings(&facts);
        let seen: Vec<_> = found.iter().map(|finding| (finding.severity, finding.rule)).collect();
        let rules: Vec<_> = expected.iter().map(|(severity, rule, _)| (*severity, *rule)).collect();
        assert_eq!(seen, rules, "{at}: {found:#?}");
        for (finding, (_, _, text)) in found.iter().zip(expected) {
            assert!(finding.to_string().contains(text), "{at}: {finding}");
            assert!(!finding.found.ends_with('.') && !finding.advice.ends_with('.'), "{finding}");
        }
    }
}

#[test]
fn servers_and_sessions() {
    check(&[
        (|_| {}, None),
        (
            |facts| facts.silent.push(("a:2181".to_owned(), "refused".to_owned())),
            Some((Warning, "zookeeper.silent", "(a:2181): it does not answer (refused)")),
        ),
        (|facts| voters(facts, 1, true), Some((Warning, "zookeeper.one_server", "run three"))),
        (|facts| voters(facts, 2, true), Some((Warning, "zookeeper.even_servers", "while either is down"))),
        (
            |facts| voters(facts, 4, true),
            Some((Note, "zookeeper.even_servers", "no more losses than 3 would")),
        ),
        (|facts| voters(facts, 4, false), None),
        (|facts| voters(facts, 5, true), None),
        (|facts| facts.ensemble = None, None),
        (|facts| facts.addresses = 2, Some((Note, "zookeeper.unnamed", "leads to 2 of 3 servers"))),
        (
            |facts| facts.config.session_timeout = Duration::from_secs(60),
            Some((Warning, "zookeeper.session_timeout", "`maxSessionTimeout=60000`")),
        ),
        (
            |facts| facts.config.session_timeout = Duration::from_secs(2),
            Some((Note, "zookeeper.session_timeout", "`minSessionTimeout=2000`")),
        ),
        (
            |facts| facts.config.timeout = Duration::from_millis(4_999),
            Some((Note, "zookeeper.timeout", "`?timeout=5000ms`")),
        ),
    ]);
}

#[test]
fn nodes_and_users() {
    check(&[
        (|facts| facts.children += 1, Some((Note, "zookeeper.children", "10001 directories"))),
        (|facts| quota(facts, 2, Some(5), None), Some((Note, "zookeeper.quota", "the servers only log"))),
        (
            |facts| quota(facts, 80, None, Some(100)),
            Some((Note, "zookeeper.quota", "100 nodes, and 80 are used")),
        ),
        (
            |facts| quota(facts, 81, Some(9), Some(100)),
            Some((Warning, "zookeeper.quota", "`delquota /locks`")),
        ),
        (|facts| quota(facts, 81, None, None), None),
        (|facts| open(facts, Permission::READ | Permission::WRITE), None),
        (
            |facts| open(facts, Permission::DELETE | Permission::READ),
            Some((Warning, "zookeeper.open_base", "all users have DELETE on /locks")),
        ),
        (
            |facts| {
                open(facts, Permission::ALL);
                facts.config.auth = Auth::Sasl;
            },
            Some((Warning, "zookeeper.open_base", "`setAcl -R /locks sasl:<user>:cdrwa`")),
        ),
        // In this case the nodes of the locks are open too. One finding reports both.
        (
            |facts| {
                open(facts, Permission::ALL);
                facts.config.credentials = None;
            },
            Some((Note, "zookeeper.no_user", "any client may delete any lock")),
        ),
        (|facts| facts.config.files = None, Some((Note, "zookeeper.plain_text", "`zookeepers://`"))),
        (
            |facts| facts.unread.push("/zookeeper/config".to_owned()),
            Some((
                Note,
                "zookeeper.unread",
                "`setAcl /zookeeper/config <all that it printed>,world:anyone:r`",
            )),
        ),
    ]);
}

#[test]
fn the_list_of_the_servers_is_read() {
    for (config, voters, is_plain) in [
        ("", 1, true),
        ("version=0", 1, true),
        ("server.1=a:2888:3888:participant;0.0.0.0:2181\nserver.2=b:2888:3888\nversion=100000000", 2, true),
        ("server.1=a:2888:3888:participant\nserver.2=b:2888:3888:observer;2181\nversion=0", 1, true),
        (
            "server.1=a:1:2:participant\nserver.2=b:1:2:participant\ngroup.1=1:2\nweight.1=1\nversion=0",
            2,
            false,
        ),
    ] {
        assert_eq!(Ensemble::read(config.as_bytes()), Ensemble { voters, is_plain }, "{config}");
    }
}

#[test]
fn quotas_of_all_versions_are_read() {
    for (limits, soft, hard) in [
        ("count=5,bytes=-1", Some(5), None),
        ("count=-1,bytes=9=;byteHardLimit=-1;countHardLimit=7", None, Some(7)),
        ("", None, None),
    ] {
        let quota = Quota::read("/locks", limits.as_bytes(), b"count=3,bytes=12");
        assert_eq!(quota.nodes, Limits { used: 3, soft, hard }, "{limits}");
        assert_eq!(quota.bytes.used, 12);
    }
}
