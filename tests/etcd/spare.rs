//! The leases that released locks leave for the next ones.

use std::time::Duration;

use lock_core::backend::etcd::Etcd as Store;
use lock_core::backend::{Ask, Attempt, Backend, Claim};
use lock_core::key::Key;
use lock_core::testkit::Claims;
use lock_core::{Kind, LockManager, Released, strategy};
use lock_tests::{Bound, Etcd, Flow, PATIENCE, Proxy, wait_until};

use crate::support::{LONG, SHORTEST, cycle, empty, manager, ms, try_once};

const TTL: Duration = Duration::from_secs(10);

/// Returns how many requests of this method a member has got.
pub(crate) fn requests(etcd: &Etcd, service: &str, method: &str) -> usize {
    let labels =
        format!("grpc_method=\"{method}\",grpc_service=\"etcdserverpb.{service}\",grpc_type=\"unary\"");
    etcd.metric(&format!("grpc_server_started_total{{{labels}}}")) as usize
}

/// The requests that locks are made of: transactions, leases granted, and leases revoked.
fn cost(etcd: &Etcd) -> [usize; 3] {
    [("KV", "Txn"), ("Lease", "LeaseGrant"), ("Lease", "LeaseRevoke")]
        .map(|(service, method)| requests(etcd, service, method))
}

/// A free lock costs one transaction, and its release another one.
#[tokio::test]
async fn a_free_lock_costs_two_requests() {
    const CYCLES: usize = 50;
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    cycle(&locks, "k").await;
    let before = cost(&etcd);
    for number in 0..CYCLES {
        // Whichever key, and whichever kind.
        match number % 3 {
            0 => cycle(&locks, "k").await,
            1 => cycle(&locks, &format!("k{number}")).await,
            _ => {
                let guard = locks.fair("fair").ttl(LONG).acquire().await.expect("free");
                guard.release().await.expect("an answer");
            }
        }
    }
    let after = cost(&etcd);
    let took: Vec<_> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    assert_eq!(took, [CYCLES * 2, 0, 0], "transactions, leases, and ends of leases");
    assert_eq!((etcd.keys().len(), etcd.leases()), (0, 1));
}

/// A claim that finds the key taken writes nothing, and leaves the lease to the next.
#[tokio::test]
async fn a_refused_claim_gives_its_lease_back() {
    let etcd = Etcd::start();
    let (one, two) = (manager(&etcd).await, manager(&etcd).await);
    let held = try_once(&one, "k").await.expect("free");
    cycle(&two, "other").await;
    let before = (cost(&etcd), etcd.metric("etcd_debugging_mvcc_put_total"));
    for _ in 0..5 {
        try_once(&two, "k").await.expect_err("it is held");
    }
    let after = (cost(&etcd), etcd.metric("etcd_debugging_mvcc_put_total"));
    assert_eq!(after.0[1..], before.0[1..], "leases");
    assert_eq!(after.1, before.1, "nothing was written");
    cycle(&two, "other").await;
    assert_eq!(cost(&etcd)[1..], before.0[1..], "it was there for the next");
    held.release().await.expect("an answer");
}

/// Turns among two processes neither ask for a lease nor end one, but for those that are too old by then.
#[tokio::test]
async fn turns_use_the_same_leases_again() {
    const TURNS: usize = 40;
    let etcd = Etcd::start();
    let managers = [manager(&etcd).await, manager(&etcd).await];
    for kind in [Kind::Fair, Kind::Reentrant] {
        let turns = async |locks: &LockManager| {
            for _ in 0..TURNS {
                let guard = locks.request("k", kind).ttl(LONG).wait(LONG).acquire().await.expect("its turn");
                // Longer than the quantum in which a process hands it on by itself.
                tokio::time::sleep(ms(12)).await;
                guard.release().await.expect("an answer");
            }
        };
        let before = cost(&etcd);
        tokio::join!(turns(&managers[0]), turns(&managers[1]));
        let [_, granted, revoked] = cost(&etcd);
        let leases = granted - before[1] + revoked - before[2];
        assert!(leases <= TURNS / 2, "{leases} leases and ends of leases for {} turns, {kind}", TURNS * 2);
        empty(&etcd, PATIENCE).await;
    }
}

