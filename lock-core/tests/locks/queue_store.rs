//! A store with its own queue, like Redis. Queue entries depend on heartbeats, and a release serves and notifies the
//! next waiter. The store uses tokio's clock, so that a test can pause it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lock_core::backend::{
    Ask, Attempt, Backend, Capability, Claim, Fencing, FencingToken, Grant, Heartbeat, Held, Listener, Mode,
    Placement, Released, Renew, Renewal, WAITER_LEASE, Waiting,
};
use lock_core::clock::{Clock, Moment};
use lock_core::key::Key;
use lock_core::owner::Owner;
use lock_core::{LockManager, Result};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Calls {
    pub(crate) tries: usize,
    pub(crate) enqueues: usize,
    pub(crate) beats: usize,
    pub(crate) renewals: usize,
    pub(crate) releases: usize,
    pub(crate) fences: usize,
}

impl Calls {
    pub(crate) fn all(&self) -> usize {
        self.tries + self.enqueues + self.beats + self.renewals + self.releases + self.fences
    }
}

#[derive(Debug)]
struct Waiter {
    owner: Owner,
    deadline: Moment,
    lease: Duration,
}

#[derive(Debug, Default)]
struct Entry {
    holder: Option<(Owner, Moment)>,
    queue: Vec<Waiter>,
    fence: u64,
}

#[derive(Debug)]
struct State {
    entries: HashMap<Key, Entry>,
    listeners: Vec<(u128, Weak<dyn Listener>)>,
    calls: Calls,
    deaf: bool,
    release_takes: Duration,
    heartbeat_takes: Duration,
    start: Moment,
}

/// The store. All clones share one state.
#[derive(Clone, Debug)]
pub(crate) struct QueueStore(Arc<Mutex<State>>);

fn now() -> Moment {
    Clock::Tokio.now()
}

fn later(one: Moment, other: Moment) -> Moment {
    if other.remaining(now()) > one.remaining(now()) { other } else { one }
}

/// A notification, which is sent after the state is unlocked.
enum Told {
    Granted(Owner, usize),
    Contended(Owner, Key),
}

impl Entry {
    fn expire(&mut self) {
        if self.holder.is_some_and(|(_, until)| until.is_past(now())) {
            self.holder = None;
        }
    }

    fn serve(&mut self, told: &mut Vec<Told>) {
        self.expire();
        while self.holder.is_none() && !self.queue.is_empty() {
            let next = self.queue.remove(0);
            if !next.deadline.is_past(now()) {
                self.holder = Some((next.owner, now().plus(next.lease)));
                told.push(Told::Granted(next.owner, self.queue.len()));
            }
        }
    }

    fn held(&self, claim: &Claim) -> Held {
        let (holder, until) = self.holder.expect("it is held");
        let position = self.queue.iter().position(|waiting| waiting.owner == claim.owner);
        Held {
            remaining: Some(until.remaining(now())),
            waiters: Some(self.queue.len() - usize::from(position.is_some())),
            position,
            own: holder.may_hand_off_to(&claim.owner),
            ..Held::default()
        }
    }
}

impl Default for QueueStore {
    fn default() -> Self {
        let (entries, listeners) = (HashMap::new(), Vec::new());
        let state = State {
            entries,
            listeners,
            calls: Calls::default(),
            deaf: false,
            release_takes: Duration::ZERO,
            heartbeat_takes: Duration::ZERO,
            start: now(),
        };
        Self(Arc::new(Mutex::new(state)))
    }
}

