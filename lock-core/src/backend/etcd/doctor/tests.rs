//! Tests the rules with facts that cause a finding, and similar facts that cause none.

use super::facts::{Answer, Facts, List, Member};
use super::rules::{BEHIND, DEFAULT_QUOTA, FREE, FULL, LEASES, findings};
use crate::backend::Severity;
use crate::backend::etcd::config::Config;
use crate::backend::etcd::proto::{AlarmMember, Header, StatusResponse};

/// Returns the facts of three members without a finding.
fn healthy() -> Facts {
    let member = |id: u64| {
        let header = Some(Header { member_id: id, revision: 42 });
        let state = StatusResponse {
            header,
            version: "3.6.1".to_owned(),
            db_size: FREE,
            leader: 1,
            raft_index: 90_000,
            raft_applied_index: 90_000,
            db_size_in_use: FREE,
            db_size_quota: DEFAULT_QUOTA * 2,
            ..StatusResponse::default()
        };
        let (name, peer) = (format!("m{id}:2379"), format!("http://m{id}:2380"));
        Member { id, name, peer, is_learner: false, answer: Answer::State(state) }
    };
    Facts {
        list: List::Whole,
        members: (1..=3).map(member).collect(),
        addresses: 3,
        alarms: Some(Vec::new()),
        leases: Some(LEASES),
        config: config("etcds://app:s3cret@m1,m2,m3"),
    }
}

fn config(url: &str) -> Config {
    Config::parse(url).expect(url)
}

fn first(facts: &mut Facts) -> &mut StatusResponse {
    match &mut facts.members[0].answer {
        Answer::State(state) => state,
        answer => panic!("{answer:?}"),
    }
}

fn members(facts: &mut Facts, count: usize) {
    let like = facts.members[0].clone();
    facts.members.resize(count, like);
    facts.addresses = count;
}

fn alarm(alarm: i32) -> Option<Vec<AlarmMember>> {
    Some(vec![AlarmMember { member_id: 1, alarm }])
}

