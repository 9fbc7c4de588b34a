//! The groups of a fair lock: waiters of one process that stand directly behind each other share a place and a grant.

use lock_core::LockManager;
use lock_core::backend::etcd::Etcd as Store;
use lock_tests::{Etcd, PATIENCE, wait_until};

use crate::in_line::{
    Counted, Grants, Places, come_again, fair, line, lost_as_one, mixed, passed_over, places_of_mixed,
    served_by_waves, served_in_order, turn, turns_of_one_process,
};
use crate::support::{SHORTEST, empty, ms, within};

async fn manager(etcd: &Etcd, counted: &Counted) -> LockManager {
    counted.manager(Store::connect(&etcd.url()).await.expect("the cluster takes locks"))
}

/// The places are taken one by one, so their order is known, and the grants must have the same.
#[tokio::test(flavor = "multi_thread")]
async fn grants_are_in_the_order_of_the_places() {
    let etcd = Etcd::start();
    for holder_is_first in [false, true] {
        let counted = Counted::default();
        let [one, two, three] =
            [manager(&etcd, &counted).await, manager(&etcd, &counted).await, manager(&etcd, &counted).await];
        let holder = if holder_is_first { &one } else { &three };
        let held = fair(holder).acquire().await.expect("it is free");
        let grants = Grants::default();
        let tasks = line(&counted, &mixed(&one, &two, &three), &grants).await;
        let places = usize::try_from(places_of_mixed(holder_is_first)).expect("few");
        assert_eq!(etcd.keys().len(), places + 1, "a group has one entry: {:?}", etcd.keys());
        served_in_order(held, tasks, &grants).await;
        empty(&etcd, PATIENCE).await;
    }
}

/// Nobody overtakes those who had their places before it came, whoever gives up.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_overtakes_an_earlier_wave() {
    let (etcd, counted) = (Etcd::start(), Counted::default());
    let processes =
        [manager(&etcd, &counted).await, manager(&etcd, &counted).await, manager(&etcd, &counted).await];
    for seed in 0..30 {
        served_by_waves(&counted, &processes, seed).await;
    }
    empty(&etcd, PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gives_up_is_passed_over_and_moves_nobody() {
    let (etcd, counted) = (Etcd::start(), Counted::default());
    let [one, two] = [manager(&etcd, &counted).await, manager(&etcd, &counted).await];
    let left = async || {
        wait_until("the empty group has left the line", PATIENCE, async || etcd.keys().len() == 5).await;
    };
    passed_over(&counted, &one, &two, left).await;
    empty(&etcd, PATIENCE).await;
}

/// The grant of a group is lost as one. The rest of it queues again, and nobody holds beside another.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_loses_its_grant_queues_again() {
    let (etcd, counted) = (Etcd::start(), Counted::default());
    let [one, two] = [manager(&etcd, &counted).await, manager(&etcd, &counted).await];
    let forgets = async || {
        let entry = etcd.ctl(&["get", "k/", "--prefix", "--keys-only", "--sort-by=CREATE", "--limit=1"]);
        etcd.ctl(&["del", entry.trim()]);
    };
    lost_as_one(&counted, &one, &two, SHORTEST, forgets).await;
    empty(&etcd, PATIENCE).await;
}

/// A waiter that nobody polls loses its place with its lease. The others of its group do not wait for it to be polled.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_polled_is_passed_over() {
    let (etcd, counted) = (Etcd::start(), Counted::default());
    let locks = manager(&etcd, &counted).await;
    let held = fair(&locks).acquire().await.expect("it is free");
    let other = manager(&etcd, &counted).await;
    let between = tokio::spawn(fair(&other).run(async {}));
    wait_until("it has a place", PATIENCE, async || counted.placed() == 1).await;
    let mut stuck = Box::pin(fair(&locks).acquire());
    while counted.placed() < 2 {
        assert!(tokio::time::timeout(ms(1), &mut stuck).await.is_err(), "it waits");
    }
    let next = tokio::spawn(fair(&locks).run(async {}));
    wait_until("it has a place", PATIENCE, async || counted.placed() == 3).await;
    held.release().await.expect("an answer");
    within(PATIENCE, "the one between", between).await.expect("no panic").expect("granted");
    within(PATIENCE, "the next", next).await.expect("no panic").expect("granted");
    let late = within(PATIENCE, "the one that is polled again", stuck).await.expect("granted");
    late.release().await.expect("an answer");
    empty(&etcd, PATIENCE).await;
}

