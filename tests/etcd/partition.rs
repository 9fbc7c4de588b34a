//! A member that is cut off from the others, and its clients.

use std::time::Duration;

use lock_core::{LockErrorKind, LossReason};
use lock_tests::{Bound, Etcd, PATIENCE, wait_until};

use crate::support::{LONG, connect, empty, manager, ms, try_once, works_again};

/// Waits until the other members have elected a leader.
async fn majority_goes_on(etcd: &Etcd, cut_off: usize) {
    let led = async || {
        let other = (cut_off + 1) % 3;
        etcd.try_ctl_of(other, &["put", "other", "x"]).is_ok()
    };
    wait_until("the majority goes on", PATIENCE, led).await;
}

/// A client that reaches only the cut-off member is notified of its loss before another client holds the key. It
/// acquires nothing meanwhile. This holds whether the member was the leader or a follower.
#[tokio::test]
async fn a_client_of_the_minority_is_told_before_another_holds() {
    const TTL: Duration = Duration::from_secs(4);
    let etcd = Etcd::builder().members(3).partitionable().start();
    for leads in [true, false] {
        let member = (0..3).find(|member| (*member == etcd.leader()) == leads).expect("three members");
        let alone = connect(&format!("{}?timeout=1s&round_ttl=up", etcd.url_of(member))).await;
        let (one, other) = (etcd.url_of((member + 1) % 3), etcd.address((member + 2) % 3));
        let others = connect(&format!("{one},{other}")).await;
        let held = alone.lock("k").ttl(TTL).acquire().await.expect("free");
        let waiting = others.lock("k").ttl(LONG).wait(LONG);
        let since = Bound::new(PATIENCE);
        let waiting = tokio::spawn(async move { (waiting.acquire().await, since) });
        wait_until("another one waits", PATIENCE, async || etcd.keys().len() == 2).await;
        wait_until("a renewal is due", PATIENCE, async || held.remaining() < TTL - ms(900)).await;
        wait_until("it is renewed", PATIENCE, async || held.remaining() > TTL - ms(600)).await;
        etcd.cut_off(member);
        let reason = tokio::time::timeout(PATIENCE, held.lost()).await.expect("told");
        assert_eq!(reason, LossReason::Expired);
        assert!(!waiting.is_finished(), "told before another one holds the key");
        let error = try_once(&alone, "l").await.expect_err("there is no majority here");
        assert!(error.is_unavailable() && error.kind() == LockErrorKind::Unavailable, "{error}");
        let (next, since) =
            tokio::time::timeout(PATIENCE, waiting).await.expect("in time").expect("no panic");
        let next = next.expect("the lease is over");
        assert!(since.elapsed() >= TTL - ms(500), "after {:?}", since.elapsed());
        majority_goes_on(&etcd, member).await;
        etcd.rejoin();
        drop(held);
        // When the member returns, it forces an election. A release during the election continues in the background.
        drop(next.release().await);
        works_again(&alone, "k").await;
        etcd.ctl(&["del", "other"]);
        empty(&etcd, PATIENCE).await;
    }
}

/// A client that knows all members moves away from the cut-off member, and keeps its lock.
#[tokio::test]
async fn a_holder_moves_to_the_majority() {
    let etcd = Etcd::builder().members(3).partitionable().start();
    let locks = manager(&etcd).await;
    let held = locks.lock("k").ttl(Duration::from_secs(15)).acquire().await.expect("free");
    // The client is connected to one of the three members. Each member is cut off in turn for longer than the lease.
    for member in 0..3 {
        etcd.cut_off(member);
        let cut = Bound::new(LONG);
        let mut is_free = false;
        while cut.elapsed() < Duration::from_secs(16) {
            assert!(held.is_held(), "member {member} is cut off since {:?}", cut.elapsed());
            is_free = is_free || try_once(&locks, &format!("l{member}")).await.is_ok();
            tokio::time::sleep(ms(50)).await;
        }
        assert!(is_free, "member {member} is cut off, and no lock could be taken again");
        majority_goes_on(&etcd, member).await;
        etcd.rejoin();
        wait_until("all are joined", PATIENCE, async || etcd.is_joined()).await;
        // When the member returns, it may force an election. The next member is cut off after the election.
        let all = async || (0..3).all(|member| etcd.try_ctl_of(member, &["put", "other", "x"]).is_ok());
        wait_until("all answer", PATIENCE, all).await;
        wait_until("it is renewed", PATIENCE, async || held.remaining() > Duration::from_secs(13)).await;
    }
    // The election that the last member forced may still be running.
    drop(held.release().await);
    works_again(&locks, "k").await;
}

/// A follower that is cut off believes in its leader for as long as an election takes, and reports this when its state
/// is requested. Its clients leave it before that time is over.
#[tokio::test]
async fn a_member_that_answers_for_itself_alone_is_left() {
    const ELECTION: Duration = Duration::from_secs(40);
    let arguments = ["--election-timeout=40000", "--heartbeat-interval=4000"];
    let etcd = Etcd::builder().members(3).partitionable();
    let etcd = arguments.into_iter().fold(etcd, |etcd, argument| etcd.argument(argument)).start();
    // Each client connects to a random member. There are so many clients that almost certainly one of them uses the
    // cut-off member.
    let mut clients = Vec::new();
    for _ in 0..30 {
        clients.push(connect(&format!("{}?timeout=1s&round_ttl=up", etcd.url())).await);
    }
    etcd.cut_off((etcd.leader() + 1) % 3);
    let cut = Bound::new(LONG);
    for (at, locks) in clients.iter().enumerate() {
        works_again(locks, &format!("k{at}")).await;
    }
    assert!(cut.elapsed() < ELECTION / 2, "after {:?}", cut.elapsed());
}
