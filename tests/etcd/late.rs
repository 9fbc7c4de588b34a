//! Requests that take effect, some of them late, although their caller has got no answer.

use std::time::Duration;

use lock_core::LockGuard;
use lock_tests::{Bound, Etcd, Flow, PATIENCE, Proxy, wait_until};

use crate::support::{LONG, a_moment, connect, empty, lease_of, ms};

/// The number of attempts to hit the right moment.
const ROUNDS: u64 = 400;

/// The longest time that an extend takes over a healthy connection when the machine is not busy.
const EXTEND: Duration = ms(6);

/// Two connections to one member. A client uses the first.
struct Ways {
    first: Proxy,
    second: Proxy,
}

impl Ways {
    fn to(etcd: &Etcd) -> Self {
        let ways = Self { first: Proxy::to(etcd.address(0)), second: Proxy::to(etcd.address(0)) };
        ways.second.refuse(true);
        ways
    }

    /// The timeout of a call is longer than the time after which a silent connection is closed. So the server does not
    /// notice that the client has given up the request, and executes the request late.
    fn url(&self) -> String {
        let (first, second) = (self.first.port(), self.second.port());
        format!("etcd://127.0.0.1:{first},127.0.0.1:{second}?timeout=10s&connect_timeout=1s")
    }

    /// Delivers the data that the first connection has held back. Each chunk after the first is delivered after a
    /// pause, so the server executes a request before it notices that its connection was closed.
    async fn deliver(&self, etcd: &Etcd) -> bool {
        let executed = || etcd.metric("etcd_server_proposals_applied_total");
        let before = executed();
        self.first.delay(ms(400));
        self.first.requests(Flow::Pass);
        tokio::time::sleep(ms(900)).await;
        self.first.heal();
        executed() > before
    }
}

/// Extends a lock over a healthy connection. Returns the time within which the next extend is held back. On a busy
/// machine a fixed time would end before the first request of the extend is answered.
async fn timed(guard: &LockGuard, ttl: Duration) -> Duration {
    let since = Bound::new(PATIENCE);
    guard.extend(ttl).await.expect("nothing is in its way");
    EXTEND.max(since.elapsed().mul_f64(1.2))
}

/// Extends a lock to `ttl`, and holds the requests of the first connection back at some moment within `longest`.
/// Returns the lease of the extend if the lease was granted and the transaction is held back.
async fn hold_back(
    etcd: &Etcd,
    ways: &Ways,
    guard: &LockGuard,
    ttl: Duration,
    longest: Duration,
) -> Option<String> {
    let (leases, bound) = (etcd.lease_ids(), lease_of(etcd, guard.key()));
    let look = async {
        a_moment(longest).await;
        ways.first.requests(Flow::Hold);
        tokio::time::sleep(ms(50)).await;
        let new = etcd.lease_ids().into_iter().find(|id| !leases.contains(id));
        let new = new.filter(|_| lease_of(etcd, guard.key()) == bound);
        if new.is_some() {
            ways.second.refuse(false);
        } else {
            ways.first.heal();
        }
        new
    };
    let (extended, new) = tokio::join!(guard.extend(ttl), look);
    assert!(extended.is_err() || new.is_none(), "it was not answered");
    new
}

/// A member commits an extend of several keys, and its answer is lost. The keys stay held.
#[tokio::test]
async fn an_extend_of_several_keys_that_is_not_answered_leaves_them_held() {
    let etcd = Etcd::start();
    let proxy = Proxy::to(etcd.address(0));
    let locks = connect(&format!("etcd://127.0.0.1:{}", proxy.port())).await;
    let guard = locks.all(["a", "b"]).ttl(LONG).renew(false).acquire().await.expect("free");
    let mut committed = 0;
    for round in 1..=ROUNDS {
        // Each extend asks for a longer lease than the last, so each needs a new lease.
        let longer = |step: u64| LONG + Duration::from_secs(3 * round + step);
        wait_until("connected again", PATIENCE, async || guard.extend(longer(0)).await.is_ok()).await;
        let longest = timed(&guard, longer(1)).await;
        let before = lease_of(&etcd, "a");
        let lose = async {
            a_moment(longest).await;
            proxy.replies(Flow::Hold);
            tokio::time::sleep(ms(20)).await;
            proxy.cut();
            proxy.heal();
        };
        let (extended, ()) = tokio::join!(guard.extend(longer(2)), lose);
        tokio::time::sleep(ms(50)).await;
        let after = (lease_of(&etcd, "a"), lease_of(&etcd, "b"));
        assert!(after.0.is_some() && after.0 == after.1, "{after:?} after round {round}: {extended:?}");
        committed += usize::from(extended.is_err() && after.0 != before);
        if committed == 3 {
            break;
        }
    }
    assert_eq!(committed, 3, "it was cut off at other moments: this shows nothing");
    wait_until("it can be extended", PATIENCE, async || guard.extend(LONG * 30).await.is_ok()).await;
    // The background repeats the release until it is answered.
    drop(guard);
    empty(&etcd, PATIENCE).await;
}

