//! Members that stop, die, or are cut off.

use std::time::Duration;

use lock_core::{LockErrorKind, LossReason, strategy};
use lock_tests::{Bound, Etcd, Flow, PATIENCE, Proxy, wait_until};

use crate::support::{LONG, SHORTEST, a_moment, connect, cycle, empty, manager, ms, try_once, works_again};

/// The cluster stops. The holder is notified of the loss before another client can hold the key.
#[tokio::test]
async fn a_loss_is_told_while_the_cluster_stands_still() {
    let etcd = Etcd::start();
    let (locks, others) = (manager(&etcd).await, manager(&etcd).await);
    let running = tokio::spawn(locks.lock("k").ttl(SHORTEST).run(std::future::pending::<()>()));
    wait_until("the key is taken", PATIENCE, async || !etcd.keys().is_empty()).await;
    let waiting = tokio::spawn(others.lock("k").ttl(LONG).wait(LONG).acquire());
    wait_until("another one waits", PATIENCE, async || etcd.keys().len() == 2).await;
    etcd.stop(0);
    let outcome = tokio::time::timeout(PATIENCE, running).await.expect("the loss is told").expect("no panic");
    let error = outcome.expect_err("the lock is lost");
    assert_eq!((error.kind(), error.loss_reason()), (LockErrorKind::Lost, Some(LossReason::Expired)));
    // The cluster is still stopped.
    assert!(!waiting.is_finished());
    etcd.cont(0);
    let guard = tokio::time::timeout(PATIENCE, waiting).await.expect("in time").expect("no panic");
    guard.expect("the key is free").release().await.expect("an answer");
    works_again(&locks, "k").await;
    empty(&etcd, PATIENCE).await;
}

/// A request for the list of the locks fails at its time limit.
#[tokio::test]
async fn a_list_ends_while_the_cluster_stands_still() {
    let etcd = Etcd::start();
    let locks = connect(&format!("{}?timeout=500ms", etcd.url())).await;
    let held = try_once(&locks, "k").await.expect("free");
    assert_eq!(locks.locks().await.expect("an answer").locks.len(), 1);
    etcd.stop(0);
    let listed = tokio::time::timeout(PATIENCE, locks.locks()).await.expect("within its time");
    let error = listed.expect_err("the cluster stands still");
    assert!(error.is_unavailable() && error.is_temporary(), "{error}");
    etcd.cont(0);
    held.release().await.expect("an answer");
}

/// A caller gave up its request because the cluster had stopped. The request leaves no lock.
#[tokio::test]
async fn nothing_is_taken_late() {
    let etcd = Etcd::start();
    let locks = connect(&format!("{}?timeout=300ms", etcd.url())).await;
    let others = manager(&etcd).await;
    cycle(&locks, "k").await;
    for round in 0..5 {
        etcd.stop(0);
        for key in ["k", "l"] {
            let error = try_once(&locks, key).await.expect_err("the cluster stands still");
            assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
        }
        etcd.cont(0);
        // The leases last a minute, so no waiter waits until they expire.
        for key in ["k", "l"] {
            works_again(&others, key).await;
        }
        wait_until(&format!("nothing is left, round {round}"), PATIENCE, async || etcd.keys().is_empty())
            .await;
    }
}

/// A network holds requests back at a random moment, and delivers them after their caller has given up.
#[tokio::test]
async fn what_is_delivered_late_takes_nothing() {
    const ROUNDS: usize = 40;
    const MOST: usize = 400;
    let etcd = Etcd::start();
    let proxy = Proxy::to(etcd.address(0));
    let url = format!("etcd://127.0.0.1:{}?timeout=200ms&connect_timeout=200ms", proxy.port());
    let locks = connect(&url).await;
    let (mut failed, mut round) = (0, 0);
    while round < ROUNDS || failed <= ROUNDS / 10 {
        assert!(round < MOST, "{failed} of {round} were cut off: this shows nothing");
        let key = format!("k{round}");
        // A ttl that is not in use needs a new lease from etcd. The other lease exists already.
        let other = LONG + Duration::from_secs((round % ROUNDS) as u64);
        let (length, longest) = if round % 2 == 0 { (LONG, ms(2)) } else { (other, ms(6)) };
        let request = locks.lock(key).ttl(length).strategy(strategy::fail_fast());
        let acquiring = tokio::spawn(request.acquire());
        a_moment(longest).await;
        proxy.requests(Flow::Hold);
        match acquiring.await.expect("no panic") {
            Ok(guard) => drop(guard),
            Err(_) => failed += 1,
        }
        tokio::time::sleep(ms(fastrand::u64(..300))).await;
        proxy.heal();
        works_again(&locks, "other").await;
        round += 1;
    }
    // The leases last a minute. A session without keys ends with the manager or on its own. A shutdown does not wait
    // long for it.
    empty(&etcd, PATIENCE).await;
    locks.shutdown(ms(100)).await;
    wait_until("no lease is left", LONG * 2, async || etcd.leases() == 0).await;
}

