//! Many waiters of one process for one key, over a connection with a long round trip. Each waiter keeps its place and
//! is served.

use std::time::Duration;

use lock_core::strategy::retry;
use lock_core::{LockManager, LockRequest};
use lock_tests::{Bound, Crowd, Etcd, PATIENCE, Proxy, wait_until};

use crate::support::{LONG, connect, empty, ms};

const WAITERS: usize = 300;
/// The delay in each direction.
const EACH_WAY: Duration = ms(5);
/// The time limit for steps that take seconds on a quiet machine.
const MINUTES: Duration = Duration::from_secs(180);

struct Far {
    etcd: Etcd,
    locks: LockManager,
    proxy: Proxy,
}

impl Far {
    /// Returns a manager over a slow connection.
    async fn start() -> Self {
        let etcd = Etcd::start();
        let proxy = Proxy::to(etcd.address(0));
        // The long timeout keeps a busy machine from looking like a slow server.
        let locks = connect(&format!("etcd://127.0.0.1:{}?timeout=15s", proxy.port())).await;
        proxy.delay(EACH_WAY);
        Self { etcd, locks, proxy }
    }

    /// Starts many waiters, and waits until all are in the queue.
    async fn crowd(&self, already: usize, request: impl Fn(&LockManager) -> LockRequest) -> Crowd {
        let mut crowd = Crowd::default();
        for number in 0..WAITERS {
            let request =
                request(&self.locks).ttl(LONG).strategy(retry().within(MINUTES)).label(format!("n{number}"));
            crowd.add(number, request);
        }
        let all = already + WAITERS;
        wait_until("all wait", MINUTES, async || self.etcd.keys().len() == all).await;
        crowd
    }

    /// Returns the numbers of the waiters in the order of their arrival.
    fn order(&self) -> Vec<usize> {
        let values = self.etcd.ctl(&["get", "k/", "--prefix", "--sort-by=CREATE", "--print-value-only"]);
        let number = |line: &str| line.split("label=n").nth(1)?.split_whitespace().next()?.parse().ok();
        values.lines().filter_map(number).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_at_a_semaphore_is_served() {
    let far = Far::start().await;
    let held = far.locks.semaphore("k", 1).ttl(LONG).acquire().await.expect("it is free");
    let crowd = far.crowd(1, |locks| locks.semaphore("k", 1)).await;
    held.release().await.expect("an answer");
    crowd.all_served(MINUTES).await;
    empty(&far.etcd, PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_readers_keeps_its_places_behind_a_writer() {
    let far = Far::start().await;
    let writer = far.locks.write("k").ttl(LONG).acquire().await.expect("it is free");
    let crowd = far.crowd(1, |locks| locks.read("k")).await;
    let order = far.order();
    // This pause is longer than the lease of a waiter.
    tokio::time::sleep(ms(5_000)).await;
    assert_eq!(far.order(), order, "each has kept its place");
    writer.release().await.expect("an answer");
    crowd.all_served(MINUTES).await;
    empty(&far.etcd, PATIENCE).await;
}

/// A waiter that reads the queue as it joins reports all earlier waiters to its process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_reads_its_queue_once_for_all() {
    let far = Far::start().await;
    let held = far.locks.fair("k").ttl(LONG).acquire().await.expect("it is free");
    let (before, clock) = (far.proxy.traffic().replies.seen, Bound::new(MINUTES));
    let crowd = far.crowd(1, |locks| locks.fair("k")).await;
    let read = far.proxy.traffic().replies.seen - before;
    // One answer and one watch message for each waiter are 85 kB. A read of the queue every two seconds is 45 kB. If
    // each waiter read the queue, it would be 744 kB within two seconds.
    let most = 250_000 + 45_000 * clock.elapsed().as_secs();
    assert!(read < most, "{read} bytes for {WAITERS} waiters");
    held.release().await.expect("an answer");
    crowd.all_served(MINUTES).await;
}

/// The waiters are served in the order in which the store has received their requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_fair_waiters_is_served_in_its_order() {
    let far = Far::start().await;
    let fair = |locks: &LockManager| locks.fair("k").max_waiters(10_000);
    let holder = fair(&far.locks).ttl(LONG).acquire().await.expect("it is free");
    let crowd = far.crowd(1, fair).await;
    let order = far.order();
    assert_eq!(order.len(), WAITERS);
    holder.release().await.expect("an answer");
    assert_eq!(crowd.all_served(MINUTES).await, order, "the order of arrival");
    empty(&far.etcd, PATIENCE).await;
}
