//! Faults in the groups of a fair lock: who is not polled, gives up or gets no answer keeps nobody waiting, and moves
//! nobody's place.

use lock_core::strategy;
use lock_tests::{Bound, Flow, PATIENCE, Proxy, RedisServer, wait_until};
use tokio::task::JoinHandle;

use crate::groups::asked;
use crate::in_line::{Grants, fair};
use crate::store::queue;
use crate::support::{LONG, connect, manager, ms, within};

/// Waits for the key, notes that, and releases it.
async fn one_turn(request: lock_core::LockRequest, number: usize, grants: Grants) {
    let guard = request.acquire().await.expect("granted");
    grants.note(number, 0);
    guard.release().await.expect("an answer");
}

/// Begins to wait, and returns once it has its place.
async fn waits(
    server: &RedisServer,
    request: lock_core::LockRequest,
    number: usize,
    grants: &Grants,
) -> JoinHandle<()> {
    let before = asked(server);
    let task = tokio::spawn(one_turn(request, number, grants.clone()));
    wait_until("it has a place", PATIENCE, async || asked(server) > before).await;
    // Until its process knows of it.
    tokio::time::sleep(ms(20)).await;
    task
}

/// The head of a group keeps its place alive. Without it, the others get another one.
#[tokio::test]
async fn who_waits_behind_a_head_that_nobody_polls_is_served() {
    let server = RedisServer::start();
    let [one, two] = [manager(&server).await, manager(&server).await];
    let held = fair(&two).acquire().await.expect("it is free");
    let mut stuck = Box::pin(fair(&one).acquire());
    assert!(tokio::time::timeout(ms(100), &mut stuck).await.is_err(), "it waits");
    let next = waits(&server, fair(&one), 0, &Grants::default()).await;
    assert_eq!(queue(&server, "k"), (1, 1), "it shares the place");
    // A place of its own, once the head is late.
    wait_until("it asks again", PATIENCE, async || asked(&server) >= 3).await;
    held.release().await.expect("an answer");
    let since = Bound::new(PATIENCE);
    within(PATIENCE, "the next", next).await.expect("no panic");
    within(PATIENCE, "a newcomer", fair(&one).run(async {})).await.expect("granted");
    assert!(since.elapsed() < ms(5_000), "{:?}", since.elapsed());
    drop(within(PATIENCE, "the one that is polled again", stuck).await.expect("granted"));
}

/// Nobody stands behind a place that is being given up.
#[tokio::test]
async fn nobody_gets_a_place_that_is_given_up() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let (one, two) = (connect(&proxy.url()).await, manager(&server).await);
    let held = fair(&two).acquire().await.expect("it is free");
    let mut leaves = Box::pin(one.fair("k").ttl(LONG).wait(ms(500)).acquire());
    assert!(tokio::time::timeout(ms(300), &mut leaves).await.is_err(), "it waits");
    assert_eq!(queue(&server, "k"), (1, 1));
    let before = asked(&server);
    proxy.replies(Flow::Hold);
    let next = tokio::spawn(fair(&one).acquire());
    wait_until("the next one asked", PATIENCE, async || asked(&server) > before).await;
    proxy.requests(Flow::Hold);
    assert!(tokio::time::timeout(ms(300), &mut leaves).await.is_err(), "its release is under way");
    proxy.replies(Flow::Pass);
    tokio::time::sleep(ms(50)).await;
    drop(leaves);
    held.release().await.expect("an answer");
    proxy.requests(Flow::Pass);
    let guard = within(PATIENCE, "the next one", next).await.expect("no panic").expect("granted");
    // Time for the release to arrive.
    tokio::time::sleep(ms(50)).await;
    let other = two.fair("k").ttl(LONG).strategy(strategy::fail_fast()).acquire().await;
    assert!(other.is_err(), "two holders");
    guard.release().await.expect("an answer");
}

/// Those who came before ask again before anybody who comes later.
#[tokio::test]
async fn a_newcomer_asks_behind_those_whose_request_was_given_up() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let (one, two) = (connect(&proxy.url()).await, manager(&server).await);
    one.fair("warm").strategy(strategy::wait()).run(async {}).await.expect("it is free");
    let (held, grants) = (fair(&two).acquire().await.expect("it is free"), Grants::default());
    let turn = |number| one_turn(fair(&one), number, grants.clone());
    proxy.replies(Flow::Hold);
    let first = tokio::spawn(turn(0));
    wait_until("the first asked", PATIENCE, async || asked(&server) == 1).await;
    let mut leaves = Box::pin(turn(1));
    assert!(tokio::time::timeout(ms(20), &mut leaves).await.is_err());
    let behind = tokio::spawn(turn(2));
    tokio::time::sleep(ms(50)).await;
    proxy.requests(Flow::Hold);
    proxy.replies(Flow::Pass);
    assert!(tokio::time::timeout(ms(100), &mut leaves).await.is_err());
    drop(leaves);
    let mut newcomer = Box::pin(turn(3));
    assert!(tokio::time::timeout(ms(20), &mut newcomer).await.is_err());
    let newcomer = tokio::spawn(newcomer);
    proxy.requests(Flow::Pass);
    tokio::time::sleep(ms(200)).await;
    held.release().await.expect("an answer");
    for task in [first, behind, newcomer] {
        within(PATIENCE, "a turn", task).await.expect("no panic");
    }
    assert_eq!(grants.order(), [0, 2, 3]);
}

