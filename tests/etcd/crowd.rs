//! Many waiters of one process for one key, over a connection with a long round trip. Each waiter keeps its place and
//! is served.

use std::future::{Future, IntoFuture};
use std::task::{Context, Waker};
use std::time::Duration;

use lock_core::strategy::retry;
use lock_core::{LockErrorKind, LockManager, LockRequest};
use lock_tests::{Bound, Crowd, Directory, Etcd, PATIENCE, Proxy, wait_until};

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
        let locks = connect(&format!("etcd://127.0.0.1:{}?timeout=60s", proxy.port())).await;
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

    /// Returns the numbers of the waiters in the order of their entries. Entries that one transaction has created are
    /// in the order of the numbers in their names.
    fn order(&self) -> Vec<usize> {
        let fields = self.etcd.ctl(&["get", "k/", "--prefix", "--write-out=fields"]);
        let all = |field: &str| -> Vec<String> {
            let start = format!("\"{field}\" : ");
            fields.lines().filter_map(|line| Some(line.strip_prefix(&start)?.to_owned())).collect()
        };
        let created =
            all("CreateRevision").into_iter().map(|number| number.parse::<i64>().expect("a number"));
        let number = |value: &str| value.split("label=n").nth(1)?.split([' ', '"']).next()?.parse().ok();
        let mut entries: Vec<_> = created.zip(all("Key")).zip(all("Value")).collect();
        entries.sort_by_key(|((created, key), _)| (*created, key.len(), key.clone()));
        entries.iter().filter_map(|(_, value)| number(value)).collect()
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

/// Waiters that arrive on several threads are served in the order of their entries.
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

/// The first waiters find a free key, and a queue that others have just begun.
#[tokio::test]
async fn the_first_crowd_at_a_key_is_served_in_order() {
    for kind in ["fair", "semaphore"] {
        let far = Far::start().await;
        let mut crowd = Crowd::default();
        for number in 0..WAITERS {
            let request = if kind == "fair" { far.locks.fair("k") } else { far.locks.semaphore("k", 1) };
            crowd.add(number, request.ttl(LONG).strategy(retry().within(MINUTES)));
        }
        assert_eq!(crowd.all_served(MINUTES).await, Vec::from_iter(0..WAITERS), "{kind}");
        empty(&far.etcd, PATIENCE).await;
    }
}

/// Some give up before their request is sent, some while it is under way, and some when they are in the queue.
#[tokio::test]
async fn those_who_give_up_leave_nothing_and_delay_nobody() {
    for pause in [0, 3, 8, 15, 25, 40, 100] {
        let far = Far::start().await;
        let held = far.locks.fair("k").ttl(LONG).acquire().await.expect("it is free");
        let request = || far.locks.fair("k").ttl(LONG).strategy(retry().within(MINUTES));
        let (mut crowd, mut giving_up) = (Crowd::default(), tokio::task::JoinSet::new());
        for number in 0..WAITERS {
            match number % 3 {
                0 => crowd.add(number, request()),
                _ => drop(giving_up.spawn(request().acquire().into_future())),
            }
        }
        tokio::time::sleep(ms(pause)).await;
        giving_up.shutdown().await;
        held.release().await.expect("an answer");
        let served = crowd.all_served(MINUTES).await;
        assert_eq!(served, Vec::from_iter((0..WAITERS).step_by(3)), "after {pause} ms");
        empty(&far.etcd, PATIENCE).await;
    }
}

/// A waiter is polled until its request is sent, and then never again. So nobody reads the answer. Others wait behind it.
#[tokio::test]
async fn one_whose_answer_nobody_reads_does_not_block_the_queue() {
    let etcd = Etcd::start();
    let locks = connect(&etcd.url()).await;
    let request = || locks.fair("k").ttl(LONG).strategy(retry().within(MINUTES));
    let held = request().acquire().await.expect("it is free");
    let mut unread = Box::pin(request().acquire().into_future());
    wait_until("its entry is there", PATIENCE, async || {
        assert!(unread.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        tokio::time::sleep(ms(50)).await;
        etcd.keys().len() == 2
    })
    .await;
    let mut crowd = Crowd::default();
    for number in 0..5 {
        crowd.add(number, request());
    }
    tokio::task::yield_now().await;
    held.release().await.expect("an answer");
    crowd.all_served(MINUTES).await;
    drop(unread);
    empty(&etcd, PATIENCE).await;
}

/// The room is counted for claims that enter together as for any others.
#[tokio::test]
async fn no_more_of_a_crowd_wait_than_may() {
    const ROOM: u32 = 5;
    let far = Far::start().await;
    let fair = || far.locks.fair("k").ttl(LONG).max_waiters(ROOM as usize).strategy(retry().within(MINUTES));
    let held = fair().acquire().await.expect("it is free");
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..WAITERS {
        crowd.spawn(fair().acquire().into_future());
    }
    let mut refused = 0;
    while refused + (ROOM as usize) < WAITERS {
        let next =
            tokio::time::timeout(MINUTES, crowd.join_next()).await.expect("in time").expect("one more");
        let error = next.expect("no panic").expect_err("the key is held");
        assert_eq!(error.kind(), LockErrorKind::Overloaded, "{error}");
        refused += 1;
    }
    held.release().await.expect("an answer");
    while let Some(next) = crowd.join_next().await {
        next.expect("no panic").expect("it was in the queue").release().await.expect("an answer");
    }
    empty(&far.etcd, PATIENCE).await;
}

/// `etcdctl lock` waits for all entries that were created before its own, also if one transaction has created them.
#[tokio::test]
async fn another_program_waits_for_all_of_a_crowd() {
    const FEW: usize = 20;
    let far = Far::start().await;
    let held = far.locks.fair("k").ttl(LONG).acquire().await.expect("it is free");
    let directory = Directory::new();
    let mark = directory.path().join("they-held-it");
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..FEW {
        let (request, mark) = (far.locks.fair("k").ttl(LONG).strategy(retry().within(MINUTES)), mark.clone());
        crowd.spawn(async move {
            let guard = request.acquire().await.expect("its turn comes");
            tokio::time::sleep(ms(20)).await;
            assert!(!mark.exists(), "they hold it too");
            guard.release().await.expect("an answer");
        });
    }
    wait_until("all wait", PATIENCE, async || far.etcd.keys().len() == FEW + 1).await;
    let _theirs = far.etcd.ctl_running(&["lock", "k", "touch", mark.to_str().expect("text")]);
    wait_until("they wait too", PATIENCE, async || far.etcd.keys().len() == FEW + 2).await;
    held.release().await.expect("an answer");
    crowd.join_all().await;
    wait_until("they hold it", PATIENCE, async || mark.exists()).await;
    empty(&far.etcd, PATIENCE).await;
}
