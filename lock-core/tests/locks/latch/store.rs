//! A store whose latches fail and hang as scripted. A memory store answers all other steps.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lock_core::backend::memory::Memory;
use lock_core::backend::{
    Ask, Attempt, Backend, Capability, Claim, FencingToken, LatchState, LatchStep, Listener, Released, Renew,
    Renewal,
};
use lock_core::key::Key;
use lock_core::owner::Owner;
use lock_core::{CountDownLatch, LockError, LockErrorKind, LockManager, Result};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::millis;

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// The step is executed, and its answer is lost.
    Answer,
    /// The step is refused permanently.
    Refused,
    /// The step is executed, and answered 100 ms later.
    Late,
    /// The step hangs before it is executed.
    Before,
    /// The step hangs after it is executed.
    After,
    /// The step hangs until the store is closed, and is then refused permanently.
    Closed,
}

#[derive(Debug, Default)]
pub(super) struct State {
    asked: Vec<(Instant, LatchStep)>,
    faults: VecDeque<Fault>,
    /// If true, every step fails, and none is executed.
    pub(super) down: bool,
    /// If true, no waiter is notified when a latch opens.
    silent: bool,
    pub(super) listeners: Vec<Weak<dyn Listener>>,
    closed: Arc<Notify>,
}

/// The scripted store. All clones share one state.
#[derive(Clone, Debug)]
pub(super) struct Store {
    state: Arc<Mutex<State>>,
    store: Memory,
    pub(super) capability: Capability,
}

fn no_answer() -> LockError {
    LockError::new(LockErrorKind::Unavailable, "no answer")
}

impl Store {
    pub(super) fn new() -> Self {
        let store = Memory::new();
        let mut capability = store.capability();
        capability.min_ttl = millis(10);
        capability.max_ttl = millis(24 * 60 * 60 * 1_000);
        Self { state: Arc::default(), store, capability }
    }

    /// Returns a store that sends no notification when a latch opens.
    pub(super) fn silent() -> Self {
        let store = Self::new();
        store.state().silent = true;
        store
    }

    /// Returns a new manager, which acts as another process.
    pub(super) fn manager(&self) -> LockManager {
        LockManager::builder(self.clone()).build().unwrap()
    }

    pub(super) fn latch(&self, ttl: Duration) -> CountDownLatch {
        self.manager().latch("l").ttl(ttl)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn fails(&self, fault: Fault) {
        self.state().faults.push_back(fault);
    }

    /// Makes every step fail from now on, for `lasts`.
    pub(super) fn outage(&self, lasts: Duration) {
        self.state().down = true;
        let store = self.clone();
        tokio::spawn(async move {
            sleep(lasts).await;
            store.state().down = false;
        });
    }

    pub(super) fn asked(&self) -> usize {
        self.state().asked.len()
    }

    /// Returns the times of the steps, in milliseconds since `start`.
    pub(super) fn times(&self, start: Instant) -> Vec<u128> {
        self.state().asked.iter().map(|(at, _)| (*at - start).as_millis()).collect()
    }

    /// Returns the owners of the sets and count-downs in order, including retries.
    pub(super) fn owners(&self) -> Vec<Owner> {
        let owner = |step: &LatchStep| match *step {
            LatchStep::Set { owner, .. } | LatchStep::CountDown { owner, .. } => Some(owner),
            _ => None,
        };
        self.state().asked.iter().filter_map(|(_, step)| owner(step)).collect()
    }
}

impl Backend for Store {
    fn capability(&self) -> Capability {
        self.capability
    }

    async fn latch(&self, key: &Key, step: &LatchStep) -> Result<LatchState> {
        let fault = {
            let mut state = self.state();
            state.asked.push((Instant::now(), step.clone()));
            if state.down {
                return Err(no_answer());
            }
            state.faults.pop_front()
        };
        match fault {
            None => return self.store.latch(key, step).await,
            Some(Fault::Refused) => return Err(no_answer().permanent()),
            Some(Fault::Closed) => {
                let closed = Arc::clone(&self.state().closed);
                closed.notified().await;
                return Err(no_answer().permanent());
            }
            Some(Fault::Before) => pending().await,
            Some(Fault::Late) => {
                let answer = self.store.latch(key, step).await;
                sleep(millis(100)).await;
                return answer;
            }
            Some(Fault::Answer | Fault::After) => {}
        }
        let _ = self.store.latch(key, step).await;
        if let Some(Fault::After) = fault {
            pending::<()>().await;
        }
        Err(no_answer())
    }

    fn attach(
        &self,
        process: u128,
        listener: Weak<dyn Listener>,
        background: Option<&tokio::runtime::Handle>,
    ) {
        let mut state = self.state();
        if !state.silent {
            self.store.attach(process, Weak::clone(&listener), background);
        }
        state.listeners.push(listener);
    }

    async fn close(&self) {
        self.state().closed.notify_waiters();
    }

    async fn acquire(&self, claim: &Claim, _ask: Ask) -> Result<Attempt> {
        self.store.acquire(claim, Ask::Try).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        self.store.renew(batch).await
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.store.release(claim, keep_for).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.store.fence(claim).await
    }
}
