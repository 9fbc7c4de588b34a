//! Keys that are used once, and the nodes that remain of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lock_tests::{PATIENCE, ZooKeeperServers, wait_until};
use tokio::task::JoinSet;
use zookeeper_client::{Acls, Client, CreateMode};

use crate::support::{LONG, connect, patient_url, try_once};

/// Starts a server that deletes no container on its own.
fn servers() -> ZooKeeperServers {
    let servers = ZooKeeperServers::builder().tick(std::time::Duration::from_secs(1));
    servers.property("znode.container.checkIntervalMs=3600000").start()
}

/// Each key has a directory while it is used and for a moment afterwards. The process deletes the containers that it
/// has created.
#[tokio::test(flavor = "multi_thread")]
async fn directories_go_some_time_after_their_last_use() {
    const KEYS: usize = 2_000;
    let servers = servers();
    let locks = connect(&patient_url(&servers)).await;
    let held = try_once(&locks, "held").await.expect("free");
    let (next, mut tasks) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
    for _ in 0..32 {
        let (locks, next) = (locks.clone(), Arc::clone(&next));
        tasks.spawn(async move {
            loop {
                let key = next.fetch_add(1, Ordering::Relaxed);
                if key >= KEYS {
                    return;
                }
                let guard = try_once(&locks, &format!("order:{key}")).await.expect("free");
                guard.release().await.expect("an answer");
            }
        });
    }
    tasks.join_all().await;
    let client = Client::connect(&servers.hosts()).await.expect("a client");
    let directories = async || client.list_children("/locks").await.expect("an answer");
    wait_until("they are gone", PATIENCE * 3, async || directories().await == ["held"]).await;
    assert!(held.is_held());
    held.release().await.expect("an answer");
    wait_until("it is gone too", PATIENCE * 3, async || directories().await.is_empty()).await;
    // This directory was created by another program, and no server deletes it, so it stays.
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create("/locks/theirs", b"", &options).await.expect("made");
    try_once(&locks, "theirs").await.expect("free").release().await.expect("an answer");
    let again = try_once(&locks, "order:7").await.expect("free");
    again.release().await.expect("an answer");
    wait_until("ours is gone", PATIENCE * 3, async || directories().await == ["theirs"]).await;
}

/// Nodes of other programs, such as persistent directories, stay. They hide no holder of a key.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_answered_however_many_names_are_left() {
    const NAMES: usize = 100_000;
    let servers = servers();
    let locks = connect(&patient_url(&servers)).await;
    let client = Client::connect(&servers.hosts()).await.expect("a client");
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    for names in (0..NAMES).collect::<Vec<_>>().chunks(500) {
        let mut creates = client.new_multi_writer();
        for name in names {
            creates.add_create(&format!("/locks/left:{name}"), b"", &options).expect("a path");
        }
        creates.commit().await.expect("an answer");
    }
    let held = locks.lock("zz").ttl(LONG).wait(PATIENCE).acquire().await.expect("free");
    let listed = locks.locks().await.expect("an answer").locks;
    assert_eq!(listed.iter().map(|lock| lock.key.as_str()).collect::<Vec<_>>(), ["zz"]);
    held.release().await.expect("an answer");
    let left = client.check_stat("/locks").await.expect("an answer").expect("it is there");
    assert_eq!(usize::try_from(left.num_children), Ok(NAMES + 1));
}
