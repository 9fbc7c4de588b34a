//! Acquires and releases that leave in one call with those of other tasks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::acquire::{fence_ttl, has_short_form, is_plain};
use super::release::{is_short, unmarked};
use super::server::Server;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::{Outcome, Step};
use crate::backend::redis::primary::Primary;
use crate::backend::redis::units::millis;
use crate::backend::{Ask, Attempt, Claim, Grant, Held, Released};
use crate::clock::Clock;

/// The number of requests under way from which on those that can leave together do. With fewer, one write for many
/// commands does as well.
const MANY: usize = 48;

/// The number of requests in a full batch: this part of those under way, so that the server always has work.
const PART: usize = 4;
const FULL_AT_LEAST: usize = 16;
/// The server serves nobody else for some 30 us. Larger ones also make the tasks take turns less evenly.
const FULL_AT_MOST: usize = 32;

/// The number of requests for one lock each that are under way.
#[derive(Debug, Default)]
pub(crate) struct UnderWay(AtomicUsize);

/// Counts one request until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted<'a>(&'a UnderWay);

impl UnderWay {
    pub(crate) fn count(&self) -> Counted<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(self)
    }
}

impl Counted<'_> {
    /// Returns the number of requests in a full batch, or `None` where so few are under way that each is sent by
    /// itself.
    pub(crate) fn full_batch(&self) -> Option<usize> {
        let under_way = self.0.0.load(Ordering::Relaxed);
        (under_way >= MANY).then(|| (under_way / PART).clamp(FULL_AT_LEAST, FULL_AT_MOST))
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Server<Primary> {
    /// Acquires with the SET of a batch. Returns `None` where the claim has to be asked for by itself.
    pub(crate) async fn acquire_in_batch(
        &self,
        claim: &Claim,
        ask: Ask,
        full: usize,
        deadline: Duration,
    ) -> Option<Result<Attempt, Failure>> {
        if !joins(claim, ask) {
            return None;
        }
        // A grant that needs copies is confirmed by itself.
        let live = self.connections.current().filter(|live| live.session.is_none())?;
        // Before the request leaves, because the lease counts from here.
        let sent = Clock::Suspend.now();
        // From here on the request may take effect, so a dropped claim must be released.
        claim.mark_sent();
        let value = claim.record.to_value(&claim.owner.token());
        let fence = claim.fencing.then(|| millis(fence_ttl(claim.ttl)));
        let step = Step::Acquire { key: claim.key.clone(), value, lease: millis(claim.ttl), fence };
        match live.send_in_batch(step, full, deadline).await {
            Outcome::Done(fence) => {
                live.subscribe_holders(self.shared().shared_listeners());
                if fence.is_some() {
                    // From now on every renewal must keep the token remembered.
                    claim.mark_fenced();
                }
                let grant = Grant::new(sent, claim.ttl).with_fence(fence);
                Some(Ok(Attempt::Granted(grant)))
            }
            // As after a plain SET: a caller that only probes gets no more than that the key is taken.
            Outcome::Refused if ask == Ask::Probe => Some(Ok(Attempt::Held(Held::default()))),
            Outcome::Refused | Outcome::Alone => None,
            Outcome::Failed(failure) => Some(Err(failure)),
            Outcome::Late => Some(Err(self.elapsed(deadline))),
        }
    }

    /// Releases in a batch. Returns `None` where the claim has to be released by itself, perhaps because somebody waits
    /// for the lock.
    ///
    /// The release is not [marked](Claim::mark_release_ahead) as ahead of what is asked from now on: a request that is
    /// sent by itself may leave before the batch.
    pub(crate) async fn release_in_batch(
        &self,
        claim: &Claim,
        full: usize,
        deadline: Duration,
    ) -> Option<Result<Released, Failure>> {
        if !is_short(claim) {
            return None;
        }
        let live = self.connections.current()?;
        let step = Step::Release { key: claim.key.clone(), head: unmarked(&claim.owner.token()) };
        match live.send_in_batch(step, full, deadline).await {
            Outcome::Done(_) => Some(Ok(Released::Released)),
            Outcome::Refused | Outcome::Alone => {
                // For the first time. The second time, the release is ahead of nothing that was asked meanwhile.
                claim.mark_release_ahead();
                None
            }
            Outcome::Failed(failure) => Some(Err(failure)),
            Outcome::Late => Some(Err(self.elapsed(deadline))),
        }
    }
}

/// Returns whether an acquire may join: a free key is all that it hopes for.
fn joins(claim: &Claim, ask: Ask) -> bool {
    // A holder that is notified subscribes first.
    let is_short = is_plain(claim) || claim.more.is_empty() && has_short_form(claim, ask);
    is_short && !ask.enqueues() && !claim.notify_holder
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::backend::{Mode, Queue};
    use crate::key::Key;
    use crate::owner::{Identity, OwnerRecord, OwnerSource};

    #[test]
    fn only_those_who_hope_for_a_free_key_join() {
        let owner = OwnerSource::new().expect("random bytes").mint();
        let record = OwnerRecord::new(Arc::new(Identity::of_this_process("test")), None);
        let key = |key| Key::new(key).expect("a key");
        let claim = || Claim::new(key("k"), owner, Duration::from_secs(1), record.clone());
        for fencing in [false, true] {
            let claim = || Claim { fencing, ..claim() };
            assert!(joins(&claim(), Ask::Probe) && joins(&claim(), Ask::Try));
            assert!(!joins(&claim(), Ask::Enqueue { room: None }));
            let shared = Claim { mode: Mode::Shared, ..claim() };
            let fair = Claim { queue: Queue::Fifo, ..claim() };
            let several = Claim { more: [key("l")].into(), ..claim() };
            let notified = Claim { notify_holder: true, ..claim() };
            for claim in [shared, fair, several, notified] {
                assert!(!joins(&claim, Ask::Probe), "{claim:?}");
            }
            // The script makes the name of the key of the token in the simple way.
            assert_eq!(joins(&Claim { key: key("{k}l"), ..claim() }, Ask::Try), !fencing);
        }
    }
}
