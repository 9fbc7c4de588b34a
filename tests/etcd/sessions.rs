//! The sessions. There is one lease for each ttl in use, and all entries of a process share it.

use std::time::Duration;

use lock_core::backend::etcd::Etcd as Store;
use lock_core::backend::{Ask, Attempt, Backend, Claim, Renew, Renewal};
use lock_core::key::Key;
use lock_core::testkit::Claims;
use lock_core::{LossReason, Released};
use lock_tests::{Bound, Etcd, Flow, PATIENCE, Proxy, wait_until};

use crate::support::{LONG, cycle, empty, lease_of, manager, ms, try_once};

const TTL: Duration = Duration::from_secs(9);

/// Returns the number of requests of this method that a member has received.
fn requests(etcd: &Etcd, service: &str, method: &str, kind: &str) -> usize {
    let labels =
        format!("grpc_method=\"{method}\",grpc_service=\"etcdserverpb.{service}\",grpc_type=\"{kind}\"");
    etcd.metric(&format!("grpc_server_started_total{{{labels}}}")) as usize
}

/// A free lock costs one transaction, and its release costs another one.
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

/// A round of renewals sends one heartbeat for each ttl, whatever the number of locks.
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
    // The limit is six rounds, and one more at the edge.
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

/// An operator revokes the lease. All its locks are lost together, and the next lock gets a new lease.
#[tokio::test]
async fn a_lost_session_is_told_to_all_its_holders() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let mut guards = Vec::new();
    for key in ["a", "b", "c"] {
        guards.push(locks.lock(key).ttl(TTL).acquire().await.expect("free"));
    }
    let other = locks.lock("other").ttl(TTL * 2).acquire().await.expect("free");
    let lease = format!("{:x}", lease_of(&etcd, "a").expect("it is held"));
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

/// At first a lock has the remaining time of the shared lease. It has its whole ttl from its first renewal on.
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
    // This lock was not renewed, although the process renews others.
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

/// Connects through `proxy`, with a short time limit for each answer of the server.
async fn through(proxy: &Proxy) -> Store {
    let url = format!("etcd://127.0.0.1:{}?timeout=300ms&connect_timeout=300ms", proxy.port());
    Store::connect(&url).await.expect("connected")
}

async fn granted(store: &Store, claim: &Claim) {
    let attempt = store.acquire(claim, Ask::Try).await.expect("an answer");
    assert!(matches!(attempt, Attempt::Granted(_)), "{attempt:?}");
}

/// The answers to releases and attempts are lost. Their lease is not used for anything else while a late request may
/// still bind an entry to it. The lease is revoked once nothing is bound to it.
#[tokio::test]
async fn a_lease_is_not_used_again_after_a_lost_answer() {
    let etcd = Etcd::start();
    let proxy = Proxy::to(etcd.address(0));
    let (store, claims) = (through(&proxy).await, Claims::new().expect("random"));
    let granted = async |claim: &Claim| granted(&store, claim).await;
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
        // This request needs no lease.
        wait_until("connected", PATIENCE, async || store.inspect(&second.key).await.is_ok()).await;
        granted(&second).await;
        let given: Vec<_> = etcd.lease_ids().into_iter().filter(|id| !leases.contains(id)).collect();
        assert_eq!(given.len(), 1, "after a lost {lost}: the other lease is in doubt");
        released(&first).await;
        let revoked = async || !etcd.lease_ids().iter().any(|id| leases.contains(id));
        wait_until("it was revoked", PATIENCE, revoked).await;
        assert_eq!(etcd.keys().len(), 1, "the second one holds its key on another lease");
        released(&second).await;
        assert_eq!(etcd.keys().len(), 0);
    }
}

/// A lock has waited, and moves to the lease of its ttl. The answer is lost. The lock moves again, and the lease stays
/// in use.
#[tokio::test]
async fn a_lease_is_used_again_after_a_lost_answer_to_a_move() {
    let etcd = Etcd::start();
    let proxy = Proxy::to(etcd.address(0));
    let (store, others) = (through(&proxy).await, Store::connect(&etcd.url()).await.expect("connected"));
    let [claims, of_others] = [(); 2].map(|()| Claims::new().expect("random"));
    let (first, next, beside) = (claim(&of_others, "a"), claim(&claims, "a"), claim(&claims, "b"));
    granted(&others, &first).await;
    granted(&store, &beside).await;
    let asks = async || store.acquire(&next, Ask::Enqueue { room: None }).await.expect("an answer");
    assert!(matches!(asks().await, Attempt::Held(_)));
    others.release(&first, None).await.expect("an answer");
    wait_until("its turn", PATIENCE, async || matches!(asks().await, Attempt::Granted(_))).await;
    let leases = etcd.lease_ids();
    let renewed = async || {
        let answers = store.renew(&[Renew { claim: &next, ttl: LONG }]).await;
        matches!(&answers[..], [Renewal::Renewed { .. }])
    };
    proxy.replies(Flow::Swallow);
    assert!(!renewed().await, "the answer is lost");
    proxy.cut();
    proxy.heal();
    wait_until("renewed", PATIENCE, renewed).await;
    assert_eq!(lease_of(&etcd, "a"), lease_of(&etcd, "b"), "both have this ttl");
    let new: Vec<_> = etcd.lease_ids().into_iter().filter(|id| !leases.contains(id)).collect();
    assert_eq!(new, Vec::<String>::new());
    for claim in [&next, &beside] {
        store.release(claim, None).await.expect("an answer");
    }
    assert_eq!(etcd.keys().len(), 0);
}

/// A `min_hold` keeps the entry of its owner, and with it the name that the next owner would use. So the next owner
/// takes another name.
#[tokio::test]
async fn a_key_that_is_kept_leaves_its_lease_in_use() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    let first = try_once(&locks, "first").await.expect("free");
    let kept = locks.lock("k").ttl(LONG).min_hold(LONG).acquire().await.expect("free");
    kept.release().await.expect("an answer");
    let error = try_once(&locks, "k").await.expect_err("it is kept");
    assert!(error.is_contended(), "{error}");
    let second = try_once(&locks, "second").await.expect("free");
    assert_eq!(lease_of(&etcd, "first"), lease_of(&etcd, "second"), "one lease for this ttl");
    let waiting = tokio::spawn(locks.lock("k").ttl(LONG).wait(LONG).acquire());
    wait_until("it waits", PATIENCE, async || etcd.keys().len() == 4).await;
    let kept =
        etcd.keys().into_iter().find(|key| etcd.ctl(&["get", key, "--print-value-only"]).contains(" kept=1"));
    etcd.ctl(&["del", &kept.expect("it is kept")]);
    let next = tokio::time::timeout(PATIENCE, waiting).await.expect("in time").expect("no panic");
    for guard in [first, second, next.expect("its turn")] {
        guard.release().await.expect("an answer");
    }
    empty(&etcd, PATIENCE).await;
}
