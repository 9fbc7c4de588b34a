//! The findings of `doctor` in real clusters. Each test causes a fault, and repairs it.

mod members;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use lock_core::{LockManager, Severity};
use lock_tests::{Etcd, PATIENCE, wait_until};

use crate::findings::{found, gone};
use crate::support::{connect, manager};

/// The number of requests that are sent over one connection.
const AT_ONCE: usize = 200;

async fn rules(locks: &LockManager) -> Vec<(Severity, &'static str)> {
    let findings = locks.doctor().await.expect("the cluster answers");
    findings.iter().map(|finding| (finding.severity, finding.rule)).collect()
}

/// Sends requests to the JSON gateway of a member, which executes them in sequence.
fn post(member: SocketAddr, path: &str, bodies: &[String]) {
    for bodies in bodies.chunks(AT_ONCE) {
        let mut stream = TcpStream::connect(member).expect("it listens");
        let request = |(at, body): (usize, &String)| {
            let (last, length) = (at + 1 == bodies.len(), body.len());
            let last = if last { "Connection: close\r\n" } else { "" };
            format!("POST {path} HTTP/1.1\r\nHost: m\r\n{last}Content-Length: {length}\r\n\r\n{body}")
        };
        let requests: Vec<_> = bodies.iter().enumerate().map(request).collect();
        stream.write_all(requests.concat().as_bytes()).expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it answers");
        assert_eq!(text.matches("HTTP/1.1 200").count(), bodies.len(), "{text}");
    }
}

fn raise(etcd: &Etcd, alarm: &str) {
    let list = etcd.ctl(&["member", "list"]);
    let id = list.split(',').next().expect("a member");
    let id = u64::from_str_radix(id, 16).expect("an id");
    let body = format!("{{\"action\":\"ACTIVATE\",\"memberID\":\"{id}\",\"alarm\":\"{alarm}\"}}");
    post(etcd.address(0), "/v3/maintenance/alarm", &[body]);
}

#[tokio::test]
async fn a_healthy_cluster_has_no_danger() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let expected = [(Severity::Warning, "etcd.one_member"), (Severity::Note, "etcd.no_auth")];
    assert_eq!(rules(&locks).await, expected);
    assert!(etcd.keys().is_empty(), "it only reads");
    assert_eq!(etcd.leases(), 0);
}

#[tokio::test]
async fn an_alarm_is_a_danger_until_it_is_disarmed() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    for (alarm, rule, advice) in [
        ("NOSPACE", "etcd.nospace", "etcdctl alarm disarm"),
        ("CORRUPT", "etcd.corrupt", "etcdutl snapshot restore"),
    ] {
        raise(&etcd, alarm);
        let danger = found(&locks, rule).await;
        assert_eq!((danger.severity, danger.about), (Severity::Danger, etcd.address(0).to_string()));
        assert!(danger.advice.contains(advice), "{}", danger.advice);
        etcd.ctl(&["alarm", "disarm"]);
        gone(&locks, rule).await;
    }
}

/// The test executes the statement of the finding.
#[tokio::test]
async fn free_space_in_the_file_goes_with_the_statement_of_the_finding() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    // The value is base64. A key of digits is also valid base64 for some bytes.
    let value = "eHh4".repeat(300_000);
    for first in (0..120).step_by(10) {
        let put = |key| format!("{{\"key\":\"{key:04}\",\"value\":\"{value}\"}}");
        post(etcd.address(0), "/v3/kv/put", &(first..first + 10).map(put).collect::<Vec<_>>());
    }
    etcd.ctl(&["del", "", "--prefix"]);
    let text = etcd.ctl(&["endpoint", "status", "-w", "fields"]);
    let revision = text.lines().find_map(|line| line.strip_prefix("\"Revision\" : ")).expect("a revision");
    etcd.ctl(&["compact", revision.trim()]);
    // Pages are free only after a later write.
    let is_free = async || {
        etcd.ctl(&["put", "other", "x"]);
        rules(&locks).await.contains(&(Severity::Note, "etcd.free_space"))
    };
    wait_until("the space is free", PATIENCE, is_free).await;
    let finding = found(&locks, "etcd.free_space").await;
    let statement = format!("etcdctl --endpoints={} defrag", etcd.address(0));
    assert!(finding.advice.contains(&statement), "{}", finding.advice);
    etcd.ctl(&["defrag"]);
    gone(&locks, "etcd.free_space").await;
}

/// A user with only the rights for locks gets all findings except those that need another right.
#[tokio::test]
async fn a_user_without_the_role_root_is_told_the_rest() {
    let etcd = crate::login::with_users(300);
    let locks = connect(&etcd.url_for("app", "s3cret%40%2F")).await;
    let rules = rules(&locks).await;
    let expected = [(Severity::Warning, "etcd.one_member"), (Severity::Note, "etcd.plain_text")];
    assert!(expected.iter().all(|rule| rules.contains(rule)), "{rules:?}");
    assert!(rules.iter().all(|(_, rule)| *rule != "etcd.no_auth" && *rule != "etcd.silent"), "{rules:?}");
}

#[tokio::test]
async fn a_proxy_is_told() {
    let etcd = Etcd::start();
    let proxy = etcd.grpc_proxy();
    let locks = connect(&proxy.url()).await;
    assert_eq!(rules(&locks).await, [(Severity::Note, "etcd.no_auth"), (Severity::Note, "etcd.proxy")]);
}
