//! The groups of a fair lock: waiters of one process that stand directly behind each other share a place and a grant.

use lock_core::LockManager;
use lock_core::backend::zookeeper::ZooKeeper;
use lock_tests::{PATIENCE, ZooKeeperServers, wait_until};

use crate::in_line::{
    Counted, Grants, come_again, fair, line, lost_as_one, mixed, passed_over, places_of_mixed,
    served_by_waves, served_in_order, turns_of_one_process,
};
use crate::support::{LONG, patient_servers, patient_url};

async fn manager(servers: &ZooKeeperServers, counted: &Counted) -> LockManager {
    counted.manager(ZooKeeper::connect(&patient_url(servers)).await.expect("the servers take locks"))
}

async fn empty(servers: &ZooKeeperServers) {
    wait_until("no node is left", PATIENCE, async || servers.nodes("locks/k") == 0).await;
}

/// The places are taken one by one, so their order is known, and the grants must have the same.
#[tokio::test(flavor = "multi_thread")]
async fn grants_are_in_the_order_of_the_places() {
    let servers = patient_servers();
    for holder_is_first in [false, true] {
        let counted = Counted::default();
        let [one, two, three] = [
            manager(&servers, &counted).await,
            manager(&servers, &counted).await,
            manager(&servers, &counted).await,
        ];
        let holder = if holder_is_first { &one } else { &three };
        let held = fair(holder).acquire().await.expect("it is free");
        let grants = Grants::default();
        let tasks = line(&counted, &mixed(&one, &two, &three), &grants).await;
        let places = usize::try_from(places_of_mixed(holder_is_first)).expect("few");
        assert_eq!(servers.nodes("locks/k"), places + 1, "a group has one node");
        served_in_order(held, tasks, &grants).await;
        empty(&servers).await;
    }
}

/// Nobody overtakes those who had their places before it came, whoever gives up.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_overtakes_an_earlier_wave() {
    let (servers, counted) = (patient_servers(), Counted::default());
    let processes = [
        manager(&servers, &counted).await,
        manager(&servers, &counted).await,
        manager(&servers, &counted).await,
    ];
    for seed in 0..30 {
        served_by_waves(&counted, &processes, seed).await;
    }
    empty(&servers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gives_up_is_passed_over_and_moves_nobody() {
    let (servers, counted) = (patient_servers(), Counted::default());
    let [one, two] = [manager(&servers, &counted).await, manager(&servers, &counted).await];
    let left = async || {
        wait_until("the empty group has left the line", PATIENCE, async || servers.nodes("locks/k") == 5)
            .await;
    };
    passed_over(&counted, &one, &two, left).await;
    empty(&servers).await;
}

/// The grant of a group is lost as one. The rest of it queues again, and nobody holds beside another.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_loses_its_grant_queues_again() {
    let (servers, counted) = (patient_servers(), Counted::default());
    let [one, two] = [manager(&servers, &counted).await, manager(&servers, &counted).await];
    let client = zookeeper_client::Client::connect(&servers.hosts()).await.expect("a client");
    let forgets = async || {
        let mut nodes = servers.names("locks/k");
        nodes.sort_by_key(|node| node.rsplit('-').next().map(str::to_owned));
        client.delete(&format!("/locks/k/{}", nodes[0]), None).await.expect("the holder has it");
    };
    lost_as_one(&counted, &one, &two, LONG, forgets).await;
    empty(&servers).await;
}

/// A turn of one process costs next to no write: one request has a place for all who wait at that moment, and the grant goes from task
/// to task. With a place for each, a turn costs a node.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_in_a_group_writes_nothing() {
    let servers = patient_servers();
    let client = zookeeper_client::Client::connect(&servers.hosts()).await.expect("a client");
    for shared in [true, false] {
        let locks = manager(&servers, &Counted::default()).await;
        fair(&locks).run(async {}).await.expect("it is free");
        let changes =
            async || client.check_stat("/locks/k").await.expect("an answer").expect("it is there").cversion;
        let before = changes().await;
        let turns = turns_of_one_process(&locks, shared).await;
        let changed = (changes().await - before).unsigned_abs();
        assert_eq!(changed <= turns / 4, shared, "{changed} changes for {turns} turns");
    }
}

#[tokio::test]
async fn who_comes_again_shares_a_place_with_those_who_were_next() {
    let (servers, counted) = (patient_servers(), Counted::default());
    let (one, two) = (manager(&servers, &counted).await, manager(&servers, &counted).await);
    come_again(&counted, &one, &two).await;
    empty(&servers).await;
}
