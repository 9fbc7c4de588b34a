//! The groups of a fair lock: waiters of one process that stand directly behind each other share a place and a grant.

use lock_core::backend::Released;
use lock_core::{LockError, LockErrorKind, strategy};
use lock_tests::{PATIENCE, RedisServer, monotonic, wait_until};

use crate::in_line::{
    Grants, Places, come_again, fair, line, lost_as_one, mixed, passed_over, places_of_mixed,
    served_in_order, turn,
};
use crate::store::{Process, holds, queue};
use crate::support::{LONG, calls, manager, ms, within};

/// Returns how many requests found the key held and asked for a place. Each reads the end of the queue once.
pub(crate) fn asked(server: &RedisServer) -> u64 {
    calls(server, "zrevrange")
}

impl Places for RedisServer {
    fn placed(&self) -> u64 {
        asked(self)
    }
}

#[tokio::test]
async fn a_place_directly_behind_its_own_process_shares_the_grant() {
    let server = RedisServer::start();
    let (here, there) = (Process::of(&server).await, Process::of(&server).await);
    let [holder, next, behind, last] = [(); 4].map(|()| here.grouped("k"));
    here.take(&holder).await;
    let held = here.enqueue(&next, None).await;
    assert_eq!((held.behind, held.queued_at, held.position), (Some(holder.owner), None, None));
    assert!(
        server.keys() == ["k"] && holds(&server, "k", &holder),
        "nothing is written: {:?}",
        server.keys()
    );
    assert!(here.enqueue(&here.fifo("k"), Some(0)).await.behind.is_none(), "an owner that shares nothing");
    let rival = there.grouped("k");
    assert_eq!(there.wait(&rival).await.behind, None, "of another process");
    assert_eq!(here.wait(&behind).await.position, Some(1), "behind another process");
    assert_eq!(here.enqueue(&last, None).await.behind, Some(behind.owner));
    assert_eq!(queue(&server, "k"), (2, 2));
    assert!(here.told().is_empty(), "a group goes on whoever waits elsewhere: {:?}", here.told());
    // A repeated request keeps its place, and is behind nobody.
    assert_eq!(here.wait(&behind).await.position, Some(1));
    here.release(&holder).await;
    assert!(holds(&server, "k", &rival));
    assert_eq!(there.release(&rival).await, Released::Released);
    assert!(holds(&server, "k", &behind));
    here.release(&behind).await;
    assert!(server.keys().is_empty(), "{:?}", server.keys());
}

/// The places are taken one by one, so their order is known, and the grants must have the same.
#[tokio::test]
async fn grants_are_in_the_order_of_the_places() {
    for holder_is_first in [false, true] {
        let server = RedisServer::start();
        let [one, two, three] = [manager(&server).await, manager(&server).await, manager(&server).await];
        let holder = if holder_is_first { &one } else { &three };
        let held = fair(holder).acquire().await.expect("it is free");
        let grants = Grants::default();
        let tasks = line(&server, &mixed(&one, &two, &three), &grants).await;
        let places = i64::from(places_of_mixed(holder_is_first));
        assert_eq!(queue(&server, "k"), (places, places));
        let (began, before) = (monotonic(), calls(&server, "evalsha"));
        served_in_order(held, tasks, &grants).await;
        let commands = calls(&server, "evalsha") - before;
        let (places, took) = (u64::try_from(places).expect("few"), monotonic() - began);
        // A release and a token for each place; a few more tokens, where a number is not confirmed yet; and the
        // heartbeats of those who still wait.
        let beats = places * u64::try_from(took.as_millis()).expect("short") / 600;
        assert!(commands <= 2 * places + 8 + beats, "{commands} commands in {took:?}");
        wait_until("nothing but tokens is left", PATIENCE, async || {
            server.keys().iter().all(|key| key == "{k}:f")
        })
        .await;
    }
}

#[tokio::test]
async fn who_gives_up_is_passed_over_and_moves_nobody() {
    let server = RedisServer::start();
    let [one, two] = [manager(&server).await, manager(&server).await];
    let left = async || {
        wait_until("the empty group has left the queue", PATIENCE, async || queue(&server, "k") == (4, 4))
            .await;
    };
    passed_over(&server, &one, &two, left).await;
}