/// A turn of one process costs next to no write: one request has a place for all who wait at that moment, and the grant goes from task
/// to task. With a place for each, a turn costs a lease and an entry.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_in_a_group_writes_nothing() {
    let etcd = Etcd::start();
    for shared in [true, false] {
        let locks = manager(&etcd, &Counted::default()).await;
        let puts = || etcd.metric("etcd_mvcc_put_total");
        let before = puts();
        let turns = turns_of_one_process(&locks, shared).await;
        let (written, turns) = (puts() - before, f64::from(turns));
        assert_eq!(written <= turns / 4.0, shared, "{written} entries for {turns} turns");
    }
}

/// The lease of a place is kept by whoever is the first of its group, also where each of them is the first for a moment only.
#[tokio::test(flavor = "multi_thread")]
async fn a_place_outlives_those_who_give_up_one_after_another() {
    let (etcd, counted) = (Etcd::start(), Counted::default());
    let [one, two] = [manager(&etcd, &counted).await, manager(&etcd, &counted).await];
    let held = fair(&two).acquire().await.expect("it is free");
    let grants = Grants::default();
    let mut tasks = std::collections::VecDeque::new();
    for number in 0..12 {
        tasks.push_back(turn(&counted, number, fair(&one).ttl(SHORTEST), &grants).await);
    }
    let rival = turn(&counted, 99, fair(&two), &grants).await;
    let before = etcd.keys();
    for _ in 0..11 {
        tokio::time::sleep(ms(400)).await;
        tasks.pop_front().expect("one waits").abort();
    }
    assert_eq!(etcd.keys(), before, "they had one place");
    held.release().await.expect("an answer");
    for task in tasks.into_iter().chain([rival]) {
        within(PATIENCE, "a turn", task).await.expect("no panic");
    }
    assert_eq!(grants.order(), [11, 99]);
    empty(&etcd, PATIENCE).await;
}

/// Whoever takes over the place of another gets the lease that it asked for itself.
#[tokio::test(flavor = "multi_thread")]
async fn who_takes_over_a_place_has_its_own_lease() {
    let (etcd, counted) = (Etcd::start(), Counted::default());
    let [one, two] = [manager(&etcd, &counted).await, manager(&etcd, &counted).await];
    let held = fair(&two).acquire().await.expect("it is free");
    let first = turn(&counted, 0, fair(&one), &Grants::default()).await;
    let before = counted.placed();
    let second = tokio::spawn(fair(&one).renew(false).acquire());
    wait_until("it has a place", PATIENCE, async || counted.placed() > before).await;
    first.abort();
    assert!(first.await.is_err(), "it has given up");
    held.release().await.expect("an answer");
    let guard = within(PATIENCE, "its turn", second).await.expect("no panic").expect("granted");
    // Nobody renews it, and its wait had a lease of 4 s.
    assert!(guard.remaining() > ms(10_000), "{:?}", guard.remaining());
    guard.release().await.expect("an answer");
    empty(&etcd, PATIENCE).await;
}

#[tokio::test]
async fn who_comes_again_shares_a_place_with_those_who_were_next() {
    let (etcd, counted) = (Etcd::start(), Counted::default());
    let (one, two) = (manager(&etcd, &counted).await, manager(&etcd, &counted).await);
    come_again(&counted, &one, &two).await;
    empty(&etcd, PATIENCE).await;
}