/// Nobody renews a spare lease: a process that is idle or dead leaves none for long.
#[tokio::test]
async fn spare_leases_end_by_themselves() {
    // A quarter of it may pass until the last one is released: those that are older are not kept.
    const SPARE: Duration = Duration::from_secs(6);
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let guards: Vec<_> = {
        let mut guards = Vec::new();
        for number in 0..3 {
            let request = locks.lock(format!("k{number}")).ttl(SPARE).strategy(strategy::fail_fast());
            guards.push(request.acquire().await.expect("free"));
        }
        guards
    };
    for guard in guards {
        assert_eq!(guard.release().await.expect("an answer"), Released::Released);
    }
    assert_eq!((etcd.keys().len(), etcd.leases()), (0, 3));
    wait_until("no lease is left", PATIENCE, async || etcd.leases() == 0).await;
    // Those that are over are not taken.
    let guard = locks.lock("k").ttl(SPARE).acquire().await.expect("free");
    tokio::time::sleep(SPARE * 3 / 2).await;
    assert!(guard.is_held(), "renewed");
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
}

/// The end of the manager ends its spare leases.
#[tokio::test]
async fn a_shutdown_ends_spare_leases() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    cycle(&locks, "k").await;
    assert_eq!(etcd.leases(), 1);
    locks.shutdown(ms(100)).await;
    assert_eq!(etcd.leases(), 0);
}

/// An operator ends a spare lease: the next claim asks for another one.
#[tokio::test]
async fn a_spare_lease_that_was_ended_is_replaced() {
    let etcd = Etcd::start();
    let (locks, others) = (manager(&etcd).await, manager(&etcd).await);
    for waits in [false, true] {
        cycle(&locks, "k").await;
        for id in etcd.lease_ids() {
            etcd.ctl(&["lease", "revoke", &id]);
        }
        if waits {
            let held = try_once(&others, "k").await.expect("free");
            let waiting = tokio::spawn(locks.fair("k").ttl(LONG).wait(LONG).acquire());
            wait_until("it waits", PATIENCE, async || etcd.keys().len() == 2).await;
            held.release().await.expect("an answer");
            let next = tokio::time::timeout(PATIENCE, waiting).await.expect("told").expect("no panic");
            next.expect("its turn").release().await.expect("an answer");
        } else {
            let guard = locks.lock("k").ttl(SHORTEST * 2).acquire().await.expect("free");
            guard.release().await.expect("an answer");
            let guard = try_once(&locks, "k").await.expect("the key is free, and another lease is given");
            assert!(guard.remaining() > LONG / 2 && etcd.keys().len() == 1);
            assert_eq!(guard.release().await.expect("an answer"), Released::Released);
        }
    }
    assert_eq!(etcd.keys().len(), 0);
}

/// A claim that is not renewed has its whole ttl, whatever was left before it.
#[tokio::test]
async fn a_claim_that_is_not_renewed_has_its_whole_ttl() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let first = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    tokio::time::sleep(TTL / 5).await;
    first.release().await.expect("an answer");
    let renewed = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    assert!(renewed.remaining() <= TTL * 4 / 5, "it has taken the lease: {:?}", renewed.remaining());
    renewed.release().await.expect("an answer");
    let request = locks.lock("k").ttl(TTL).renew(false);
    let guard = request.acquire().await.expect("free");
    assert!(guard.remaining() > TTL - ms(1_000), "{:?}", guard.remaining());
    guard.release().await.expect("an answer");
}

/// A lock on a spare lease lives longer than what was left of it.
#[tokio::test]
async fn a_lock_on_a_spare_lease_is_renewed() {
    let etcd = Etcd::start();
    let (locks, others) = (manager(&etcd).await, manager(&etcd).await);
    const SHORT: Duration = Duration::from_secs(8);
    let first = locks.lock("k").ttl(SHORT).acquire().await.expect("free");
    let age = Bound::new(PATIENCE);
    // Now: when a quarter of the lease is over, it is not spare any more.
    let lease = etcd.lease_ids();
    tokio::time::sleep(ms(800).saturating_sub(age.elapsed())).await;
    first.release().await.expect("an answer");
    let guard = locks.lock("k").ttl(SHORT).acquire().await.expect("free");
    assert_eq!(etcd.lease_ids(), lease, "this shows nothing");
    assert!(guard.remaining() <= SHORT - ms(800), "it has no more than was left: {:?}", guard.remaining());
    let over = Bound::new(PATIENCE);
    while over.elapsed() < SHORT * 3 / 2 {
        assert!(guard.is_held(), "after {:?}", over.elapsed());
        tokio::time::sleep(ms(50)).await;
    }
    try_once(&others, "k").await.expect_err("it is held");
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
}

fn claim(claims: &Claims, name: &str) -> Claim {
    let mut claim = claims.exclusive(&Key::new(name).expect("a key"), LONG);
    claim.renews = true;
    claim
}

