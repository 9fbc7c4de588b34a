//! `round_ttl=up`: etcd stores a lease of whole seconds, and the holder keeps to the ttl that it requested.

use std::time::Duration;

use lock_core::{LockErrorKind, LossReason};
use lock_tests::{Bound, Etcd, PATIENCE, soon_in_one_of_ten, wait_until};

use crate::support::{LONG, SHORTEST, connect, empty, manager, ms};

const TTL: Duration = ms(500);

fn url(etcd: &Etcd) -> String {
    format!("{}?round_ttl=up", etcd.url())
}

/// Returns the duration that etcd has granted to the lease of the only key. A session without keys may exist as well.
fn stored(etcd: &Etcd) -> String {
    let told = etcd.lease_ids().into_iter().map(|id| etcd.ctl(&["lease", "timetolive", "--keys", &id]));
    let bound: Vec<String> = told.filter(|told| told.contains("[k/")).collect();
    let [told] = &bound[..] else { panic!("{bound:?}") };
    told.clone()
}

#[tokio::test]
async fn etcd_stores_the_next_longer_ttl() {
    let etcd = Etcd::start();
    let locks = connect(&url(&etcd)).await;
    for (ttl, stands) in [(ms(1_500), "granted with TTL(2s)"), (ms(2_500), "granted with TTL(3s)")] {
        let guard = locks.lock("k").ttl(ttl).acquire().await.expect("free");
        let told = stored(&etcd);
        assert!(told.contains(stands), "{ttl:?}: {told}");
        assert!(guard.remaining() <= ttl, "{:?}", guard.remaining());
        guard.release().await.expect("an answer");
        empty(&etcd, PATIENCE).await;
    }
    let error = locks.lock("k").ttl(ms(99)).acquire().await.expect_err("too short for a request");
    assert!(error.to_string().contains("holds 100ms to"), "{error}");
}

/// The lock is renewed by its short ttl, and outlives it many times. The next renewal does not undo an `extend`.
#[tokio::test]
async fn a_short_lease_is_renewed_and_extended() {
    let etcd = Etcd::start();
    let locks = connect(&url(&etcd)).await;
    let guard = locks.lock("k").ttl(ms(1_500)).acquire().await.expect("free");
    let over = Bound::new(LONG);
    while over.elapsed() < ms(6_000) {
        assert!(guard.is_held(), "after {:?}", over.elapsed());
        assert!(guard.remaining() <= ms(1_500), "{:?}", guard.remaining());
        tokio::time::sleep(ms(20)).await;
    }
    guard.extend(ms(30_500)).await.expect("it is held");
    let over = Bound::new(LONG);
    while over.elapsed() < ms(2_000) {
        assert!(guard.remaining() > ms(27_000), "{:?}", guard.remaining());
        tokio::time::sleep(ms(20)).await;
    }
    guard.release().await.expect("an answer");
}

/// When the cluster stops, the holder is notified of the loss after the ttl that it requested. This is long before etcd
/// would grant the key to another client.
#[tokio::test(flavor = "multi_thread")]
async fn a_loss_is_told_at_the_deadline_of_the_holder() {
    // If the holder used the lease of etcd, every notification would be later.
    soon_in_one_of_ten(SHORTEST * 3 / 4, async || [loss_of_a_stopped_cluster().await]).await;
}

/// Returns the time until the holder is notified.
async fn loss_of_a_stopped_cluster() -> Duration {
    let etcd = Etcd::start();
    let locks = connect(&url(&etcd)).await;
    let running = tokio::spawn(locks.lock("k").ttl(TTL).run(std::future::pending::<()>()));
    wait_until("the key is taken", PATIENCE, async || !etcd.keys().is_empty()).await;
    etcd.stop(0);
    let stopped = Bound::new(PATIENCE);
    let outcome = tokio::time::timeout(PATIENCE, running).await.expect("the loss is told").expect("no panic");
    let took = stopped.elapsed();
    etcd.cont(0);
    let error = outcome.expect_err("the lock is lost");
    assert_eq!((error.kind(), error.loss_reason()), (LockErrorKind::Lost, Some(LossReason::Expired)));
    took
}

/// Without the option `round_ttl`, the refusal names the option.
#[tokio::test]
async fn a_refusal_says_how_a_ttl_is_rounded() {
    let etcd = Etcd::start();
    let locks = manager(&etcd).await;
    for ttl in [TTL, ms(2_500)] {
        let error = locks.lock("k").ttl(ttl).acquire().await.expect_err("it is not rounded in silence");
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
        assert!(error.to_string().contains("`?round_ttl=up`"), "{error}");
    }
}
