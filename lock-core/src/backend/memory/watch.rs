//! Implements the future of a pending `changed` call.

use std::sync::Arc;
use std::time::Duration;

use super::entry::Entry;
use super::multi::Locked;
use super::store::Memory;
use super::ticket::Check;
use crate::backend::Claim;
use crate::clock::{Clock, Moment};
use crate::key::Key;
use crate::sync::Notify;

/// The watcher of one claim. If this value is dropped before it has seen its turn, it passes the turn on.
pub(super) struct Watch<'a> {
    memory: &'a Memory,
    claim: &'a Claim,
    id: u64,
    wake: Arc<Notify>,
    /// Whether the watcher was removed from the entries.
    gone: bool,
}

impl<'a> Watch<'a> {
    /// Registers a watcher. Returns `None` if there is nothing to wait for.
    pub(super) fn register(memory: &'a Memory, claim: &'a Claim) -> Option<Self> {
        let now = Clock::Tokio.now();
        let (id, wake) = (memory.next_watcher(), Arc::new(Notify::new()));
        let added = if claim.more.is_empty() {
            let add = |entry: &mut Entry| {
                let can = entry.can_wait(claim, now);
                if can {
                    entry.watch(claim, id, Arc::clone(&wake), now);
                }
                can
            };
            memory.with(&claim.key, now, add).unwrap_or(false)
        } else {
            // All shards are locked together, so that the claim joins the queues of its keys at the same moment. So two
            // such claims never wait for each other.
            let mut locked = Locked::new(memory, claim, now);
            // The claim does not wait for a key that it already has.
            let keys: Vec<&Key> =
                claim.keys().filter(|key| locked.entry(key).held_by(claim.owner).is_none()).collect();
            let can = !keys.is_empty() && keys.iter().all(|key| locked.entry(key).can_wait(claim, now));
            for key in keys.into_iter().filter(|_| can) {
                locked.entry(key).watch(claim, id, Arc::clone(&wake), now);
            }
            locked.finish(claim);
            can
        };
        added.then_some(Self { memory, claim, id, wake, gone: false })
    }

    /// Completes when the claim's turn has come. The state of the keys is checked before every wait. So no change
    /// between the answer *held* and this call is missed.
    pub(super) async fn ready(mut self) {
        while let Some(wait) = self.check() {
            match wait {
                Some(time) => {
                    // After a wake-up or a time-out, the next check finds out which it was.
                    let _ = tokio::time::timeout(time, self.wake.notified()).await;
                }
                // `Notify` keeps a wake-up that arrived after the check.
                None => self.wake.notified().await,
            }
        }
    }

    /// Returns for how long to wait for a wake-up; the inner `None` has no limit. The outer `None` ends the wait.
    fn check(&mut self) -> Option<Option<Duration>> {
        let now = Clock::Tokio.now();
        let (claim, id) = (self.claim, self.id);
        let found = if claim.more.is_empty() {
            let found = |entry: &mut Entry| {
                let found = entry.check(claim, id, now);
                if !matches!(found, Check::Wait(_)) {
                    entry.go(claim, id, now);
                }
                found
            };
            // Without an entry the key is free and the ticket has expired, so the claim is attempted again.
            self.memory.with(&claim.key, now, found).unwrap_or(Check::Retry)
        } else {
            check_all(self.memory, claim, id, now)
        };
        match found {
            Check::Wait(armed) => Some(armed.map(|moment| moment.remaining(now))),
            Check::Retry | Check::Ready => {
                // After this, dropping the watcher does not pass the turn on, because the caller attempts the claim
                // next.
                self.gone = true;
                None
            }
        }
    }
}

/// Checks a claim of several keys. Its turn has come when it has come at every key.
fn check_all(memory: &Memory, claim: &Claim, id: u64, now: Moment) -> Check {
    let mut locked = Locked::new(memory, claim, now);
    let checks: Vec<_> = claim.keys().map(|key| locked.entry(key).check(claim, id, now)).collect();
    let waits =
        checks.iter().filter_map(|found| if let Check::Wait(armed) = found { Some(*armed) } else { None });
    let found = match (checks.contains(&Check::Retry), waits.clone().next()) {
        // The claim's turn has come at every key, or it has lost its place at one key. In both cases it attempts to
        // acquire all keys.
        (true, _) | (false, None) => {
            for key in claim.keys() {
                locked.entry(key).go(claim, id, now);
            }
            Check::Retry
        }
        (false, Some(_)) => Check::Wait(waits.flatten().min_by_key(|armed| armed.remaining(now))),
    };
    locked.finish(claim);
    found
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        // `go` has already removed the watcher, and the next attempt of the claim uses the turn.
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
