//! Hand-offs over a store that tells no holder of waiters elsewhere: the process asks before it gives the key back.

use std::future::{Future, pending};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use lock_core::backend::memory::Memory;
use lock_core::backend::{
    Ask, Attempt, Backend, Capability, Claim, FencingToken, Heartbeat, Listener, Order, Released, Renew,
    Renewal, Waiting,
};
use lock_core::key::Key;
use lock_core::{LockErrorKind, LockGuard, LockManager, Result, strategy};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::millis;

/// The memory store, as one that tells no holder of waiters. It answers no call at once.
#[derive(Clone, Debug, Default)]
struct Untold {
    memory: Memory,
    counts: Arc<Counts>,
    /// Whether it leaves the question whether others wait unanswered.
    is_silent: bool,
}

#[derive(Debug, Default)]
struct Counts {
    releases: AtomicUsize,
    questions: AtomicUsize,
}

impl Untold {
    fn manager(&self) -> LockManager {
        LockManager::builder(self.clone()).build().unwrap()
    }

    fn releases(&self) -> usize {
        self.counts.releases.load(Ordering::SeqCst)
    }

    fn questions(&self) -> usize {
        self.counts.questions.load(Ordering::SeqCst)
    }
}

impl Backend for Untold {
    fn capability(&self) -> Capability {
        let mut capability = self.memory.capability();
        let Waiting::Watch { order: order @ Order::Arrival { .. }, .. } = capability.waiting else {
            panic!("memory is watched");
        };
        capability.waiting = Waiting::Watch { order, tells_holder: false };
        capability
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        self.memory.acquire(claim, ask).await
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Heartbeat> {
        self.memory.heartbeat(claim).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        self.memory.renew(batch).await
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.counts.releases.fetch_add(1, Ordering::SeqCst);
        self.memory.release(claim, keep_for).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.memory.fence(claim).await
    }

    async fn changed(&self, claim: &Claim) {
        self.memory.changed(claim).await;
    }

    async fn others_wait(&self, claim: &Claim) -> Result<bool> {
        self.counts.questions.fetch_add(1, Ordering::SeqCst);
        if self.is_silent {
            pending::<()>().await;
        }
        let info = self.memory.inspect(&claim.key).await?;
        Ok(info.is_none_or(|info| !info.waiters.is_empty()))
    }

    fn attach(
        &self,
        process: u128,
        listener: Weak<dyn Listener>,
        background: Option<&tokio::runtime::Handle>,
    ) {
        self.memory.attach(process, listener, background);
    }
}

/// Has `tasks` tasks hold the key once each, for `hold`.
async fn holds(locks: &LockManager, tasks: usize, hold: Duration) {
    let mut set = JoinSet::new();
    for _ in 0..tasks {
        set.spawn(hold_once(locks.clone(), hold));
    }
    while let Some(done) = set.join_next().await {
        done.unwrap();
    }
}

async fn hold_once(locks: LockManager, hold: Duration) {
    let guard = locks.lock("k").strategy(strategy::wait()).acquire().await.unwrap();
    tokio::time::sleep(hold).await;
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_process_keeps_the_key_for_its_own_while_nobody_else_waits() {
    let store = Untold::default();
    holds(&store.manager(), 50, millis(10)).await;
    // The time of the first holder begins when it hands off.
    assert_eq!((store.releases(), store.questions()), (1, 48), "asked after each hold as long as a quantum");
    holds(&store.manager(), 101, millis(1)).await;
    assert_eq!((store.releases(), store.questions()), (2, 57), "ten holds are a quantum");
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_elsewhere_waits_for_one_hold_more() {
    let store = Untold::default();
    let (here, there) = (store.manager(), store.manager());
    let busy = tokio::spawn(async move { holds(&here, 50, millis(10)).await });
    tokio::time::sleep(millis(105)).await;
    let since = Instant::now();
    drop(there.lock("k").strategy(strategy::wait()).acquire().await.unwrap());
    assert!(since.elapsed() <= millis(20), "{:?}", since.elapsed());
    busy.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_that_nobody_here_waits_for_is_released_without_a_question() {
    let store = Untold::default();
    let locks = store.manager();
    for _ in 0..3 {
        holds(&locks, 1, millis(100)).await;
    }
    assert_eq!((store.releases(), store.questions()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_question_without_an_answer_gives_the_key_back() {
    let store = Untold { is_silent: true, ..Untold::default() };
    let since = Instant::now();
    holds(&store.manager(), 3, millis(10)).await;
    assert_eq!((store.releases(), store.questions()), (2, 1));
    assert!(since.elapsed() <= millis(140), "{:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_dropped_while_it_asks_gives_the_key_back() {
    let store = Untold { is_silent: true, ..Untold::default() };
    let locks = store.manager();
    let guard = handed_off(&locks).await;
    let next = tokio::spawn(hold_once(locks.clone(), Duration::ZERO));
    tokio::time::sleep(millis(20)).await;
    let mut release = Box::pin(guard.release());
    assert!(is_pending(&mut release).await);
    let since = Instant::now();
    drop(release);
    next.await.unwrap();
    assert_eq!((store.releases(), store.questions(), since.elapsed()), (2, 1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_lost_while_its_holder_asks_is_not_handed_off() {
    let store = Untold { is_silent: true, ..Untold::default() };
    let locks = store.manager();
    let guard = handed_off(&locks).await;
    let next = tokio::spawn(locks.lock("k").strategy(strategy::wait()).acquire());
    tokio::time::sleep(millis(20)).await;
    let key = Key::new("k").unwrap();
    let held = store.memory.inspect(&key).await.unwrap().unwrap();
    let mut release = Box::pin(guard.release());
    assert!(is_pending(&mut release).await);
    assert!(store.memory.force_release(&key, &held.holders[0].id).await.unwrap());
    assert_eq!(release.await.unwrap_err().kind(), LockErrorKind::Lost);
    let next = next.await.unwrap().unwrap();
    assert!(next.is_held(), "a grant of its own");
}

/// Returns a lock that was handed off, so that its quantum has begun.
async fn handed_off(locks: &LockManager) -> LockGuard {
    let first = locks.lock("k").acquire().await.unwrap();
    let second = tokio::spawn(locks.lock("k").strategy(strategy::wait()).acquire());
    tokio::time::sleep(millis(20)).await;
    first.release().await.unwrap();
    second.await.unwrap().unwrap()
}

/// Polls a future once, and returns whether it waits.
async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|cx| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx).is_pending()))
        .await
}
