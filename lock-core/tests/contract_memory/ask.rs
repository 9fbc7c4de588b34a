//! Calls of `acquire` with planted bugs.

use std::time::Duration;

use lock_core::Result;
use lock_core::backend::{Ask, Attempt, Backend, Claim, FencingToken, Held, Mode, Queue};

use super::{Broken, Fault, first_of, now};

impl Broken {
    pub(super) fn waiting(&self) -> Vec<Claim> {
        self.state.lock().expect("no panic").waiting.clone()
    }

    pub(super) async fn ask(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        self.supports(claim)?;
        let claim = self.read(claim);
        let mine = self.holder(&claim).is_some_and(|holder| holder.owner == claim.owner);
        match self.fault {
            Fault::NotIdempotent if mine => return Ok(Attempt::Held(Held::default())),
            Fault::AcquireShortens if mine => {
                let _ = self.reset(&claim, claim.ttl);
            }
            Fault::DroppedTryTakes => {
                // Another owner has the key until the request is answered. If the request is dropped, that owner keeps
                // the key.
                let mut early = claim.clone();
                early.owner = lock_core::testkit::Claims::new()?.owner();
                let taken = self.inner.acquire(&early, Ask::Try).await?;
                tokio::task::yield_now().await;
                if let Attempt::Granted(_) = taken {
                    let _ = self.inner.release(&early, None).await;
                }
            }
            Fault::TwoHolders if self.count().is_multiple_of(5) => {
                if let Some(holder) = self.holder(&claim) {
                    let _ = self.inner.release(&holder, None).await;
                }
            }
            Fault::Upgrades if claim.mode == Mode::Exclusive => {
                let mut reader = claim.clone();
                reader.mode = Mode::Shared;
                if mine && self.holder(&claim).is_some_and(|holder| holder.mode == Mode::Shared) {
                    return self.inner.acquire(&reader, Ask::Try).await;
                }
            }
            Fault::SeveralOvertake if !claim.more.is_empty() => {
                for waiting in self.waiting() {
                    let _ = self.inner.release(&waiting, None).await;
                }
            }
            Fault::NobodyDies => {
                for waiting in self.waiting().iter().filter(|waiting| waiting.key == claim.key) {
                    let _ = self.inner.acquire(waiting, Ask::Enqueue { room: None }).await?;
                }
            }
            _ => {}
        }
        let mut attempt = self.ask_inner(&claim, ask).await?;
        if let Attempt::Held(held) = &mut attempt {
            self.misreport(&claim, held);
        }
        if let Attempt::Granted(grant) = &mut attempt {
            if self.fault == Fault::SentLate {
                grant.sent = grant.sent.plus(grant.lease);
            }
            let falls = FencingToken::new(u64::MAX / 2 - self.count());
            if self.fault == Fault::TokensFall || self.fault == Fault::AnotherToken && mine {
                grant.fence = Some(falls);
            }
            if matches!(self.fault, Fault::NeverRunsOut | Fault::RunsOutEarly) {
                grant.lease = if self.fault == Fault::NeverRunsOut {
                    claim.ttl / 1_000
                } else {
                    claim.ttl.div_f64(0.9)
                };
            }
            self.state.lock().expect("no panic").holders.insert(claim.key.as_str().to_owned(), claim);
        }
        Ok(attempt)
    }

    async fn ask_inner(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        let barges = claim.queue == Queue::Barging;
        let behind_readers = || self.holder(claim).is_some_and(|holder| holder.mode == Mode::Shared);
        match self.fault {
            Fault::BlamesFirstOfSeveral => {
                self.inner.acquire(claim, ask).await.map_err(|error| error.with_key(&claim.key))
            }
            _ if !ask.enqueues() => self.inner.acquire(claim, ask).await,
            Fault::NobodyHasPlace => self.inner.acquire(claim, Ask::Try).await,
            Fault::NoPlaceForBarging if barges => self.inner.acquire(claim, Ask::Try).await,
            Fault::NoPlaceForWriters if claim.mode == Mode::Exclusive && behind_readers() => {
                let mut attempt = self.inner.acquire(claim, Ask::Try).await?;
                if let Attempt::Held(held) = &mut attempt {
                    (held.position, held.queued_at) =
                        (Some(0), Some(self.capability().placement.clock().now()));
                }
                Ok(attempt)
            }
            Fault::PlaceBesideOwn => {
                let mut fifo = claim.clone();
                fifo.queue = Queue::Fifo;
                self.inner.acquire(&fifo, ask).await
            }
            Fault::AnyRoom => self.inner.acquire(claim, Ask::Enqueue { room: None }).await,
            Fault::DroppedPlaceStays => {
                let mut early = claim.clone();
                early.owner = lock_core::testkit::Claims::new()?.owner();
                let _ = self.inner.acquire(&early, ask).await?;
                tokio::task::yield_now().await;
                let _ = self.inner.release(&early, None).await;
                self.inner.acquire(claim, ask).await
            }
            Fault::DiesTooSoon => {
                let attempt = self.inner.acquire(claim, ask).await?;
                if let Attempt::Held(_) = attempt {
                    let _ = self.inner.release(claim, None).await;
                }
                Ok(attempt)
            }
            _ => self.inner.acquire(claim, ask).await,
        }
    }

    fn misreport(&self, claim: &Claim, held: &mut Held) {
        let mut state = self.state.lock().expect("no panic");
        if held.queued_at.is_some() && !state.waiting.iter().any(|waiting| waiting.owner == claim.owner) {
            state.waiting.push(claim.clone());
        }
        match self.fault {
            Fault::WrongPositions => held.position = held.position.map(|position| position + 1),
            Fault::NamesFirstOfSeveral => held.key = held.key.as_ref().map(|_| claim.key.clone()),
            Fault::KeptLooksHeld => held.kept = false,
            Fault::PlacesUndated => {
                held.queued_at =
                    held.queued_at.map(|_| lock_core::clock::Clock::Suspend.now().plus(Duration::MAX));
            }
            Fault::TellsOfEverybody => {
                let holder = state.holders.get(claim.key.as_str()).map(|holder| holder.owner.process());
                let listener = holder.and_then(|process| state.listeners.get(&process)?.upgrade());
                drop(state);
                if let Some(listener) = listener {
                    listener.contended(claim.key.as_str());
                }
            }
            Fault::LeavesPart if !claim.more.is_empty() => {
                let _ = now(self.inner.acquire(&first_of(claim), Ask::Try));
            }
            _ => {}
        }
    }
}
