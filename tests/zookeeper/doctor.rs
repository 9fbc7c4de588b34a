//! The findings of `doctor` about real servers. Each test causes a fault, and repairs it.

use lock_core::{LockManager, Severity};
use lock_tests::ZooKeeperServers;
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Permission};

use crate::findings::{found, gone};
use crate::support::{connect, url};

async fn rules(locks: &LockManager) -> Vec<(Severity, &'static str)> {
    let findings = locks.doctor().await.expect("the servers answer");
    findings.iter().map(|finding| (finding.severity, finding.rule)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_server_has_no_danger_and_sessions_of_other_lengths_are_told() {
    let servers = ZooKeeperServers::start();
    let plain = [(Severity::Warning, "zookeeper.one_server"), (Severity::Note, "zookeeper.no_user")];
    assert_eq!(rules(&connect(&url(&servers)).await).await, plain);
    // A session lasts for at least 2 and at most 20 ticks of 500 ms.
    for (options, rule, severity, advice) in [
        ("session_timeout=20s", "zookeeper.session_timeout", Severity::Warning, "`maxSessionTimeout=20000`"),
        ("session_timeout=500ms", "zookeeper.session_timeout", Severity::Note, "`minSessionTimeout=500`"),
        ("session_timeout=6s&timeout=2s", "zookeeper.timeout", Severity::Note, "`?timeout=3000ms`"),
    ] {
        let locks = connect(&format!("{}?{options}", servers.url("locks"))).await;
        let finding = found(&locks, rule).await;
        assert_eq!(finding.severity, severity, "{finding}");
        assert!(finding.advice.contains(advice), "{finding}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_is_named() {
    let mut servers = ZooKeeperServers::builder().members(3).start();
    let locks = connect(&format!("{}&timeout=2s", url(&servers))).await;
    let plain = [(Severity::Note, "zookeeper.no_user"), (Severity::Note, "zookeeper.timeout")];
    let mut rules = rules(&locks).await;
    rules.sort_unstable();
    assert_eq!(rules, plain);
    let alone = format!("zookeeper://{}/locks?session_timeout=6s", servers.address(0));
    assert!(found(&connect(&alone).await, "zookeeper.unnamed").await.found.contains("1 of 3"));
    servers.kill9(1);
    let silent = found(&locks, "zookeeper.silent").await;
    assert_eq!((silent.severity, silent.about), (Severity::Warning, servers.address(1).to_string()));
    servers.restart(1);
    gone(&locks, "zookeeper.silent").await;
    // A hanging server accepts connections.
    servers.stop(2);
    assert_eq!(found(&locks, "zookeeper.silent").await.about, servers.address(2).to_string());
    servers.cont(2);
    gone(&locks, "zookeeper.silent").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_are_worse_than_one() {
    let servers = ZooKeeperServers::builder().members(2).start();
    let even = found(&connect(&url(&servers)).await, "zookeeper.even_servers").await;
    assert_eq!(even.severity, Severity::Warning, "{even}");
}

/// Writes the limits of the directory of the locks, as `setquota` does.
async fn set_quota(admin: &Client, limits: &str, acl: Acls<'_>) {
    let options = CreateMode::Persistent.with_acls(acl);
    let path = "/zookeeper/quota/locks";
    admin.create(path, b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.expect("it is new");
    for (name, data) in [("limits", limits), ("stats", "count=0,bytes=0")] {
        let path = format!("{path}/zookeeper_{name}");
        admin.create(&path, data.as_bytes(), &options).await.expect("it is new");
    }
}

async fn delete_quota(admin: &Client) {
    for name in ["/zookeeper_stats", "/zookeeper_limits", ""] {
        admin.delete(&format!("/zookeeper/quota/locks{name}"), None).await.expect("it is there");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_told_and_one_that_may_not_be_read_as_well() {
    let servers = ZooKeeperServers::start();
    let (locks, admin) =
        (connect(&url(&servers)).await, Client::connect(&servers.hosts()).await.expect("a client"));
    let full = "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1";
    for (limits, severity) in [("count=5,bytes=-1", Severity::Note), (full, Severity::Warning)] {
        set_quota(&admin, limits, Acls::anyone_all()).await;
        let quota = found(&locks, "zookeeper.quota").await;
        assert_eq!((quota.severity, quota.about.as_str()), (severity, "/locks"), "{}", quota.found);
        delete_quota(&admin).await;
        gone(&locks, "zookeeper.quota").await;
    }
    let closed = [Acl::new(Permission::WRITE, AuthId::anyone())];
    set_quota(&admin, full, Acls::new(&closed)).await;
    let unread = found(&locks, "zookeeper.unread").await;
    assert_eq!(unread.severity, Severity::Note);
    assert!(unread.advice.contains("/zookeeper/quota/locks/zookeeper_limits"), "{}", unread.advice);
    delete_quota(&admin).await;
    gone(&locks, "zookeeper.unread").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn very_many_keys_are_told() {
    let servers = ZooKeeperServers::start();
    let (locks, admin) =
        (connect(&url(&servers)).await, Client::connect(&servers.hosts()).await.expect("a client"));
    let paths: Vec<String> = (0..10_001).map(|key| format!("/locks/k{key}")).collect();
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    for paths in paths.chunks(500) {
        let mut creates = admin.new_multi_writer();
        paths.iter().for_each(|path| creates.add_create(path, b"", &options).expect("a path"));
        creates.commit().await.expect("they are new");
    }
    assert_eq!(found(&locks, "zookeeper.children").await.severity, Severity::Note);
    admin.delete(&paths[0], None).await.expect("it is there");
    gone(&locks, "zookeeper.children").await;
}

/// Another program may have created the directory before there was a user.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_open_to_all_is_told_to_a_user() {
    let servers = ZooKeeperServers::start();
    let admin = Client::connect(&servers.hosts()).await.expect("a client");
    admin.create("/closed", b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.expect("new");
    let url = format!("zookeeper://app:s3cret@{}/closed?session_timeout=6s", servers.hosts());
    let locks = connect(&url).await;
    let open = found(&locks, "zookeeper.open_base").await;
    assert_eq!((open.severity, open.about.as_str()), (Severity::Warning, "/closed"));
    found(&locks, "zookeeper.plain_text").await;
    // The test does what the finding says.
    admin.auth("digest", b"app:s3cret").await.expect("it is taken");
    let own = [Acl::new(Permission::ALL, AuthId::authed())];
    admin.set_acl("/closed", &own, None).await.expect("it may");
    gone(&locks, "zookeeper.open_base").await;
}