/// The first of a group gets no token; the second stood before the rival.
#[tokio::test]
async fn who_gets_no_token_hands_the_grant_on() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let (one, two) = (connect(&proxy.url()).await, manager(&server).await);
    let (held, grants) = (fair(&two).acquire().await.expect("it is free"), Grants::default());
    let mut tasks = Vec::new();
    for (locks, number, fencing) in [(&one, 1, true), (&one, 2, false), (&two, 3, false)] {
        tasks.push(waits(&server, fair(locks).fencing(fencing), number, &grants).await);
    }
    proxy.requests(Flow::Hold);
    held.release().await.expect("an answer");
    tokio::time::sleep(ms(200)).await;
    proxy.cut();
    proxy.heal();
    for task in tasks {
        within(PATIENCE, "a turn", task).await.expect("no panic");
    }
    let order = grants.order();
    assert!(order.iter().position(|task| *task == 2) < order.iter().position(|task| *task == 3), "{order:?}");
}

/// A hand-off is being renewed when its waiter gives up.
#[tokio::test]
async fn who_gives_up_while_its_grant_is_renewed_hands_it_on() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let (one, two) = (connect(&proxy.url()).await, manager(&server).await);
    // The holder is of the same process, so the group is handed its grant.
    let (held, grants) = (fair(&one).acquire().await.expect("it is free"), Grants::default());
    let mut tasks = Vec::new();
    for (locks, number, renew) in [(&one, 1, false), (&one, 2, true), (&two, 3, true)] {
        tasks.push(waits(&server, fair(locks).renew(renew), number, &grants).await);
    }
    proxy.replies(Flow::Hold);
    held.release().await.expect("handed");
    tokio::time::sleep(ms(100)).await;
    tasks[0].abort();
    tokio::time::sleep(ms(100)).await;
    proxy.heal();
    for task in tasks.drain(1..) {
        within(PATIENCE, "a turn", task).await.expect("no panic");
    }
    assert_eq!(grants.order(), [2, 3]);
}

/// A task that was handed the grant is not polled while its renewal is under way: it keeps others waiting for its
/// lease.
#[tokio::test]
async fn who_is_not_polled_while_its_grant_is_renewed_loses_it() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let one = connect(&proxy.url()).await;
    let request = || one.fair("k").ttl(ms(2_000)).strategy(strategy::wait());
    let held = request().acquire().await.expect("it is free");
    let mut stuck = Box::pin(request().renew(false).acquire());
    assert!(tokio::time::timeout(ms(50), &mut stuck).await.is_err());
    let next = tokio::spawn(request().run(async {}));
    wait_until("asked", PATIENCE, async || asked(&server) == 2).await;
    tokio::time::sleep(ms(50)).await;
    proxy.replies(Flow::Hold);
    held.release().await.expect("handed");
    assert!(tokio::time::timeout(ms(50), &mut stuck).await.is_err());
    proxy.heal();
    within(PATIENCE, "the next one", next).await.expect("no panic").expect("granted");
    within(PATIENCE, "a newcomer", request().run(async {})).await.expect("granted");
}

/// The one who asks for all is not polled when the answer is there. Another asks, once the store may be taken to be
/// slow.
#[tokio::test]
async fn who_asks_and_is_not_polled_keeps_nobody_from_asking() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let (one, two) = (connect(&proxy.url()).await, manager(&server).await);
    one.fair("warm").strategy(strategy::wait()).run(async {}).await.expect("it is free");
    let base = asked(&server);
    let held = fair(&two).acquire().await.expect("it is free");
    proxy.replies(Flow::Hold);
    let mut stuck = Box::pin(fair(&one).acquire());
    wait_until("it asks", PATIENCE, async || {
        let _ = tokio::time::timeout(ms(1), &mut stuck).await;
        asked(&server) == base + 1
    })
    .await;
    proxy.heal();
    let next = tokio::spawn(fair(&one).run(async {}));
    let since = Bound::new(PATIENCE);
    wait_until("the next one asks", PATIENCE, async || asked(&server) > base + 1).await;
    assert!(since.elapsed() < ms(5_000), "{:?}", since.elapsed());
    held.release().await.expect("an answer");
    // The entry of the one that is not polled is granted the key first, for as long as a waiter's lease.
    within(PATIENCE, "the next one", next).await.expect("no panic").expect("granted");
}