/// Acquires a lock of `ttl` whose extend to `longer` is held back on the first connection. Also returns the lease of
/// the extend.
async fn held_back(etcd: &Etcd, ways: &Ways, ttl: Duration, longer: Duration) -> (LockGuard, String) {
    let locks = connect(&ways.url()).await;
    for round in 0..ROUNDS {
        let other = locks.lock("timed").ttl(LONG).acquire().await.expect("free");
        let longest = timed(&other, LONG * 2).await;
        other.release().await.expect("an answer");
        let key = format!("k{round}");
        let request = locks.lock(key).ttl(ttl);
        // The lock is renewed often if its lease is short enough to end within a test.
        let request = if ttl < LONG { request.renew_every(ms(500)) } else { request.renew(false) };
        let guard = request.acquire().await.expect("free");
        // Each round has another ttl, so that each needs a new lease.
        let longer = longer + Duration::from_secs(round);
        if let Some(lease) = hold_back(etcd, ways, &guard, longer, longest).await {
            return (guard, lease);
        }
        guard.release().await.expect("an answer");
    }
    panic!("it was held back at other moments: this shows nothing");
}

/// Repeats `scene` until the server has executed the late request. Sometimes the server notices the closed connection
/// first.
async fn until_executed(scene: impl AsyncFn(&Etcd, &Ways) -> bool) {
    for _ in 0..8 {
        let etcd = Etcd::start();
        let ways = Ways::to(&etcd);
        if scene(&etcd, &ways).await {
            return empty(&etcd, PATIENCE).await;
        }
    }
    panic!("what arrived late was never executed: this shows nothing");
}

/// The transaction of an extend arrives after that of a later, longer extend. It must not shorten the lease again.
#[tokio::test]
async fn a_late_extend_does_not_undo_a_later_one() {
    until_executed(async |etcd, ways| {
        let (guard, _) = held_back(etcd, ways, LONG, LONG * 2).await;
        let extend = async || guard.extend(LONG * 3).await.is_ok();
        wait_until("extended over the other way", PATIENCE, extend).await;
        let bound = lease_of(etcd, guard.key());
        let executed = ways.deliver(etcd).await;
        assert_eq!(lease_of(etcd, guard.key()), bound, "the late one took the key to an older lease");
        guard.release().await.expect("an answer");
        executed
    })
    .await;
}

/// The transaction of an extend arrives while the lock is renewed on its first lease. It must not bind the key to a
/// lease that no one keeps alive.
#[tokio::test]
async fn a_late_extend_leaves_a_renewed_lock_on_its_lease() {
    const TTL: Duration = Duration::from_secs(10);
    until_executed(async |etcd, ways| {
        let (guard, lease) = held_back(etcd, ways, TTL, TTL + Duration::from_secs(2)).await;
        let bound = lease_of(etcd, guard.key());
        let renewed = async || guard.remaining() > TTL - ms(600);
        wait_until("renewed over the other way", PATIENCE, renewed).await;
        // At least one renewal happens after the failure of the extend.
        tokio::time::sleep(ms(1_200)).await;
        let executed = ways.deliver(etcd).await;
        let after = lease_of(etcd, guard.key());
        assert_eq!(after, bound, "the late one took the key to a lease that nobody renews");
        assert!(!etcd.lease_ids().contains(&lease), "the lease of the extend was not given back");
        guard.release().await.expect("an answer");
        executed
    })
    .await;
}
