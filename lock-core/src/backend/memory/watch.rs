//! A pending `changed` future.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::line::Look;
use super::several::Locked;
use super::signal::Bell;
use super::state::Entry;
use super::store::Memory;
use crate::backend::Claim;
use crate::clock::{Clock, Moment};
use crate::key::Key;

/// A watcher of one claim. Dropped before its turn is seen, it passes the turn on.
pub(super) struct Watch<'a> {
    memory: &'a Memory,
    claim: &'a Claim,
    id: u64,
    bell: Bell,
    /// It has left the entries.
    gone: bool,
}

impl<'a> Watch<'a> {
    /// `None` when there is nothing to wait for.
    pub(super) fn register(memory: &'a Memory, claim: &'a Claim) -> Option<Self> {
        let now = Clock::Tokio.now();
        let (id, bell) = (memory.next_watcher(), Arc::new(Notify::new()));
        let added = if claim.more.is_empty() {
            let add = |entry: &mut Entry| {
                let can = entry.can_wait(claim, now);
                if can {
                    entry.watch(claim, id, Arc::clone(&bell), now);
                }
                can
            };
            memory.with(&claim.key, now, add).unwrap_or(false)
        } else {
            let mut locked = Locked::new(memory, claim, now);
            // A key that it has already is none to wait for.
            let keys: Vec<&Key> =
                claim.keys().filter(|key| locked.entry(key).held_by(claim.owner).is_none()).collect();
            let can = !keys.is_empty() && keys.iter().all(|key| locked.entry(key).can_wait(claim, now));
            for key in keys.into_iter().filter(|_| can) {
                locked.entry(key).watch(claim, id, Arc::clone(&bell), now);
            }
            locked.finish(claim);
            can
        };
        added.then_some(Self { memory, claim, id, bell, gone: false })
    }

    /// Completes when it is the claim's turn. What decides is the state of the keys, looked at before every wait, so no
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
        let (claim, id) = (self.claim, self.id);
        let look = if claim.more.is_empty() {
            let look = |entry: &mut Entry| {
                let look = entry.look(claim, id, now);
                if !matches!(look, Look::Wait(_)) {
                    entry.go(claim, id, now);
                }
                look
            };
            self.memory.with(&claim.key, now, look).unwrap_or(Look::Go)
        } else {
            look_at_all(self.memory, claim, id, now)
        };
        match look {
            Look::Wait(armed) => Some(armed.map(|moment| moment.remaining(now))),
            Look::Go | Look::Turn => {
                self.gone = true;
                None
            }
        }
    }
}

/// It is the turn of a claim of several keys when it is its turn at each.
fn look_at_all(memory: &Memory, claim: &Claim, id: u64, now: Moment) -> Look {
    let mut locked = Locked::new(memory, claim, now);
    let looks: Vec<_> = claim.keys().map(|key| locked.entry(key).look(claim, id, now)).collect();
    let waits =
        looks.iter().filter_map(|look| if let Look::Wait(armed) = look { Some(*armed) } else { None });
    let look = match (looks.contains(&Look::Go), waits.clone().next()) {
        (true, _) | (false, None) => {
            for key in claim.keys() {
                locked.entry(key).go(claim, id, now);
            }
            Look::Go
        }
        (false, Some(_)) => Look::Wait(waits.flatten().min_by_key(|armed| armed.remaining(now))),
    };
    locked.finish(claim);
    look
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        let now = Clock::Tokio.now();
        let (claim, id) = (self.claim, self.id);
        if claim.more.is_empty() {
            self.memory.with(&claim.key, now, |entry| entry.unwatch(claim, id, now));
        } else {
            let mut locked = Locked::new(self.memory, claim, now);
            for key in claim.keys() {
                locked.entry(key).unwatch(claim, id, now);
            }
            locked.finish(claim);
        }
    }
}
