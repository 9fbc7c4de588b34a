//! Tests hand-offs on a store that does not notify a holder of waiters in other processes. A process hands a grant off
//! to its own waiters for 10 ms, the *quantum*. Then it asks the store whether others wait. It ends its hand-offs if
//! they do, or if no answer arrives within 100 ms.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use lock_core::backend::memory::Memory;
use lock_core::backend::{
    Ask, Attempt, Backend, Capability, Claim, FencingToken, Heartbeat, Listener, Released, Renew, Renewal,
    Waiting,
};
use lock_core::key::Key;
use lock_core::{LockGuard, LockManager, Result, strategy};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::millis;

/// The memory store, without notifications of waiters. It answers no call at once.
#[derive(Clone, Debug, Default)]
struct Untold {
    memory: Memory,
    counts: Arc<Counts>,
    /// If true, the store does not answer whether others wait.
    is_silent: bool,
    /// If true, the store sends no notification when a grant is removed.
    is_mute: bool,
    /// While this mutex is locked, every acquire waits.
    entrance: Arc<Mutex<()>>,
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
        let Waiting::Watch { tells_holder, .. } = &mut capability.waiting else {
            panic!("memory is watched")
        };
        *tells_holder = false;
        capability
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        let _through = self.entrance.lock().await;
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
        if !self.is_mute {
            self.memory.attach(process, listener, background);
        }
    }
}

/// Starts `tasks` tasks. Each of them holds the key once, for `hold`.
async fn holds(locks: &LockManager, tasks: usize, hold: Duration) {
    let mut set = JoinSet::new();
    for number in 0..tasks {
        set.spawn(hold_once(locks.clone(), hold, number % 2 == 0));
    }
    while let Some(done) = set.join_next().await {
        done.unwrap();
    }
}

/// Holds the key once. A dropped guard is handed off in the same way as a released guard.
async fn hold_once(locks: LockManager, hold: Duration, drops: bool) {
    let guard = locks.lock("k").strategy(strategy::wait()).acquire().await.unwrap();
    tokio::time::sleep(hold).await;
    if drops {
        drop(guard);
    } else {
        guard.release().await.unwrap();
    }
}

/// Waits until all background requests are answered.
async fn settled() {
    tokio::time::sleep(millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_process_keeps_the_key_for_its_own_while_nobody_else_waits() {
    let store = Untold::default();
    holds(&store.manager(), 50, millis(10)).await;
    settled().await;
    // The first quantum begins with the hand-off of the first holder, so there is no question after the first hold.
    assert_eq!((store.releases(), store.questions()), (1, 48), "asked after each hold as long as a quantum");
    holds(&store.manager(), 101, millis(1)).await;
    settled().await;
    assert_eq!((store.releases(), store.questions()), (2, 57), "ten holds are a quantum");
}

/// While the store is asked, the next task of this process already has the key.
#[tokio::test(start_paused = true)]
async fn whoever_waits_elsewhere_waits_for_two_holds_more() {
    let store = Untold::default();
    let (here, there) = (store.manager(), store.manager());
    let busy = tokio::spawn(async move { holds(&here, 50, millis(10)).await });
    tokio::time::sleep(millis(105)).await;
    let since = Instant::now();
    drop(there.lock("k").strategy(strategy::wait()).acquire().await.unwrap());
    assert!(since.elapsed() <= millis(30), "{:?}", since.elapsed());
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

/// No caller waits for the answer. Without an answer, the key is released after 100 ms.
#[tokio::test(start_paused = true)]
async fn without_an_answer_the_process_keeps_the_key_no_longer_than_an_answer_may_take() {
    let store = Untold { is_silent: true, ..Untold::default() };
    let since = Instant::now();
    holds(&store.manager(), 13, millis(10)).await;
    // Two holds come before the question to the store, and ten after it.
    assert_eq!((store.releases(), store.questions(), since.elapsed()), (2, 1, millis(130)));
}

/// The answer that the grant is gone has the same effect as the answer that others wait.
#[tokio::test(start_paused = true)]
async fn a_grant_that_is_gone_is_handed_off_once_more_at_most() {
    let store = Untold { is_mute: true, ..Untold::default() };
    let locks = store.manager();
    let guard = handed_off(&locks).await;
    let [next, last] = [(); 2].map(|()| tokio::spawn(locks.lock("k").strategy(strategy::wait()).acquire()));
    tokio::time::sleep(millis(20)).await;
    // The last waiter checks the key from time to time. Without this mutex, it would find the key free.
    let closed = store.entrance.clone().lock_owned().await;
    let key = Key::new("k").unwrap();
    let held = store.memory.inspect(&key).await.unwrap().unwrap();
    assert!(store.memory.force_release(&key, &held.holders[0].id).await.unwrap());
    guard.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    settled().await;
    assert_eq!(next.release().await.unwrap(), Released::Expired, "the store was asked");
    drop(closed);
    assert!(last.await.unwrap().unwrap().is_held(), "a grant of its own");
}

/// Returns a lock after a hand-off, so that its quantum has begun.
async fn handed_off(locks: &LockManager) -> LockGuard {
    let first = locks.lock("k").acquire().await.unwrap();
    let second = tokio::spawn(locks.lock("k").strategy(strategy::wait()).acquire());
    tokio::time::sleep(millis(20)).await;
    first.release().await.unwrap();
    second.await.unwrap().unwrap()
}