/// The leader dies. The holder keeps its lock, and all clients continue over the other members.
#[tokio::test]
async fn a_lock_survives_the_leader() {
    let mut etcd = Etcd::builder().members(3).start();
    let (locks, others) = (manager(&etcd).await, manager(&etcd).await);
    let guard = locks.lock("k").ttl(Duration::from_secs(12)).fencing(true).acquire().await.expect("free");
    let first = guard.fencing_token().await.expect("with the grant");
    let leader = etcd.leader();
    etcd.kill9(leader);
    // This time is longer than the lease.
    let over = Bound::new(LONG);
    while over.elapsed() < Duration::from_secs(14) {
        assert!(guard.is_held(), "renewed over the others, after {:?}", over.elapsed());
        tokio::time::sleep(ms(50)).await;
    }
    let waiting = tokio::spawn(others.lock("k").ttl(LONG).fencing(true).wait(LONG).acquire());
    wait_until("it waits", PATIENCE, async || locks_of(&etcd, leader) == 2).await;
    guard.release().await.expect("an answer");
    let next = tokio::time::timeout(PATIENCE, waiting).await.expect("in time").expect("no panic");
    let next = next.expect("handed over");
    assert!(next.fencing_token().await.expect("with the grant") > first);
    next.release().await.expect("an answer");
    etcd.restart(leader);
    works_again(&locks, "k").await;
}

/// Returns the number of entries, as a live member reports it.
fn locks_of(etcd: &Etcd, dead: usize) -> usize {
    let member = (dead + 1) % 3;
    etcd.ctl_of(member, &["get", "k/", "--prefix", "--keys-only"])
        .lines()
        .filter(|line| !line.is_empty())
        .count()
}

/// Most members are down. Requests fail within the time limit with an error that says so, and the holder is notified of
/// its loss in time. Afterwards everything works again.
#[tokio::test]
async fn without_a_majority_nothing_is_granted() {
    let mut etcd = Etcd::builder().members(3).start();
    let locks = connect(&format!("{}?timeout=500ms", etcd.url())).await;
    let held = locks.lock("held").ttl(Duration::from_secs(3)).acquire().await.expect("free");
    let gone = [etcd.leader(), (etcd.leader() + 1) % 3];
    gone.iter().for_each(|member| etcd.kill9(*member));
    let since = Bound::new(PATIENCE);
    let error = try_once(&locks, "k").await.expect_err("no majority");
    assert!(error.is_unavailable(), "{error}");
    tokio::time::sleep(Duration::from_secs(3).saturating_sub(since.elapsed())).await;
    assert!(!held.is_held(), "held after {:?}, its lease", since.elapsed());
    let reason = tokio::time::timeout(PATIENCE, held.lost()).await.expect("told");
    assert_eq!(reason, LossReason::Expired);
    gone.iter().for_each(|member| etcd.restart(*member));
    works_again(&locks, "k").await;
}

/// A client moves from a stopped member to another one.
#[tokio::test]
async fn a_member_that_stands_still_is_left() {
    let etcd = Etcd::builder().members(3).start();
    let locks = manager(&etcd).await;
    cycle(&locks, "k").await;
    // The client is connected to one of the three members. Each member is stopped in turn.
    for member in 0..3 {
        etcd.stop(member);
        works_again(&locks, "k").await;
        etcd.cont(member);
        tokio::time::sleep(ms(500)).await;
    }
}
