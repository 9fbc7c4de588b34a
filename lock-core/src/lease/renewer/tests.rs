//! Tests the steps of the renewal loop one by one.

use tokio::runtime::Handle;

use super::*;
use crate::backend::memory::Memory;
use crate::backend::{Ask, Attempt, Backend, Capability, Claim, FencingToken, Released};
use crate::error::Result;
use crate::manager::LockManager;

fn renewer() -> Arc<Renewer> {
    of(Memory::new())
}

fn of(store: impl Backend) -> Arc<Renewer> {
    let local_queue = Arc::new(LocalQueue::new(&store.capability()));
    Renewer::new(Store::unobserved(store), local_queue, Clock::Tokio, Handle::current().id())
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn yes(sent: Moment) -> Renewal {
    Renewal::Renewed { sent, lease: secs(3), waiters: None }
}

/// A store with two shards. The shard of the keys that begin with `stuck` answers no renewals.
#[derive(Debug)]
struct Parted(Memory);

impl Backend for Parted {
    fn capability(&self) -> Capability {
        self.0.capability()
    }

    async fn acquire(&self, claim: &Claim, _ask: Ask) -> Result<Attempt> {
        self.0.acquire(claim, Ask::Try).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        if batch.iter().any(|renew| self.shard_of(renew.claim) == 1) {
            std::future::pending::<()>().await;
        }
        self.0.renew(batch).await
    }

    fn shard_of(&self, claim: &Claim) -> u64 {
        u64::from(claim.key.as_str().starts_with("stuck"))
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.0.release(claim, keep_for).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.0.fence(claim).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_of_the_store_that_hangs_costs_the_others_nothing() {
    let store = Memory::new();
    let renewer = of(Parted(store.clone()));
    let locks = LockManager::builder(store).build().expect("good defaults");
    let mut guards = Vec::new();
    for key in ["a", "stuck1", "b", "stuck2", "c"] {
        // With a ttl of 3 s, the manager's own renewer does not renew the leases during the test.
        guards.push(locks.lock(key).ttl(secs(3)).acquire().await.expect("it is free"));
    }
    tokio::time::advance(Duration::from_millis(500)).await;
    let before: Vec<_> = guards.iter().map(|guard| guard.lease().deadline()).collect();
    renewer.look_at(guards.iter().map(|guard| Arc::clone(guard.lease())).collect());
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    for (guard, before) in guards.iter().zip(before) {
        let renewed = guard.lease().deadline() != before;
        assert_eq!(renewed, !guard.key().starts_with("stuck"), "{guard:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_watches_the_end_and_renews_once() {
    let request = LockManager::in_memory().lock("k").ttl(secs(3));
    for (max_hold, renew) in [(None, true), (Some(secs(2)), true), (Some(secs(60)), true), (None, false)] {
        let mut request = request.clone().renew(renew);
        if let Some(max) = max_hold {
            request = request.max_hold(max);
        }
        let guard = request.acquire().await.expect("it is free");
        let (renewer, lease) = (renewer(), guard.lease());
        assert_eq!(renewer.look(lease), renew, "{max_hold:?}");
        let end = instant(lease.deadline());
        let end = lease.max_hold_end().map_or(end, |limit| end.min(instant(limit)));
        assert_eq!(renewer.schedule.next(), Some(end), "{max_hold:?}: a loss is told though no answer comes");
        assert!(!renewer.look(lease), "{max_hold:?}: one is under way");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_or_given_back_is_looked_at_no_more() {
    let request = LockManager::in_memory().lock("k").ttl(secs(3));
    let ended = request.clone().acquire().await.expect("it is free");
    let lease = Arc::clone(ended.lease());
    ended.release().await.expect("it answers");
    let renewer = renewer();
    assert!(!renewer.look(&lease));
    // This is the answer to a renewal that was under way during the release.
    renewer.answered(&lease, lease.ttl(), yes(lease.since));
    assert_eq!(renewer.schedule.next(), None);

    let lost = request.acquire().await.expect("it is free");
    lost.lease().lose(LossReason::Taken);
    assert!(!renewer.look(lost.lease()));
    assert_eq!(renewer.schedule.next(), None);
}

#[tokio::test(start_paused = true)]
async fn no_answer_puts_the_look_at_the_end_off() {
    let unknown = || Renewal::Unknown(LockError::new(LockErrorKind::Unavailable, "no answer"));
    let request = LockManager::in_memory().lock("k").ttl(secs(12)).renew(false);
    let guard = request.clone().acquire().await.expect("it is free");
    let (renewer, lease) = (renewer(), guard.lease());
    renewer.answered(lease, lease.ttl(), unknown());
    let soon = renewer.schedule.next().expect("it is filed");
    assert!(soon > instant(renewer.clock.now()) && soon < instant(lease.deadline()));
    tokio::time::advance(guard.remaining() - Duration::from_millis(1)).await;
    renewer.answered(lease, lease.ttl(), unknown());
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(!renewer.schedule.take_due(renewer.clock.now()).is_empty(), "its loss is told at the deadline");
    drop(guard);

    let guard = request.max_hold(secs(1)).acquire().await.expect("it is free");
    let lease = guard.lease();
    for answer in [unknown(), yes(lease.since)] {
        tokio::time::advance(Duration::from_millis(499)).await;
        renewer.answered(lease, lease.ttl(), answer);
    }
    tokio::time::advance(Duration::from_millis(2)).await;
    assert!(!renewer.schedule.take_due(renewer.clock.now()).is_empty(), "and at the end of `max_hold`");
}

/// The body blocked its runtime for longer than the lease. So the loss was not yet reported when the answer arrived.
#[tokio::test]
async fn a_yes_after_the_deadline_does_not_bring_the_lock_back() {
    let request = LockManager::in_memory().lock("k").ttl(Duration::from_millis(20)).renew(false);
    let guard = request.acquire().await.expect("it is free");
    let (renewer, lease) = (renewer(), guard.lease());
    std::thread::sleep(Duration::from_millis(30));
    renewer.answered(lease, lease.ttl(), yes(renewer.clock.now()));
    assert!(!lease.is_held());
    assert_eq!(lease.loss(), Some(LossReason::Expired));
    assert_eq!(renewer.schedule.next(), None);
}

/// A store that turns the grant into a shared one while a renewal is under way. The renewal then does not find the
/// exclusive grant.
#[derive(Debug)]
struct Downgrading(Memory);

impl Backend for Downgrading {
    fn capability(&self) -> Capability {
        self.0.capability()
    }

    async fn acquire(&self, claim: &Claim, _ask: Ask) -> Result<Attempt> {
        self.0.acquire(claim, Ask::Try).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        let named: Vec<_> = batch.iter().map(|renew| renew.claim.may_be_shared()).collect();
        batch.iter().for_each(|renew| renew.claim.mark_shared());
        let renewed = self.0.renew(batch).await;
        named
            .into_iter()
            .zip(renewed)
            .map(|(named, renewed)| if named { renewed } else { Renewal::NotOwned })
            .collect()
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.0.release(claim, keep_for).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.0.fence(claim).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_a_downgrade_overtakes_is_no_loss() {
    let store = Memory::new();
    let renewer = of(Downgrading(store.clone()));
    let locks = LockManager::builder(Downgrading(store)).build().expect("good defaults");
    let guard = locks.write("k").ttl(secs(3)).renew(false).acquire().await.expect("it is free");
    Arc::clone(&renewer).renew(vec![Arc::clone(guard.lease())]).await;
    assert_eq!(guard.lease().loss(), None);
    let soon = renewer.schedule.next().expect("it is tried again");
    assert!(soon < instant(guard.lease().deadline()));
    drop(guard);
    let guard = locks.write("k").ttl(secs(3)).renew(false).acquire().await.expect("it is free");
    guard.handle().extend(secs(4)).await.expect("asked again, in the new form");
    assert_eq!(guard.lease().loss(), None);
}

/// The renewal was under way while the lock was released.
#[tokio::test(start_paused = true)]
async fn a_grant_that_is_gone_neither_lingers_nor_goes_on() {
    let locks = LockManager::in_memory();
    let renewer = renewer();
    let guard =
        locks.lock("k").ttl(secs(3)).linger(Duration::from_millis(500)).acquire().await.expect("it is free");
    let lease = Arc::clone(guard.lease());
    guard.release().await.expect("an answer");
    let local_queue = Arc::clone(&lease.engine.local_queue);
    assert!(local_queue.lingers(&lease.claim().key));
    renewer.answered(&lease, secs(3), yes(lease.engine.clock.now()));
    assert!(local_queue.lingers(&lease.claim().key), "a late yes says nothing new");
    renewer.answered(&lease, secs(3), Renewal::NotOwned);
    assert!(!local_queue.lingers(&lease.claim().key));
    assert_eq!(
        lease.engine.lost.reason(lease.claim().owner),
        Some(LossReason::Taken),
        "on its way to another"
    );
}
