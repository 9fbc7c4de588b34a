//! A pending `changed` future.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::state::{Bell, Look};
use super::store::Memory;
use crate::backend::Claim;
use crate::clock::Clock;

/// A watcher of one claim. Dropped before its turn is seen, it passes the turn on.
pub(super) struct Watch<'a> {
    memory: &'a Memory,
    claim: &'a Claim,
    id: u64,
    bell: Bell,
    /// It has left the entry.
    gone: bool,
}

impl<'a> Watch<'a> {
    /// `None` when there is nothing to wait for.
    pub(super) fn register(memory: &'a Memory, claim: &'a Claim) -> Option<Self> {
        let now = Clock::Tokio.now();
        let (id, bell) = (memory.next_watcher(), Arc::new(Notify::new()));
        let added = memory
            .with(&claim.key, now, |entry| entry.watch(claim, id, Arc::clone(&bell), now))
            .unwrap_or(false);
        added.then_some(Self { memory, claim, id, bell, gone: false })
    }

    /// Completes when it is the claim's turn. What decides is the state of the key, looked at before every wait, so no
    /// change between the *held* answer and this call is missed.
    pub(super) async fn turn(mut self) {
        while let Some(wait) = self.look() {
            match wait {
                Some(time) => {
                    // Rung or run out, the next look says what came of it.
                    let _ = tokio::time::timeout(time, self.bell.notified()).await;
                }
                None => self.bell.notified().await,
            }
        }
    }

    /// How long to wait for the bell at most; `None` when there is nothing more to wait for.
    fn look(&mut self) -> Option<Option<Duration>> {
        let now = Clock::Tokio.now();
        let look = self.memory.with(&self.claim.key, now, |entry| entry.look(self.claim, self.id, now));
        match look {
            Some(Look::Wait(armed)) => Some(armed.map(|moment| moment.remaining(now))),
            Some(Look::Go) | None => {
                self.gone = true;
                None
            }
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !self.gone {
            let now = Clock::Tokio.now();
            self.memory.with(&self.claim.key, now, |entry| entry.unwatch(self.claim, self.id, now));
        }
    }
}