impl QueueStore {
    pub(crate) fn manager(&self) -> LockManager {
        LockManager::builder(self.clone()).build().unwrap()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn calls(&self) -> Calls {
        self.state().calls
    }

    /// Sets whether all notifications of the store are lost.
    pub(crate) fn deaf(&self, deaf: bool) {
        self.state().deaf = deaf;
    }

    /// Sets how long a release takes to arrive.
    pub(crate) fn release_takes(&self, time: Duration) {
        self.state().release_takes = time;
    }

    /// Sets how long a heartbeat takes to arrive.
    pub(crate) fn heartbeat_takes(&self, time: Duration) {
        self.state().heartbeat_takes = time;
    }

    /// Returns the remaining time of the lease of `key`.
    pub(crate) fn remaining(&self, key: &str) -> Duration {
        let state = self.state();
        let holder =
            state.entries.iter().find(|(of, _)| of.as_str() == key).and_then(|(_, entry)| entry.holder);
        holder.map_or(Duration::ZERO, |(_, until)| until.remaining(now()))
    }

    /// Returns whether the store has neither a holder nor a waiter.
    pub(crate) fn is_empty(&self) -> bool {
        let mut state = self.state();
        state.entries.values_mut().all(|entry| {
            entry.expire();
            entry.holder.is_none() && entry.queue.is_empty()
        })
    }

    pub(crate) fn queued(&self) -> usize {
        self.state().entries.values().map(|entry| entry.queue.len()).sum()
    }

    fn change<T>(&self, key: &Key, change: impl FnOnce(&mut Entry, &mut Vec<Told>) -> T) -> T {
        let (mut told, mut listeners) = (Vec::new(), Vec::new());
        let answer = {
            let mut state = self.state();
            let entry = state.entries.entry(key.clone()).or_default();
            entry.expire();
            let answer = change(entry, &mut told);
            if !state.deaf {
                listeners.clone_from(&state.listeners);
            }
            answer
        };
        for word in &told {
            let (Told::Granted(owner, _) | Told::Contended(owner, _)) = word;
            for (process, listener) in &listeners {
                let Some(listener) = listener.upgrade().filter(|_| *process == owner.process()) else {
                    continue;
                };
                match word {
                    Told::Granted(owner, waiters) => listener.granted(*owner, *waiters),
                    Told::Contended(_, key) => listener.contended(key.as_str()),
                }
            }
        }
        answer
    }

    fn ask(&self, claim: &Claim, queues: bool) -> Attempt {
        let sent = now();
        self.change(&claim.key, |entry, told| {
            entry.serve(told);
            match entry.holder {
                Some((owner, until)) if owner == claim.owner => {
                    entry.holder = Some((owner, later(until, now().plus(claim.ttl))));
                    return Attempt::Granted(
                        Grant::new(sent, claim.ttl).with_waiters(Some(entry.queue.len())),
                    );
                }
                Some((holder, _)) => {
                    let own = holder.may_hand_off_to(&claim.owner);
                    if !queues || own {
                        return Attempt::Held(entry.held(claim));
                    }
                    if entry.queue.is_empty() {
                        told.push(Told::Contended(holder, claim.key.clone()));
                    }
                    let (deadline, lease) =
                        (now().plus(claim.ttl.min(WAITER_LEASE)), claim.ttl.min(WAITER_LEASE));
                    entry.queue.push(Waiter { owner: claim.owner, deadline, lease });
                    return Attempt::Held(Held { queued_at: Some(sent), ..entry.held(claim) });
                }
                None => {}
            }
            entry.holder = Some((claim.owner, now().plus(claim.ttl)));
            Attempt::Granted(Grant::new(sent, claim.ttl).with_waiters(Some(entry.queue.len())))
        })
    }
}

impl Backend for QueueStore {
    fn capability(&self) -> Capability {
        let mut store = Capability::exclusive("queue");
        assert_eq!(store.min_ttl, Duration::from_millis(10));
        store.waiting = Waiting::Queue { waiter_lease: WAITER_LEASE, tells_holder: true, confirms: false };
        store.fencing = Fencing::StoreTime;
        store.placement = Placement::Embedded;
        store.lists = true;
        store
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        assert_eq!(claim.mode, Mode::Exclusive);
        match ask {
            Ask::Probe | Ask::Try => self.state().calls.tries += 1,
            Ask::Enqueue { .. } => self.state().calls.enqueues += 1,
        }
        tokio::task::yield_now().await;
        Ok(self.ask(claim, ask.enqueues()))
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Heartbeat> {
        self.state().calls.beats += 1;
        let (store, claim, takes) = (self.clone(), claim.clone(), self.state().heartbeat_takes);
        // A request that was sent arrives, even if its future is dropped.
        let sent = tokio::spawn(async move {
            let sent = now();
            tokio::time::sleep(takes).await;
            store.sign(&claim, sent)
        });
        Ok(sent.await.unwrap())
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        let sent = now();
        let one = |renew: &Renew<'_>| {
            self.state().calls.renewals += 1;
            self.change(&renew.claim.key, |entry, _| match &mut entry.holder {
                Some((owner, until)) if *owner == renew.claim.owner => {
                    *until = later(*until, now().plus(renew.ttl));
                    Renewal::Renewed { sent, lease: renew.ttl, waiters: Some(entry.queue.len()) }
                }
                _ => Renewal::NotOwned,
            })
        };
        batch.iter().map(one).collect()
    }

