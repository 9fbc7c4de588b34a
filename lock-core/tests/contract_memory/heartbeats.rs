//! The memory store, changed to a store whose queue entries depend on heartbeats. It serves and notifies its waiters
//! itself.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use lock_core::backend::memory::Memory;
use lock_core::backend::{
    Ask, Attempt, Backend, Capability, Claim, FencingToken, Heartbeat, LatchState, LatchStep, Listener,
    Released, Renew, Renewal, WAITER_LEASE, Waiting,
};
use lock_core::clock::{Clock, Moment};
use lock_core::key::Key;
use lock_core::owner::Owner;
use lock_core::{GrantId, Listed, LockInfo, Result, WaiterInfo};

/// The part of the contract that the store keeps. A variant's comment describes what the store breaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kept {
    All,
    /// A heartbeat of an owner without a queue entry creates one.
    AllButGone,
    /// No listener is notified of a grant from the queue.
    AllButWord,
    /// A heartbeat does not extend the short lease of a grant from the queue.
    AllButLease,
    /// A waiter that was already served keeps the key when it gives up.
    AllButLeaving,
}

#[derive(Clone, Debug)]
pub(crate) struct Beating {
    inner: Memory,
    kept: Kept,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The waiters in the order of arrival, each with the end of its queue entry.
    waiting: Vec<(Claim, Moment)>,
    /// The owners that were served from the queue, but have not received the grant yet.
    served: HashSet<Owner>,
    listeners: HashMap<u128, Weak<dyn Listener>>,
}

impl State {
    fn alive(&mut self, claim: &Claim) {
        let now = Clock::Tokio.now();
        let till = now.plus(claim.ttl.min(WAITER_LEASE));
        match self.waiting.iter_mut().find(|(waiting, _)| waiting.owner == claim.owner) {
            Some((_, alive)) => *alive = till,
            None => self.waiting.push((claim.clone(), till)),
        }
    }

    fn leave(&mut self, claim: &Claim) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(waiting, _)| waiting.owner != claim.owner);
        self.waiting.len() < before
    }
}

impl Beating {
    pub(crate) fn new(kept: Kept) -> Self {
        Self { inner: Memory::new(), kept, state: Arc::default() }
    }

    fn waits(&self, claim: &Claim) -> bool {
        let state = self.state.lock().expect("no panic");
        state.waiting.iter().any(|(waiting, _)| waiting.owner == claim.owner)
    }

    /// Serves waiters for `key` until the next one must wait.
    async fn serve(&self, key: &Key) {
        let now = Clock::Tokio.now();
        let waiting: Vec<Claim> = {
            let mut state = self.state.lock().expect("no panic");
            state.waiting.retain(|(_, till)| !till.is_past(now));
            let of_key = state.waiting.iter().filter(|(claim, _)| claim.keys().any(|other| other == key));
            of_key.map(|(claim, _)| claim.clone()).collect()
        };
        for claim in waiting {
            let mut by_place = claim.clone();
            by_place.ttl = claim.ttl.min(WAITER_LEASE);
            if let Ok(Attempt::Granted(grant)) = self.inner.acquire(&by_place, Ask::Try).await {
                let mut state = self.state.lock().expect("no panic");
                state.leave(&claim);
                state.served.insert(claim.owner);
                let listener = state.listeners.get(&claim.owner.process()).and_then(Weak::upgrade);
                drop(state);
                if let Some(listener) = listener.filter(|_| self.kept != Kept::AllButWord) {
                    listener.granted(claim.owner, grant.waiters.unwrap_or(0));
                }
            }
        }
    }
}

impl Beating {
    fn add_waiters(&self, lock: &mut LockInfo) {
        let state = self.state.lock().expect("no panic");
        let waiting = state.waiting.iter().filter(|(claim, _)| claim.key.as_str() == lock.key);
        lock.waiters =
            waiting.map(|(claim, _)| WaiterInfo::new(Some(claim.record.clone()), claim.mode)).collect();
        lock.waiting = lock.waiters.len();
    }
}

impl Backend for Beating {
    fn capability(&self) -> Capability {
        let mut can = self.inner.capability();
        can.waiting = Waiting::Queue { waiter_lease: WAITER_LEASE, tells_holder: true, confirms: false };
        can
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        let attempt = self.inner.acquire(claim, ask).await?;
        match &attempt {
            Attempt::Held(held) if ask.enqueues() && held.queued_at.is_some() => {
                self.state.lock().expect("no panic").alive(claim);
            }
            _ => {}
        }
        Ok(attempt)
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Heartbeat> {
        self.serve(&claim.key).await;
        self.state.lock().expect("no panic").served.remove(&claim.owner);
        if !self.waits(claim) {
            let ttl = if self.kept == Kept::AllButLease { claim.ttl.min(WAITER_LEASE) } else { claim.ttl };
            return Ok(match self.inner.renew(&[Renew { claim, ttl }]).await.pop() {
                Some(Renewal::Renewed { sent, lease, waiters }) => {
                    Heartbeat::Granted(lock_core::backend::Grant::new(sent, lease).with_waiters(waiters))
                }
                _ if self.kept == Kept::AllButGone => {
                    match self.acquire(claim, Ask::Enqueue { room: None }).await? {
                        Attempt::Granted(grant) => Heartbeat::Granted(grant),
                        Attempt::Held(held) => Heartbeat::Waiting(held),
                    }
                }
                _ => Heartbeat::Gone,
            });
        }
        match self.inner.acquire(claim, Ask::Try).await? {
            Attempt::Granted(grant) => {
                self.state.lock().expect("no panic").leave(claim);
                Ok(Heartbeat::Granted(grant))
            }
            Attempt::Held(held) => {
                self.state.lock().expect("no panic").alive(claim);
                Ok(Heartbeat::Waiting(held))
            }
        }
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        self.inner.renew(batch).await
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        let served = {
            let mut state = self.state.lock().expect("no panic");
            state.leave(claim);
            state.served.remove(&claim.owner)
        };
        if served && self.kept == Kept::AllButLeaving {
            return Ok(Released::Taken);
        }
        let released = self.inner.release(claim, keep_for).await?;
        for key in claim.keys() {
            self.serve(key).await;
        }
        Ok(released)
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.inner.fence(claim).await
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        let renewal = self.inner.downgrade(claim).await;
        self.serve(&claim.key).await;
        renewal
    }

    async fn latch(&self, key: &Key, step: &LatchStep) -> Result<LatchState> {
        self.inner.latch(key, step).await
    }

    async fn list(&self, prefix: &str, foreign: bool, limit: usize) -> Result<Listed> {
        let mut listed = self.inner.list(prefix, foreign, limit).await?;
        listed.locks.iter_mut().for_each(|lock| self.add_waiters(lock));
        Ok(listed)
    }

    async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>> {
        let mut found = self.inner.inspect(key).await?;
        found.iter_mut().for_each(|lock| self.add_waiters(lock));
        Ok(found)
    }

    async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool> {
        let released = self.inner.force_release(key, id).await;
        self.serve(key).await;
        released
    }

    fn attach(
        &self,
        process: u128,
        listener: Weak<dyn Listener>,
        background: Option<&tokio::runtime::Handle>,
    ) {
        self.state.lock().expect("no panic").listeners.insert(process, Weak::clone(&listener));
        self.inner.attach(process, listener, background);
    }
}
