//! The store without a manager: requests that a manager never sends, and answers that it hides.

use std::time::Duration;

use lock_core::Released;
use lock_core::backend::etcd::Etcd as Store;
use lock_core::backend::{Ask, Attempt, Backend, Claim, Queue, Renew, Renewal};
use lock_core::clock::Clock;
use lock_core::key::Key;
use lock_core::testkit::{Claims, node_answer};
use lock_tests::{Etcd, Flow, PATIENCE, Proxy, wait_until};

use crate::support::{LONG, a_moment, ms};

async fn connect(url: &str) -> Store {
    Store::connect(url).await.expect("the cluster takes locks")
}

fn claims() -> Claims {
    Claims::new().expect("random bytes")
}

fn key(name: &str) -> Key {
    Key::new(name).expect("a key")
}

fn claim(name: &str) -> Claim {
    claims().exclusive(&key(name), LONG)
}

async fn acquire(store: &Store, claim: &Claim) {
    let attempt = store.acquire(claim, Ask::Try).await.expect("an answer");
    assert!(matches!(attempt, Attempt::Granted(_)), "{attempt:?}");
}

/// A lease is counted from before the read that shows the entry, and not only from before the heartbeat. A leader that
/// was replaced may answer the heartbeat, but cannot answer the read.
#[tokio::test]
async fn a_renewal_counts_from_before_its_look() {
    const EACH_WAY: Duration = ms(50);
    let etcd = Etcd::start();
    let proxy = Proxy::to(etcd.address(0));
    let url = format!("etcd://127.0.0.1:{}", proxy.port());
    let (store, other) = (connect(&url).await, connect(&url).await);
    let claim = claim("k");
    acquire(&store, &claim).await;
    proxy.delay(EACH_WAY);
    // A renewal is a read and a heartbeat. A store that does not know the entry sends a read, a lease and a write; only
    // the lease counts here.
    for (store, requests) in [(&store, 2), (&other, 2)] {
        let answers = store.renew(&[Renew { claim: &claim, ttl: LONG }]).await;
        let [Renewal::Renewed { sent, .. }] = &answers[..] else { panic!("{answers:?}") };
        let passed = Clock::Suspend.now().since(*sent);
        assert!(passed >= EACH_WAY * 2 * requests, "{requests} requests within {passed:?} since then");
    }
}

/// A store that has not created the entry finds it by its owner, and keeps it under its name.
#[tokio::test]
async fn a_store_renews_the_entry_of_another_with_a_longer_lease() {
    let etcd = Etcd::start();
    let (store, other) = (connect(&etcd.url()).await, connect(&etcd.url()).await);
    let claim = claim("k");
    acquire(&store, &claim).await;
    for _ in 0..3 {
        let answers = other.renew(&[Renew { claim: &claim, ttl: LONG * 2 }]).await;
        assert!(matches!(&answers[..], [Renewal::Renewed { .. }]), "{answers:?}");
    }
    assert_eq!(other.release(&claim, None).await.expect("an answer"), Released::Released);
    assert!(etcd.keys().is_empty(), "{:?}", etcd.keys());
}

/// The answer to a release is lost. A repeated release gives the same answer.
#[tokio::test]
async fn a_release_that_keeps_the_key_can_be_repeated() {
    let etcd = Etcd::start();
    let store = connect(&etcd.url()).await;
    let (one, several) = (claim("k"), claims().all([key("a"), key("b")], Queue::Barging, LONG));
    for claim in [one, several] {
        acquire(&store, &claim).await;
        for keep in [Some(LONG), Some(LONG - ms(1_500)), None] {
            let released = store.release(&claim, keep).await.expect("an answer");
            assert_eq!(released, Released::Released, "{keep:?}");
        }
    }
    assert_eq!((etcd.keys().len(), etcd.leases()), (3, 2), "the keys stay taken");
}

