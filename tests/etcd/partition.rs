//! A member that is cut off from the others, and the clients that it has.

use std::time::Duration;

use lock_core::{LockErrorKind, LossReason};
use lock_tests::{Bound, Etcd, PATIENCE, wait_until};

use crate::support::{LONG, connect, empty, manager, ms, try_once, works_again};

/// The others have elected a leader among themselves.
async fn majority_goes_on(etcd: &Etcd, cut_off: usize) {
    let led = async || {
        let other = (cut_off + 1) % 3;
        etcd.try_ctl_of(other, &["put", "other", "x"]).is_ok()
    };
    wait_until("the majority goes on", PATIENCE, led).await;
}

/// A client that reaches only the member that is cut off learns of its loss before another one has the key, whether
/// that member was the leader or not, and takes nothing meanwhile.
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
        // The member that comes back forces an election. A release that falls into it goes on in the background.
        drop(next.release().await);
        works_again(&alone, "k").await;
        etcd.ctl(&["del", "other"]);
        empty(&etcd, PATIENCE).await;
    }
}

/// A client that knows all members leaves the one that is cut off, and keeps its lock.
#[tokio::test]
async fn a_holder_moves_to_the_majority() {
    let etcd = Etcd::builder().members(3).partitionable().start();
    let locks = manager(&etcd).await;
    let held = locks.lock("k").ttl(Duration::from_secs(15)).acquire().await.expect("free");
    // One of the three has the connection; each in turn is cut off for longer than the lease.
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
        // The member that comes back may force an election, and the next one is cut off when that is over.
        let all = async || (0..3).all(|member| etcd.try_ctl_of(member, &["put", "other", "x"]).is_ok());
        wait_until("all answer", PATIENCE, all).await;
        wait_until("it is renewed", PATIENCE, async || held.remaining() > Duration::from_secs(13)).await;
    }
    // As above: the election that the last member forces may not be over.
    drop(held.release().await);
    works_again(&locks, "k").await;
}

/// A follower that is cut off believes in its leader for as long as an election takes, and says so when it is asked for its
/// state. Its clients go elsewhere before that.
#[tokio::test]
async fn a_member_that_answers_for_itself_alone_is_left() {
    const ELECTION: Duration = Duration::from_secs(40);
    let arguments = ["--election-timeout=40000", "--heartbeat-interval=4000"];
    let etcd = Etcd::builder().members(3).partitionable();
    let etcd = arguments.into_iter().fold(etcd, |etcd, argument| etcd.argument(argument)).start();
    // Each has a connection to a random member: so many that it is next to certain that one has it to the member that is cut
    // off.
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
