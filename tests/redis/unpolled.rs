//! Waiters whose future is not polled, for example in an arm of a loop around `select!`, or before a slow consumer.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use lock_core::{Kind, LockError, LockGuard, LockManager, LockRequest, strategy};
use lock_tests::{PATIENCE, RedisServer, wait_until};
use tokio::task::JoinSet;

use crate::store::queue;
use crate::support::{LONG, manager, ms, within};

type Acquiring = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>>;

fn ask(locks: &LockManager, kind: Kind, ttl: Duration) -> LockRequest {
    locks.request("k", kind).ttl(ttl).strategy(strategy::wait())
}

/// Returns a future that was polled only until it was queued.
async fn unpolled(request: LockRequest) -> Acquiring {
    let mut waiter: Acquiring = Box::pin(request.acquire());
    assert!(tokio::time::timeout(ms(100), &mut waiter).await.is_err(), "it waits");
    waiter
}

#[tokio::test]
async fn a_turn_that_nobody_takes_costs_other_processes_no_lease() {
    for ttl in [LONG, 3 * LONG] {
        let server = RedisServer::start();
        let (here, there) = (manager(&server).await, manager(&server).await);
        let holder = ask(&here, Kind::Reentrant, ttl).acquire().await.expect("it is free");
        let stuck = unpolled(ask(&here, Kind::Reentrant, ttl)).await;
        let other = tokio::spawn(ask(&there, Kind::Reentrant, ttl).acquire());
        wait_until("the other has a place", PATIENCE, async || queue(&server, "k") == (1, 1)).await;
        holder.release().await.expect("an answer");
        let guard = within(PATIENCE, "the other's turn", other).await.expect("no panic").expect("granted");
        guard.release().await.expect("an answer");
        // The waiter queues again when it is polled.
        drop(within(PATIENCE, "the turn of the one that is polled again", stuck).await.expect("granted"));
        wait_until("nothing is left", PATIENCE, async || server.keys().is_empty()).await;
    }
}

/// Returns whether one poll completes the future.
fn is_ready(waiter: &mut Acquiring) -> bool {
    waiter.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// The connection subscribes once for all waiters, when the first of them is about to wait.
#[tokio::test]
async fn a_waiter_that_is_not_polled_while_its_connection_subscribes_keeps_nobody_from_it() {
    for polls in 1..=5 {
        let server = RedisServer::start();
        let (here, there) = (manager(&server).await, manager(&server).await);
        let _held = here.lock("k").acquire().await.expect("it is free");
        let other = here.lock("other").acquire().await.expect("it is free");
        let mut stuck: Acquiring = Box::pin(ask(&there, Kind::Reentrant, LONG).acquire());
        for _ in 0..polls {
            assert!(!is_ready(&mut stuck), "it waits");
            // The pause leaves time for the answer. The number of polls decides how far the waiter came.
            tokio::time::sleep(ms(5)).await;
        }
        let waiter = tokio::spawn(there.lock("other").strategy(strategy::wait()).acquire());
        wait_until("it has a place", PATIENCE, async || queue(&server, "other") == (1, 1)).await;
        other.release().await.expect("an answer");
        let guard = within(PATIENCE, &format!("after {polls} polls"), waiter).await;
        drop(guard.expect("no panic").expect("granted"));
        drop(stuck);
    }
}

/// The waiter was granted the lock, and is not polled while the token of the grant is created.
#[tokio::test]
async fn a_grant_that_nobody_polls_for_before_its_token_is_there_is_not_renewed() {
    let server = RedisServer::start();
    let (here, there) = (manager(&server).await, manager(&server).await);
    let ttl = ms(1_500);
    for kind in [Kind::Reentrant, Kind::Fair] {
        let holder = ask(&here, kind, ttl).acquire().await.expect("it is free");
        let mut stuck: Acquiring = Box::pin(ask(&there, kind, ttl).fencing(true).acquire());
        let queued = async || {
            assert!(!is_ready(&mut stuck), "the key is held");
            queue(&server, "k") == (1, 1)
        };
        wait_until("it has a place", PATIENCE, queued).await;
        holder.release().await.expect("an answer");
        wait_until("it is granted", PATIENCE, async || is_ready(&mut stuck) || there.held() == 1).await;
        // The wait is far longer than the lease, but bounded.
        let next = within(PATIENCE, &format!("{kind:?}"), ask(&here, kind, ttl).acquire()).await;
        next.expect("granted").release().await.expect("an answer");
        drop(stuck);
    }
}

#[tokio::test]
async fn a_question_for_the_token_that_nobody_polls_keeps_no_other_from_it() {
    let server = RedisServer::start();
    let guard = manager(&server).await.lock("k").acquire().await.expect("it is free");
    let mut stuck = Box::pin(guard.fencing_token());
    assert!(stuck.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "the server is asked");
    let token = within(PATIENCE, "the other question", guard.fencing_token()).await.expect("it is held");
    assert_eq!(
        within(PATIENCE, "the first one", stuck).await.expect("it is held"),
        token,
        "one for the turn"
    );
}

#[tokio::test]
async fn a_place_that_nobody_polls_for_costs_other_processes_no_lease() {
    let semaphore = Kind::Semaphore { permits: 1 };
    for kind in [Kind::Reentrant, Kind::Fair, Kind::Write, semaphore] {
        let server = RedisServer::start();
        let [first, second, third] = [manager(&server).await, manager(&server).await, manager(&server).await];
        let ttl = LONG;
        let holder = ask(&first, kind, ttl).acquire().await.expect("it is free");
        let mut stuck: Acquiring = Box::pin(ask(&second, kind, ttl).acquire());
        let queued = async || {
            assert!(tokio::time::timeout(ms(1), &mut stuck).await.is_err(), "it waits");
            queue(&server, "k") == (1, 1)
        };
        wait_until("it has a place", PATIENCE, queued).await;
        // The future is polled for a little longer, so that it gets the answer about its place.
        assert!(tokio::time::timeout(ms(50), &mut stuck).await.is_err(), "it waits");
        let next = tokio::spawn(ask(&third, kind, ttl).acquire());
        wait_until("both have a place", PATIENCE, async || queue(&server, "k") == (2, 2)).await;
        holder.release().await.expect("an answer");
        let guard = within(PATIENCE, &format!("{kind:?}"), next).await.expect("no panic").expect("granted");
        drop((guard, stuck));
    }
}

#[tokio::test]
async fn a_hot_key_does_not_wait_for_those_that_nobody_polls() {
    const TURNS: usize = 3_000;
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let ttl = LONG;
    let holder = ask(&locks, Kind::Reentrant, ttl).acquire().await.expect("it is free");
    let mut stuck = Vec::new();
    for _ in 0..3 {
        stuck.push(unpolled(ask(&locks, Kind::Reentrant, ttl)).await);
    }
    drop(holder);
    let turns = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let (locks, turns) = (locks.clone(), Arc::clone(&turns));
        tasks.spawn(async move {
            while turns.fetch_add(1, Ordering::Relaxed) < TURNS {
                let guard = ask(&locks, Kind::Reentrant, ttl).acquire().await.expect("granted");
                guard.release().await.expect("an answer");
            }
        });
    }
    // If one such waiter got a hand-off in each round without accepting it, there would be only 28 hand-offs a second.
    within(PATIENCE, "3,000 turns", tasks.join_all()).await;
    drop(stuck);
}