    async fn release(&self, claim: &Claim, _keep_for: Option<Duration>) -> Result<Released> {
        self.state().calls.releases += 1;
        let (store, claim, takes) = (self.clone(), claim.clone(), self.state().release_takes);
        // A request that was sent arrives, even if its future is dropped.
        let sent = tokio::spawn(async move {
            tokio::time::sleep(takes).await;
            store.free(&claim)
        });
        Ok(sent.await.unwrap())
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.state().calls.fences += 1;
        let micros = 1 + u64::try_from(now().since(self.state().start).as_micros()).unwrap_or(0);
        Ok(self.change(&claim.key, |entry, _| {
            let own = claim.own_fence().map_or(0, FencingToken::get);
            entry.fence = micros.max(entry.fence + 1).max(own + 1);
            FencingToken::new(entry.fence)
        }))
    }

    fn attach(
        &self,
        process: u128,
        listener: Weak<dyn Listener>,
        _background: Option<&tokio::runtime::Handle>,
    ) {
        self.state().listeners.push((process, listener));
    }
}

impl QueueStore {
    fn sign(&self, claim: &Claim, sent: Moment) -> Heartbeat {
        self.change(&claim.key, |entry, told| {
            if let Some((owner, until)) = &mut entry.holder
                && *owner == claim.owner
            {
                *until = later(*until, now().plus(claim.ttl));
                return Heartbeat::Granted(Grant::new(sent, claim.ttl).with_waiters(Some(entry.queue.len())));
            }
            let Some(place) = entry.queue.iter_mut().find(|waiting| waiting.owner == claim.owner) else {
                return Heartbeat::Gone;
            };
            (place.deadline, place.lease) =
                (now().plus(claim.ttl.min(WAITER_LEASE)), claim.ttl.min(WAITER_LEASE));
            entry.serve(told);
            match entry.holder {
                Some((owner, _)) if owner == claim.owner => {
                    Heartbeat::Granted(Grant::new(sent, claim.ttl.min(WAITER_LEASE)))
                }
                _ => Heartbeat::Waiting(Held { queued_at: Some(sent), ..entry.held(claim) }),
            }
        })
    }

    fn free(&self, claim: &Claim) -> Released {
        self.change(&claim.key, |entry, told| {
            let before = entry.queue.len();
            entry.queue.retain(|waiting| waiting.owner != claim.owner);
            entry.fence = entry.fence.max(claim.own_fence().map_or(0, FencingToken::get));
            match entry.holder {
                Some((owner, _)) if owner == claim.owner => {
                    entry.holder = None;
                    entry.serve(told);
                    Released::Released
                }
                _ if entry.queue.len() < before => Released::Released,
                Some(_) => Released::Taken,
                None => Released::Expired,
            }
        })
    }
}