/// The grant of a group is lost as one. The rest of it queues again, and nobody holds beside another.
#[tokio::test]
async fn a_group_that_loses_its_grant_queues_again() {
    let server = RedisServer::start();
    let [one, two] = [manager(&server).await, manager(&server).await];
    // An operator, or a server without its data.
    let forgets = async || drop(server.command(&["DEL", "k"]));
    lost_as_one(&server, &one, &two, ms(600), forgets).await;
    wait_until("nothing is left", PATIENCE, async || server.keys().is_empty()).await;
}

#[tokio::test]
async fn who_comes_again_shares_a_place_with_those_who_were_next() {
    let server = RedisServer::start();
    let (one, two) = (manager(&server).await, manager(&server).await);
    come_again(&server, &one, &two).await;
}

/// Those who ask for another lease share no place.
#[tokio::test]
async fn another_lease_is_another_place() {
    let server = RedisServer::start();
    let (one, two) = (manager(&server).await, manager(&server).await);
    let held = two.fair("k").ttl(LONG).acquire().await.expect("it is free");
    let grants = Grants::default();
    let mut tasks = Vec::new();
    for (number, ttl) in [LONG, 2 * LONG, 2 * LONG, LONG].into_iter().enumerate() {
        tasks.push(turn(&server, number, one.fair("k").ttl(ttl), &grants).await);
        let places = i64::try_from(number).expect("few") + 1;
        wait_until("of its own", PATIENCE, async || queue(&server, "k") == (places, places)).await;
    }
    held.release().await.expect("an answer");
    for task in tasks {
        within(PATIENCE, "a turn", task).await.expect("no panic");
    }
    assert_eq!(grants.order(), [0, 1, 2, 3]);
}

/// A waiter that nobody polls keeps the others of its group for no longer than a hand-off waits.
#[tokio::test]
async fn who_is_not_polled_is_passed_over() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let request = || locks.fair("k").ttl(LONG).strategy(strategy::wait());
    let held = request().acquire().await.expect("it is free");
    let mut stuck = Box::pin(request().acquire());
    assert!(tokio::time::timeout(ms(100), &mut stuck).await.is_err(), "it waits");
    let next = tokio::spawn(request().run(async {}));
    wait_until("it has a place", PATIENCE, async || asked(&server) == 2).await;
    held.release().await.expect("an answer");
    within(PATIENCE, "the next", next).await.expect("no panic").expect("granted");
    within(PATIENCE, "the one that is polled again", stuck)
        .await
        .expect("granted")
        .release()
        .await
        .expect("freed");
    wait_until("nothing is left", PATIENCE, async || server.keys().is_empty()).await;
}

/// The head alone asks the store, and all of its group know what it was told.
#[tokio::test]
async fn who_gives_up_in_a_group_says_who_holds() {
    let server = RedisServer::start();
    let (one, two) = (manager(&server).await, manager(&server).await);
    let held = two.fair("k").ttl(LONG).label("other").acquire().await.expect("it is free");
    let head = tokio::spawn(one.fair("k").ttl(LONG).label("head").strategy(strategy::wait()).acquire());
    wait_until("it has a place", PATIENCE, async || queue(&server, "k") == (1, 1)).await;
    let gives_up =
        async || one.fair("k").ttl(LONG).wait(ms(300)).acquire().await.expect_err("the key is held");
    let label = |error: &LockError| error.holder().and_then(|holder| holder.label().map(str::to_owned));
    // The first asks at once, the second for itself and the third.
    let (first, second, third) = tokio::join!(gives_up(), gives_up(), gives_up());
    for error in [first, second, third] {
        assert_eq!((error.kind(), label(&error).as_deref()), (LockErrorKind::TimedOut, Some("other")));
        assert!(error.retry_after().is_some(), "{error}");
    }
    held.release().await.expect("an answer");
    let guard = within(PATIENCE, "its turn", head).await.expect("no panic").expect("granted");
    let (first, second, third) = tokio::join!(gives_up(), gives_up(), gives_up());
    for error in [first, second, third] {
        assert_eq!(label(&error).as_deref(), Some("head"));
        assert!(error.to_string().contains("in this process"), "{error}");
    }
    guard.release().await.expect("an answer");
}