/// A change of the [`healthy`] facts, and the expected findings: the severity, the rule, and a part of the text.
type Case = (fn(&mut Facts), &'static [(Severity, &'static str, &'static str)]);

fn check(table: &[Case]) {
    for (at, (change, expected)) in table.iter().enumerate() {
        let mut facts = healthy();
        change(&mut facts);
        let found = findings(&facts);
        let seen: Vec<_> = found.iter().map(|finding| (finding.severity, finding.rule)).collect();
        let rules: Vec<_> = expected.iter().map(|(severity, rule, _)| (*severity, *rule)).collect();
        assert_eq!(seen, rules, "{at}: {found:#?}");
        for (finding, (_, _, text)) in found.iter().zip(*expected) {
            assert!(finding.to_string().contains(text), "{at}: {finding}");
            assert!(!finding.found.ends_with('.') && !finding.advice.ends_with('.'), "{finding}");
        }
    }
}

#[test]
fn alarms_and_sizes() {
    use Severity::{Danger, Note, Warning};
    check(&[
        (|_| {}, &[]),
        (|facts| facts.alarms = alarm(1), &[(Danger, "etcd.nospace", "(m1:2379)")]),
        (
            |facts| facts.alarms = alarm(1),
            &[(
                Danger,
                "etcd.nospace",
                "`etcdctl compact 42 --physical; etcdctl --command-timeout=10m defrag --cluster &&",
            )],
        ),
        (|facts| facts.alarms = alarm(2), &[(Danger, "etcd.corrupt", "`etcdctl member remove 1`")]),
        (|facts| facts.alarms = alarm(2), &[(Danger, "etcd.corrupt", "--peer-urls=http://m1:2380")]),
        (|facts| facts.alarms = alarm(3), &[]),
        (
            |facts| first(facts).db_size_quota = FREE,
            &[(Warning, "etcd.size", "64 MiB, 100 % of its quota of 64 MiB")],
        ),
        (|facts| first(facts).db_size_quota = FREE * 100 / FULL, &[]),
        (|facts| first(facts).db_size_quota = -1, &[]),
        (
            |facts| {
                let state = first(facts);
                (state.db_size_quota, state.db_size, state.db_size_in_use) =
                    (0, DEFAULT_QUOTA / 10 * 9, DEFAULT_QUOTA / 10 * 8);
            },
            &[(Warning, "etcd.size", "of the 2048 MiB that are the default quota")],
        ),
        (
            |facts| {
                let state = first(facts);
                (state.db_size_quota, state.db_size, state.db_size_in_use) =
                    (0, DEFAULT_QUOTA * 2, DEFAULT_QUOTA * 2);
            },
            &[(Note, "etcd.size", "4096 MiB, and this version does not tell")],
        ),
        (
            |facts| (first(facts).db_size, first(facts).db_size_in_use) = (FREE * 3, FREE),
            &[(Note, "etcd.free_space", "`etcdctl --endpoints=m1:2379 defrag`")],
        ),
        (|facts| first(facts).db_size = FREE * 2, &[]),
        (|facts| first(facts).db_size_in_use = 1, &[]),
        (|facts| (first(facts).db_size, first(facts).db_size_in_use) = (FREE * 3, 0), &[]),
    ]);
}

#[test]
fn members_and_their_number() {
    use Severity::{Note, Warning};
    check(&[
        (
            |facts| facts.members[0].answer = Answer::Silent,
            &[(
                Warning,
                "etcd.silent",
                "1 of 3 members with a vote are missing, and if more than 0 others fail",
            )],
        ),
        (
            |facts| facts.members[0].answer = Answer::NotStarted,
            &[(Warning, "etcd.silent", "has never started")],
        ),
        (
            |facts| facts.members[0].answer = Answer::Refused,
            &[(Note, "etcd.unread", "the state of each member")],
        ),
        (|facts| facts.members[0].answer = Answer::Elsewhere, &[(Note, "etcd.elsewhere", "(m1:2379)")]),
        (|facts| first(facts).leader = 0, &[(Warning, "etcd.no_leader", "http://m1:2380")]),
        (|facts| first(facts).raft_applied_index -= BEHIND, &[]),
        (|facts| first(facts).raft_applied_index -= BEHIND + 1, &[(Warning, "etcd.lagging", "5001 behind")]),
        (|facts| first(facts).raft_applied_index = 0, &[]),
        (
            |facts| first(facts).version = "3.5.9".to_owned(),
            &[(Note, "etcd.versions", "3.5.9 (m1:2379), 3.6.1 (m2:2379, m3:2379)")],
        ),
        (
            |facts| {
                members(facts, 4);
                facts.members[3].is_learner = true;
            },
            &[(Note, "etcd.learner", "`etcdctl member promote 1`")],
        ),
        (|facts| members(facts, 1), &[(Warning, "etcd.one_member", "only copy")]),
        (|facts| members(facts, 2), &[(Warning, "etcd.even_members", "while either is down")]),
        (|facts| members(facts, 4), &[(Note, "etcd.even_members", "no more losses than 3 would")]),
        (|facts| members(facts, 5), &[]),
        (|facts| facts.addresses = 2, &[(Note, "etcd.unnamed", "`m1:2379,m2:2379,m3:2379`")]),
    ]);
}

#[test]
fn access_and_what_cannot_be_read() {
    use Severity::Note;
    check(&[
        (|facts| facts.config = config("etcd://m1"), &[(Note, "etcd.no_auth", "etcdctl auth enable")]),
        (|facts| facts.config = config("etcd://app:s3cret@m1"), &[(Note, "etcd.plain_text", "`etcds://`")]),
        (|facts| facts.config = config("etcds://m1?ca=/a.pem"), &[(Note, "etcd.no_auth", "")]),
        (|facts| facts.config = config("etcds://m1?cert=/c.pem&key=/k.pem"), &[]),
        (|facts| facts.leases = Some(LEASES + 1), &[(Note, "etcd.leases", "10001 leases")]),
        (|facts| facts.leases = None, &[(Note, "etcd.unread", "may not read the leases")]),
        (|facts| facts.alarms = None, &[(Note, "etcd.unread", "`etcdctl user grant-role <user> root`")]),
        // The user may not read the list, so the number of members is unknown.
        (
            |facts| {
                members(facts, 1);
                facts.list = List::Unread;
            },
            &[(Note, "etcd.unread", "the list of the members")],
        ),
        (
            |facts| {
                members(facts, 1);
                facts.list = List::Proxied;
            },
            &[(Note, "etcd.proxy", "a proxy answers")],
        ),
    ]);
}
