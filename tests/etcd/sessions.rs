//! The sessions: one lease for each ttl in use, which all entries of a process share.

use std::time::Duration;

use lock_core::backend::etcd::Etcd as Store;
use lock_core::backend::{Ask, Attempt, Backend, Claim};
use lock_core::key::Key;
use lock_core::testkit::Claims;
use lock_core::{LossReason, Released};
use lock_tests::{Bound, Etcd, Flow, PATIENCE, Proxy, wait_until};

use crate::support::{LONG, cycle, empty, manager, ms, try_once};

const TTL: Duration = Duration::from_secs(9);

/// Returns how many requests of this method a member has got.
fn requests(etcd: &Etcd, service: &str, method: &str, kind: &str) -> usize {
    let labels =
        format!("grpc_method=\"{method}\",grpc_service=\"etcdserverpb.{service}\",grpc_type=\"{kind}\"");
    etcd.metric(&format!("grpc_server_started_total{{{labels}}}")) as usize
}

/// A free lock costs one transaction, and its release another one.
#[tokio::test]
async fn a_free_lock_costs_two_requests() {
    const TIMES: usize = 20;
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    cycle(&locks, "k").await;
    let cost = || {
        let of = |(service, method)| requests(&etcd, service, method, "unary");
        [("KV", "Txn"), ("Lease", "LeaseGrant"), ("Lease", "LeaseRevoke")].map(of)
    };
    let before = cost();
    for _ in 0..TIMES {
        cycle(&locks, "k").await;
    }
    let after = cost();
    assert_eq!([0, 1, 2].map(|at| after[at] - before[at]), [2 * TIMES, 0, 0]);
    assert_eq!((etcd.keys().len(), etcd.leases()), (0, 1));
}

/// However many locks there are, a round of renewals is one sign of life for each ttl.
#[tokio::test]
async fn locks_of_one_ttl_are_renewed_together() {
    const LOCKS: usize = 1_000;
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let mut guards = Vec::new();
    for number in 0..LOCKS {
        guards.push(locks.lock(format!("k{number}")).ttl(TTL).acquire().await.expect("free"));
    }
    assert_eq!(etcd.leases(), 1);
    let kept = || requests(&etcd, "Lease", "LeaseKeepAlive", "bidi_stream");
    let transactions = || requests(&etcd, "KV", "Txn", "unary");
    let (since, before) = (Bound::new(PATIENCE * 2), (kept(), transactions()));
    while since.elapsed() < TTL * 2 {
        assert!(guards.iter().all(|guard| guard.is_held()), "after {:?}", since.elapsed());
        tokio::time::sleep(ms(100)).await;
    }
    let told = (kept() - before.0, transactions() - before.1);
    // Six rounds, and one that lies on the edge.
    let most = (since.elapsed().as_millis() / (TTL / 6).as_millis()) as usize + 1;
    assert!(
        told.0 >= 5 && told.0 <= most,
        "{told:?} signs of life and transactions within {:?}",
        since.elapsed()
    );
    assert!(told.1 < LOCKS / 10, "{told:?}");
    for guard in guards {
        assert_eq!(guard.release().await.expect("an answer"), Released::Released);
    }
    empty(&etcd, PATIENCE).await;
}

/// An operator ends the lease: all locks under it are lost together, and the next one gets another lease.
#[tokio::test]
async fn a_lost_session_is_told_to_all_its_holders() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let mut guards = Vec::new();
    for key in ["a", "b", "c"] {
        guards.push(locks.lock(key).ttl(TTL).acquire().await.expect("free"));
    }
    let other = locks.lock("other").ttl(TTL * 2).acquire().await.expect("free");
    let lease = etcd.ctl(&["get", "a/", "--prefix", "-w", "fields"]);
    let lease = lease.lines().find_map(|line| line.strip_prefix("\"Lease\" : ")).expect("a lease");
    let lease = format!("{:x}", lease.trim().parse::<i64>().expect("a number"));
    etcd.ctl(&["lease", "revoke", &lease]);
    for guard in &guards {
        let reason = tokio::time::timeout(PATIENCE, guard.lost()).await.expect("told");
        assert!(matches!(reason, LossReason::SessionEnded | LossReason::Taken), "{reason:?}");
    }
    assert!(other.is_held());
    drop(guards);
    let again = locks.lock("a").ttl(TTL).acquire().await.expect("free");
    assert_eq!(again.release().await.expect("an answer"), Released::Released);
    assert_eq!(other.release().await.expect("an answer"), Released::Released);
    empty(&etcd, PATIENCE).await;
}

/// A lock has what is left of the lease that it shares, and its whole ttl from its first renewal on.
#[tokio::test]
async fn a_lock_has_what_is_left_of_its_lease() {
    let etcd = Etcd::start();
    let (locks, others) = (manager(&etcd).await, manager(&etcd).await);
    let first = locks.lock("a").ttl(TTL).acquire().await.expect("free");
    tokio::time::sleep(TTL / 6).await;
    let second = locks.lock("b").ttl(TTL).acquire().await.expect("free");
    assert!(second.remaining() <= TTL * 5 / 6, "{:?}", second.remaining());
    let own = locks.lock("c").ttl(TTL).renew(false).acquire().await.expect("free");
    assert!(own.remaining() > TTL - ms(1_000), "{:?}", own.remaining());
    let over = Bound::new(PATIENCE);
    while over.elapsed() < TTL * 3 / 2 {
        assert!(first.is_held() && second.is_held(), "after {:?}", over.elapsed());
        tokio::time::sleep(ms(50)).await;
    }
    // It was not renewed, whatever else the process holds.
    assert!(!own.is_held());
    wait_until("it is free", PATIENCE, async || try_once(&others, "c").await.is_ok()).await;
    for guard in [first, second] {
        assert_eq!(guard.release().await.expect("an answer"), Released::Released);
    }
}

fn claim(claims: &Claims, name: &str) -> Claim {
    let mut claim = claims.exclusive(&Key::new(name).expect("a key"), LONG);
    claim.renews = true;
    claim
}

/// The answers to releases and attempts are lost: nothing else is bound to a lease that something may be bound to late, and
/// it is revoked once nothing is.
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
        if lost == "release" {
            proxy.replies(Flow::Swallow);
            store.release(&first, None).await.expect_err("the answer is lost");
        } else {
            released(&first).await;
            assert_eq!(etcd.lease_ids(), leases, "it stays for the next one");
            proxy.replies(Flow::Swallow);
            store.acquire(&first, Ask::Try).await.expect_err("the answer is lost");
        }
        proxy.cut();
        proxy.heal();
        // A request that takes no lease.
        wait_until("connected", PATIENCE, async || store.inspect(&second.key).await.is_ok()).await;
        granted(&second).await;
        let given: Vec<_> = etcd.lease_ids().into_iter().filter(|id| !leases.contains(id)).collect();
        assert_eq!(given.len(), 1, "after a lost {lost}: the other lease is in doubt");
        released(&first).await;
        assert!(!etcd.lease_ids().iter().any(|id| leases.contains(id)), "it was revoked");
        assert_eq!(etcd.keys().len(), 1, "the second one holds its key on another lease");
        released(&second).await;
        assert_eq!(etcd.keys().len(), 0);
    }
}
