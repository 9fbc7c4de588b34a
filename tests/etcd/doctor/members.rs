//! Findings that compare several members.

use lock_core::Severity;
use lock_tests::{Etcd, PATIENCE, wait_until};

use super::{post, rules};
use crate::findings::{found, gone};
use crate::support::{connect, manager};

/// Adds a member that never starts. Waits first until the others have been healthy for a while. Returns its id.
async fn add(etcd: &Etcd, options: &[&str]) -> String {
    let command = [&["member", "add", "late", "--peer-urls=http://127.0.0.1:1"][..], options].concat();
    let mut added = String::new();
    let adds = async || match etcd.try_ctl(&command) {
        Ok(text) => {
            added = text.split_whitespace().nth(1).expect("an id").to_owned();
            true
        }
        Err(_) => false,
    };
    wait_until("it is added", PATIENCE, adds).await;
    added
}

#[tokio::test]
async fn a_member_that_is_down_or_was_never_started_is_named() {
    let mut etcd = Etcd::builder().members(3).start();
    let locks = manager(&etcd).await;
    assert_eq!(rules(&locks).await, [(Severity::Note, "etcd.no_auth")]);
    let alone = connect(&etcd.url_of(1)).await;
    let unnamed = found(&alone, "etcd.unnamed").await;
    let all = [0, 1, 2].map(|member| etcd.address(member).to_string());
    assert!(all.iter().all(|member| unnamed.advice.contains(member)), "{}", unnamed.advice);
    etcd.kill9(0);
    for locks in [&locks, &alone] {
        let silent = found(locks, "etcd.silent").await;
        assert_eq!((silent.severity, &silent.about), (Severity::Warning, &all[0]));
        assert!(silent.found.contains("1 of 3"), "{}", silent.found);
    }
    etcd.restart(0);
    gone(&locks, "etcd.silent").await;
    // A hanging member accepts connections.
    etcd.stop(2);
    assert_eq!(found(&locks, "etcd.silent").await.about, all[2]);
    etcd.cont(2);
    gone(&locks, "etcd.silent").await;

    // The added member never starts. First it has no vote, then it has one.
    let added = add(&etcd, &["--learner"]).await;
    let learner = found(&locks, "etcd.learner").await;
    assert!(learner.advice.contains(&format!("`etcdctl member promote {added}`")), "{}", learner.advice);
    assert_eq!(rules(&locks).await, [(Severity::Note, "etcd.learner"), (Severity::Note, "etcd.no_auth")]);
    etcd.ctl(&["member", "remove", &added]);
    gone(&locks, "etcd.learner").await;
    let added = add(&etcd, &[]).await;
    let even = found(&locks, "etcd.even_members").await;
    assert_eq!(even.severity, Severity::Note);
    assert!(found(&locks, "etcd.silent").await.found.contains("has never started"));
    etcd.ctl(&["member", "remove", &added]);
    gone(&locks, "etcd.even_members").await;
}

/// A member that is cut off answers, but receives no changes from the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_cut_off_knows_no_leader_and_lags() {
    let etcd = Etcd::builder().members(3).partitionable().start();
    let locks = manager(&etcd).await;
    let cut = (etcd.leader() + 1) % 3;
    etcd.cut_off(cut);
    let name = etcd.address(cut).to_string();
    let leaderless = found(&locks, "etcd.no_leader").await;
    assert_eq!((leaderless.severity, leaderless.about), (Severity::Warning, name.clone()));
    let lease = "{\"TTL\":600}".to_owned();
    let address = etcd.address((cut + 1) % 3);
    let grants: Vec<_> = (0..4)
        .map(|_| {
            let leases = vec![lease.clone(); 2_600];
            tokio::task::spawn_blocking(move || post(address, "/v3/lease/grant", &leases))
        })
        .collect();
    for grants in grants {
        grants.await.expect("they are granted");
    }
    let lagging = found(&locks, "etcd.lagging").await;
    assert_eq!((lagging.severity, lagging.about), (Severity::Warning, name));
    assert_eq!(found(&locks, "etcd.leases").await.severity, Severity::Note);
    etcd.rejoin();
    gone(&locks, "etcd.no_leader").await;
    gone(&locks, "etcd.lagging").await;
}