/// Releases that keep the key are cut off at every moment and repeated. Each leaves one key with one lease.
#[tokio::test]
async fn a_release_that_is_repeated_leaves_no_lease_behind() {
    const ROUNDS: usize = 40;
    let etcd = Etcd::start();
    let proxy = Proxy::to(etcd.address(0));
    let store = connect(&format!("etcd://127.0.0.1:{}?timeout=300ms", proxy.port())).await;
    let mut cut_off = 0;
    for round in 0..ROUNDS {
        let claim = claim(&format!("k{round}"));
        acquire(&store, &claim).await;
        let lose = async {
            a_moment(ms(5)).await;
            proxy.replies(Flow::Hold);
            tokio::time::sleep(ms(10)).await;
            proxy.cut();
            proxy.heal();
        };
        let (first, ()) = tokio::join!(store.release(&claim, Some(LONG)), lose);
        cut_off += usize::from(first.is_err());
        let again = async || store.release(&claim, Some(LONG)).await.is_ok();
        wait_until("the release is answered", PATIENCE, again).await;
    }
    assert!(cut_off > ROUNDS / 10, "{cut_off} of {ROUNDS} were cut off: this shows nothing");
    assert_eq!((etcd.keys().len(), etcd.leases()), (ROUNDS, ROUNDS));
}

/// The holder has lost the key to an operator. Its release keeps no key, and leaves no lease.
#[tokio::test]
async fn a_release_of_what_has_gone_leaves_no_lease_behind() {
    let etcd = Etcd::start();
    let proxy = Proxy::to(etcd.address(0));
    let store = connect(&format!("etcd://127.0.0.1:{}?timeout=300ms", proxy.port())).await;
    let mut left_one = false;
    for round in 0..100 {
        let claim = claim(&format!("k{round}"));
        acquire(&store, &claim).await;
        let hold = async {
            a_moment(ms(5)).await;
            proxy.requests(Flow::Hold);
            tokio::time::sleep(ms(10)).await;
            proxy.cut();
            proxy.heal();
        };
        let (first, ()) = tokio::join!(store.release(&claim, Some(LONG)), hold);
        // The two leases are that of the holder and the one that was to keep the key.
        let both = first.is_err() && etcd.leases() == 2;
        etcd.ctl(&["del", &format!("k{round}/"), "--prefix"]);
        let again = async || store.release(&claim, Some(LONG)).await.is_ok();
        wait_until("the release is answered", PATIENCE, again).await;
        if both {
            left_one = true;
            assert_eq!((etcd.keys().len(), etcd.leases()), (0, 0));
            break;
        }
        for id in etcd.lease_ids() {
            etcd.ctl(&["lease", "revoke", &id]);
        }
    }
    assert!(left_one, "it was cut off at other moments: this shows nothing");
}

/// An operator has revoked the lease of several keys, and kept their values. When their owner repeats its request, it
/// binds them to another lease.
#[tokio::test]
async fn several_keys_without_a_lease_are_bound_again() {
    let etcd = Etcd::start();
    let store = connect(&etcd.url()).await;
    let claim = claims().all([key("a"), key("b")], Queue::Barging, LONG);
    acquire(&store, &claim).await;
    for key in etcd.keys() {
        etcd.ctl(&["put", &key, "--ignore-value"]);
    }
    acquire(&store, &claim).await;
    assert_eq!(store.release(&claim, None).await.expect("an answer"), Released::Released);
    assert_eq!(etcd.keys().len(), 0);
}

#[tokio::test]
async fn the_member_that_answers_is_reported() {
    let etcd = Etcd::builder().members(3).start();
    let store = connect(&etcd.url()).await;
    let (node, took) = node_answer(&store, 1, PATIENCE).await;
    assert!((0..3).any(|member| etcd.address(member).to_string() == node), "{node}");
    assert!(took > Duration::ZERO && took < PATIENCE, "{took:?}");
}

/// A busy process hands a grant on millions of times while no other process waits. Each holder still has a token, and
/// each token is larger than those before.
#[tokio::test]
async fn a_grant_that_is_handed_on_without_end_has_tokens_without_end() {
    let etcd = Etcd::start();
    let store = connect(&etcd.url()).await;
    let mut claim = claim("k");
    acquire(&store, &claim).await;
    let mut last = None;
    for handoffs in [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5 << 20, (5 << 20) + 7, 1 << 40] {
        claim.handoffs = handoffs;
        let token = store.fence(&claim).await.expect("a token");
        assert!(last < Some(token), "{token:?} after {last:?}, with {handoffs} hand-offs");
        assert_eq!(store.fence(&claim).await.expect("a token"), token, "the same for one holder");
        last = Some(token);
    }
    store.release(&claim, None).await.expect("an answer");
    let next = self::claim("k");
    acquire(&store, &next).await;
    assert!(last < Some(store.fence(&next).await.expect("a token")), "the next grant");
}
