//! A store behind a simulated connection, the wire. Requests wait on the wire in order until the test delivers or loses
//! them. A memory store executes the delivered requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::backend::memory::Memory;
use lock_core::backend::{
    Ask, Attempt, Backend, Capability, Claim, Grant, Held, Placement, Released, Renew, Renewal,
};
use lock_core::{LockManager, Result};
use tokio::sync::{Notify, oneshot};

use crate::scripted::no_answer;

/// The kind of a message on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Acquire,
    Release,
}

#[derive(Debug)]
enum Request {
    Acquire(Claim, Ask, oneshot::Sender<Result<Attempt>>),
    Release(Claim, Option<Duration>, oneshot::Sender<Verdict>),
}

#[derive(Debug)]
enum Verdict {
    Done(Result<Released>),
    /// The server did nothing, and the release must be sent again.
    SendAgain,
}

#[derive(Debug, Default)]
struct State {
    wire: VecDeque<Request>,
    /// The number of requests that were put on the wire.
    sent: usize,
    /// The number of further releases that the server sends back without executing them.
    sends_back: usize,
}

/// The backend. All clones share the wire and the store.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    store: Memory,
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    /// The capacity of the wire. Further requests wait for room.
    room: usize,
    placement: Placement,
}

impl Wire {
    /// Returns a manager and its store.
    pub(crate) fn manager(room: usize) -> (LockManager, Self) {
        Self::placed(room, Placement::Embedded)
    }

    pub(crate) fn placed(room: usize, placement: Placement) -> (LockManager, Self) {
        let (state, changed) = (Arc::default(), Arc::default());
        let wire = Self { store: Memory::new(), state, changed, room, placement };
        (LockManager::builder(wire.clone()).build().expect("it is sound"), wire)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the kinds of the messages on the wire, the oldest first.
    pub(crate) fn on_wire(&self) -> Vec<Sent> {
        let kind = |request: &Request| match request {
            Request::Acquire(..) => Sent::Acquire,
            Request::Release(..) => Sent::Release,
        };
        self.state().wire.iter().map(kind).collect()
    }

    /// Returns how many requests were put on the wire so far.
    pub(crate) fn sent(&self) -> usize {
        self.state().sent
    }

    /// Makes the server send back the next `times` releases without executing them. They are then sent again.
    pub(crate) fn send_back(&self, times: usize) {
        self.state().sends_back = times;
    }

    /// Waits until the wire contains exactly the messages `on_wire`.
    pub(crate) async fn until(&self, on_wire: &[Sent]) {
        for _ in 0..20_000 {
            if self.on_wire() == on_wire {
                return;
            }
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        panic!("waited in vain for {on_wire:?} on the wire: {:?}", self.on_wire());
    }

    /// Executes and answers the oldest request. Returns `false` if there is no request.
    pub(crate) async fn deliver(&self) -> bool {
        let (request, sends_back) = {
            let mut state = self.state();
            let request = state.wire.pop_front();
            let sends_back = matches!(request, Some(Request::Release(..))) && state.sends_back > 0;
            state.sends_back -= usize::from(sends_back);
            (request, sends_back)
        };
        self.changed.notify_waiters();
        match request {
            None => return false,
            Some(Request::Release(_, _, answer)) if sends_back => drop(answer.send(Verdict::SendAgain)),
            Some(Request::Release(claim, keep, answer)) => {
                let _ = answer.send(Verdict::Done(self.store.release(&claim, keep).await));
            }
            Some(Request::Acquire(claim, ask, answer)) => {
                let told = self.store.acquire(&claim, ask).await;
                let _ = answer.send(told.map(|attempt| self.by_own_clock(attempt)));
            }
        }
        true
    }

    /// Returns the attempt with the time of the placement's clock, because the inner store uses tokio's clock.
    fn by_own_clock(&self, attempt: Attempt) -> Attempt {
        let now = self.placement.clock().now();
        match attempt {
            Attempt::Granted(grant) => Attempt::Granted(Grant { sent: now, ..grant }),
            Attempt::Held(held) => Attempt::Held(Held { queued_at: held.queued_at.map(|_| now), ..held }),
        }
    }

    /// Loses all messages on the wire, so no caller gets an answer. The oldest `executed` requests are executed before
    /// that.
    pub(crate) async fn cut(&self, executed: usize) {
        let lost = std::mem::take(&mut self.state().wire);
        for request in lost.into_iter().take(executed) {
            match request {
                Request::Release(claim, keep, _) => drop(self.store.release(&claim, keep).await),
                Request::Acquire(claim, ask, _) => drop(self.store.acquire(&claim, ask).await),
            }
        }
        self.changed.notify_waiters();
    }

    async fn put(&self, request: Request) {
        let mut request = Some(request);
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = self.state();
                if state.wire.len() < self.room {
                    state.wire.extend(request.take());
                    state.sent += 1;
                    return;
                }
            }
            changed.await;
        }
    }
}

impl Backend for Wire {
    fn capability(&self) -> Capability {
        let mut capability = self.store.capability();
        capability.placement = self.placement;
        capability
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        let (answer, answered) = oneshot::channel();
        self.put(Request::Acquire(claim.clone(), ask, answer)).await;
        answered.await.unwrap_or_else(|_| Err(no_answer()))
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        self.store.renew(batch).await
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        loop {
            let (answer, answered) = oneshot::channel();
            self.put(Request::Release(claim.clone(), keep_for, answer)).await;
            match answered.await {
                Ok(Verdict::Done(answer)) => return answer,
                Ok(Verdict::SendAgain) => {}
                Err(_) => return Err(no_answer()),
            }
        }
    }

    async fn changed(&self, claim: &Claim) {
        self.store.changed(claim).await;
    }
}
