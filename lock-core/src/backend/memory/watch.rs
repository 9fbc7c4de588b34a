//! Implements the future of a pending `changed` call.

use std::sync::Arc;
use std::time::Duration;

use super::multi::Locked;
use super::store::Memory;
use super::ticket::Check;
use crate::backend::Claim;
use crate::clock::Clock;
use crate::key::Key;
use crate::sync::Notify;

/// The watcher of one claim. If this value is dropped before it has seen its turn, the next waiter gets the turn.
pub(super) struct Watch<'a> {
    memory: &'a Memory,
    claim: &'a Claim,
    id: u64,
    wake: Arc<Notify>,
    /// Whether the watcher was removed from the entries.
    gone: bool,
}

impl<'a> Watch<'a> {
    /// Registers a watcher. Returns `None` if the claim need not or cannot wait.
    pub(super) fn register(memory: &'a Memory, claim: &'a Claim) -> Option<Self> {
        let now = Clock::Tokio.now();
        let (id, wake) = (memory.next_watcher(), Arc::new(Notify::new()));
        // Locks all shards together, so that the claim joins the queues of its keys at the same moment. So two such
        // claims never wait for each other.
        let mut locked = Locked::new(memory, claim, now);
        // The claim does not wait for a key that its owner already holds.
        let keys: Vec<&Key> =
            claim.keys().filter(|key| locked.entry(key).held_by(claim.owner).is_none()).collect();
        let can = !keys.is_empty() && keys.iter().all(|key| locked.entry(key).can_wait(claim, now));
        for key in keys.into_iter().filter(|_| can) {
            locked.entry(key).watch(claim, id, Arc::clone(&wake), now);
        }
        locked.finish(claim);
        can.then_some(Self { memory, claim, id, wake, gone: false })
    }

    /// Waits until the claim's turn has come. Checks the state of the keys before every wait, so that no change between
    /// the answer *held* and this call is missed.
    pub(super) async fn ready(mut self) {
        while let Some(wait) = self.check() {
            match wait {
                Some(time) => {
                    // After a wake-up and after a timeout, the next check reads the state of the key.
                    let _ = tokio::time::timeout(time, self.wake.notified()).await;
                }
                // A wake-up between the check and this wait is not lost, because `Notify` stores it.
                None => self.wake.notified().await,
            }
        }
    }

    /// Checks whether the wait is over: the turn has come at every key, or the claim must be attempted again. If so,
    /// returns `None`. Otherwise returns the time limit of the wait for a wake-up; the inner `None` means no limit.
    fn check(&mut self) -> Option<Option<Duration>> {
        let now = Clock::Tokio.now();
        let (claim, id) = (self.claim, self.id);
        let mut locked = Locked::new(self.memory, claim, now);
        let checks: Vec<_> = claim.keys().map(|key| locked.entry(key).check(claim, id, now)).collect();
        let waits: Vec<_> = checks
            .iter()
            .filter_map(|found| if let Check::Wait(armed) = found { Some(*armed) } else { None })
            .collect();
        // If the claim has lost its place at one key, it attempts to acquire all keys.
        let over = waits.is_empty() || checks.contains(&Check::Retry);
        if over {
            for key in claim.keys() {
                locked.entry(key).go(claim, id, now);
            }
            // Now a drop of the watcher does not call the next waiter, because the caller attempts the claim next.
            self.gone = true;
        }
        locked.finish(claim);
        (!over).then(|| waits.into_iter().flatten().map(|armed| armed.remaining(now)).min())
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        // `go` has already removed the watcher, and the turn is for the next attempt of the claim.
        if self.gone {
            return;
        }
        let now = Clock::Tokio.now();
        let (claim, id) = (self.claim, self.id);
        let mut locked = Locked::new(self.memory, claim, now);
        for key in claim.keys() {
            locked.entry(key).unwatch(claim, id, now);
        }
        locked.finish(claim);
    }
}