/// The answers to releases and attempts are lost at every moment: nothing is left, and no lease is used again of which it
/// is not certain what is bound to it.
#[tokio::test]
async fn a_lease_is_not_used_again_after_a_lost_answer() {
    let etcd = Etcd::start();
    let proxy = Proxy::to(etcd.address(0));
    let url = format!("etcd://127.0.0.1:{}?timeout=300ms&connect_timeout=300ms", proxy.port());
    let (store, claims) = (Store::connect(&url).await.expect("connected"), Claims::new().expect("random"));
    let granted = async |claim: &Claim| {
        let attempt = store.acquire(claim, Ask::Try).await.expect("an answer");
        assert!(matches!(attempt, Attempt::Granted(_)), "{attempt:?}");
    };
    let released = async |claim: &Claim| {
        let again = async || store.release(claim, None).await.is_ok();
        wait_until("the release is answered", PATIENCE, again).await;
    };
    for lost in ["release", "attempt"] {
        let (first, second) = (claim(&claims, "a"), claim(&claims, "b"));
        granted(&first).await;
        let leases = etcd.lease_ids();
        let before = cost(&etcd)[0];
        if lost == "release" {
            proxy.replies(Flow::Swallow);
            store.release(&first, None).await.expect_err("the answer is lost");
        } else {
            released(&first).await;
            assert_eq!(etcd.lease_ids(), leases, "it is spare");
            proxy.replies(Flow::Swallow);
            store.acquire(&first, Ask::Try).await.expect_err("the answer is lost");
        }
        assert!(cost(&etcd)[0] > before, "it has arrived");
        proxy.cut();
        proxy.heal();
        // A question that takes no lease.
        wait_until("connected", PATIENCE, async || store.inspect(&second.key).await.is_ok()).await;
        granted(&second).await;
        let given: Vec<_> = etcd.lease_ids().into_iter().filter(|id| !leases.contains(id)).collect();
        assert_eq!(given.len(), 1, "after a lost {lost}: the other lease is in doubt");
        released(&first).await;
        assert!(!etcd.lease_ids().iter().any(|id| leases.contains(id)), "it was revoked");
        assert_eq!(etcd.keys().len(), 1, "the second one holds its key on a lease of its own");
        released(&second).await;
        assert_eq!(etcd.keys().len(), 0);
        // The next round begins without a spare lease.
        for id in etcd.lease_ids() {
            etcd.ctl(&["lease", "revoke", &id]);
        }
    }
}

/// A release that is repeated after its answer has nothing to do with the lease that another lock has by now.
#[tokio::test]
async fn a_repeated_release_leaves_the_next_lock_alone() {
    let etcd = Etcd::start();
    let (store, claims) =
        (Store::connect(&etcd.url()).await.expect("connected"), Claims::new().expect("random"));
    let (first, second) = (claim(&claims, "a"), claim(&claims, "b"));
    for claim in [&first, &second] {
        let attempt = store.acquire(claim, Ask::Try).await.expect("an answer");
        assert!(matches!(attempt, Attempt::Granted(_)), "{attempt:?}");
        assert_eq!(etcd.leases(), 1, "they have one lease, one after the other");
        if claim.key == first.key {
            assert_eq!(store.release(claim, None).await.expect("an answer"), Released::Released);
        }
    }
    assert_eq!(store.release(&first, None).await.expect("an answer"), Released::Expired);
    assert_eq!((etcd.keys().len(), etcd.leases()), (1, 1));
    assert_eq!(store.release(&second, None).await.expect("an answer"), Released::Released);
}

/// `max_hold` and `min_hold` count from the grant, and not from when an earlier lock has asked for the lease.
#[tokio::test]
async fn a_hold_on_a_spare_lease_begins_with_its_own_grant() {
    let etcd = Etcd::start();
    let (locks, others) = (manager(&etcd).await, manager(&etcd).await);
    let ages = async |name: &str| {
        let first = locks.lock(name).ttl(TTL).acquire().await.expect("free");
        tokio::time::sleep(TTL / 5).await;
        first.release().await.expect("an answer");
    };
    ages("a").await;
    let asked = Bound::new(PATIENCE);
    let guard = locks.lock("b").ttl(TTL).max_hold(TTL / 10).acquire().await.expect("free");
    assert!(guard.remaining() < TTL, "it has taken the lease");
    guard.lost().await;
    assert!(asked.elapsed() >= TTL / 10, "after {:?}", asked.elapsed());
    drop(guard);
    ages("a").await;
    let guard = locks.lock("c").ttl(TTL).min_hold(TTL / 5).acquire().await.expect("free");
    guard.release().await.expect("an answer");
    try_once(&others, "c").await.expect_err("it is kept");
}
