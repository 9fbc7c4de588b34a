//! Many waiters of one process for one key.

use std::time::Duration;

use lock_core::strategy::retry;
use lock_tests::{Bound, Crowd, PATIENCE, Proxy, wait_until};

use crate::support::{LONG, connect, ms, patient_servers, patient_url};

const WAITERS: usize = 150;
const MINUTES: Duration = Duration::from_secs(180);

/// The deletion of any node may serve a waiter for a permit. If each waiter then read the queue, the server would send
/// them a million node names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_at_a_semaphore_reads_a_change_once() {
    let servers = patient_servers();
    let proxy = Proxy::to(servers.address(0));
    let (near, url) = (connect(&patient_url(&servers)).await, patient_url(&servers));
    let port = |port: u16| format!(":{port}/");
    let locks = connect(&url.replace(&port(servers.address(0).port()), &port(proxy.port()))).await;
    let held = near.semaphore("k", 1).ttl(LONG).acquire().await.expect("it is free");
    let mut crowd = Crowd::default();
    for number in 0..WAITERS {
        crowd.add(number, locks.semaphore("k", 1).ttl(LONG).strategy(retry().within(MINUTES)));
    }
    wait_until("all wait", MINUTES, async || servers.nodes("locks/k") == WAITERS + 1).await;
    let (before, clock) = (proxy.traffic().replies.seen, Bound::new(MINUTES));
    held.release().await.expect("an answer");
    crowd.all_served(MINUTES).await;
    let read = proxy.traffic().replies.seen - before;
    // The limit is a few reads of 75 nodes on average for each waiter, and one read every two seconds.
    let most = 8_000_000 + 15_000 * clock.elapsed().as_secs();
    assert!(read < most, "{read} bytes for {WAITERS} waiters");
    wait_until("nothing is left", PATIENCE, async || servers.nodes("locks/k") == 0).await;
}

/// Each waiter requests the key again from time to time. If each of them read all nodes then, the answers would keep the
/// server and the process busy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_queue_is_not_read_by_each_of_its_waiters() {
    const MANY: usize = 500;
    let servers = patient_servers();
    let proxy = Proxy::to(servers.address(0));
    let (near, url) = (connect(&patient_url(&servers)).await, patient_url(&servers));
    let port = |port: u16| format!(":{port}/");
    let locks = connect(&url.replace(&port(servers.address(0).port()), &port(proxy.port()))).await;
    let held = near.fair("k").ttl(LONG).acquire().await.expect("it is free");
    let mut crowd = Crowd::default();
    for number in 0..MANY {
        crowd.add(number, locks.fair("k").ttl(LONG).strategy(retry().within(MINUTES)));
    }
    wait_until("all wait", MINUTES, async || servers.nodes("locks/k") == MANY + 1).await;
    // All of them have read the whole queue once more by now.
    tokio::time::sleep(ms(6_000)).await;
    let (before, clock) = (proxy.traffic().replies.seen, Bound::new(MINUTES));
    tokio::time::sleep(ms(8_000)).await;
    let read = proxy.traffic().replies.seen - before;
    let names: usize = servers.names("locks/k").iter().map(|name| name.len() + size_of::<u32>()).sum();
    let whole = clock.elapsed().as_secs_f64() * 150.0 * names as f64;
    assert!((read as f64) < whole, "{read} bytes in {:?} for {MANY} waiters", clock.elapsed());
    // A waiter whose node an operator deletes takes another place. All of them are served.
    let admin = zookeeper_client::Client::connect(&servers.hosts()).await.expect("it serves");
    let names = servers.names("locks/k");
    let last = names.iter().max_by_key(|name| name.rsplit('-').next()).expect("they wait");
    admin.delete(&format!("/locks/k/{last}"), None).await.expect("it waits");
    wait_until("it waits again", PATIENCE, async || servers.nodes("locks/k") == MANY + 1).await;
    held.release().await.expect("an answer");
    crowd.all_served(MINUTES).await;
}

/// A writer waits for the last reader before it, and is notified when that reader ends. Other readers may continue.
#[tokio::test]
async fn a_writer_waits_for_every_reader() {
    let servers = patient_servers();
    let locks = connect(&patient_url(&servers)).await;
    for last_first in [true, false] {
        let mut readers = Vec::new();
        for _ in 0..3 {
            readers.push(locks.read("k").ttl(LONG).acquire().await.expect("shared"));
        }
        let writing = tokio::spawn(locks.write("k").ttl(LONG).strategy(retry().within(MINUTES)).acquire());
        wait_until("the writer waits", PATIENCE, async || servers.nodes("locks/k") == 4).await;
        wait_until("the writer watches", PATIENCE, async || servers.watches() > 0).await;
        if last_first {
            readers.reverse();
        }
        let left = readers.pop().expect("three");
        for reader in readers {
            reader.release().await.expect("an answer");
        }
        tokio::time::sleep(ms(300)).await;
        assert!(!writing.is_finished(), "granted beside a reader");
        left.release().await.expect("an answer");
        let written = writing.await.expect("no panic").expect("its turn comes");
        written.release().await.expect("an answer");
    }
}

/// A writer that becomes a reader deletes its node, for which the next writer waits. It keeps its place with another
/// node.
#[tokio::test]
async fn a_writer_behind_a_downgrade_waits_on() {
    let servers = patient_servers();
    let (locks, others) = (connect(&patient_url(&servers)).await, connect(&patient_url(&servers)).await);
    for next in [&locks, &others] {
        let writer = locks.write("k").ttl(LONG).acquire().await.expect("it is free");
        let waiting = tokio::spawn(next.write("k").ttl(LONG).strategy(retry().within(MINUTES)).acquire());
        wait_until("the next one waits", PATIENCE, async || servers.nodes("locks/k") == 2).await;
        wait_until("the next one watches", PATIENCE, async || servers.watches() > 0).await;
        let reader = writer.downgrade().await.expect("a reader");
        tokio::time::sleep(ms(300)).await;
        assert!(!waiting.is_finished(), "granted beside a reader");
        reader.release().await.expect("an answer");
        let next = waiting.await.expect("no panic").expect("its turn comes");
        next.release().await.expect("an answer");
    }
}
