//! Withdraws a request that was not sent yet, if its caller no longer waits.

use tokio::sync::oneshot;

use super::answer::Answer;
use super::stuck::Entry;
use super::unsent::{Asked, RequestKind};
use crate::backend::Claim;
use crate::backend::postgres::error::Failure;

/// The place of a request among the requests for its key, until the request is sent.
pub(super) struct UnsentPlace<'a> {
    pub(super) entry: Entry,
    pub(super) number: u64,
    claim: &'a Claim,
    withdrawn: bool,
}

impl<'a> UnsentPlace<'a> {
    pub(super) fn new(
        entry: Entry,
        claim: &'a Claim,
        kind: RequestKind,
        asked: Asked,
        told: oneshot::Sender<Result<Answer, Failure>>,
    ) -> Self {
        let number = entry.with(|calls| calls.unsent.add(kind, asked, told));
        Self { entry, number, claim, withdrawn: false }
    }

    /// Withdraws the request. Returns `false` if the request was already sent.
    pub(super) fn withdraw(&mut self) -> bool {
        let found = self.entry.with(|calls| calls.unsent.withdraw(self.number));
        self.withdrawn |= found.is_some();
        self.withdrawn
    }
}

impl Drop for UnsentPlace<'_> {
    fn drop(&mut self) {
        // If the request was sent, it may take effect, so a dropped claim must be released.
        if !self.withdraw() {
            self.claim.mark_sent();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::stuck::StuckKeys;
    use super::super::unsent::{PER_CALL, name_of};
    use super::*;
    use crate::backend::Ask;
    use crate::key::Key;
    use crate::owner::{Identity, OwnerRecord, OwnerSource};

    fn claim() -> Claim {
        let owners = OwnerSource::new().expect("random bytes");
        let record = OwnerRecord::new(Arc::new(Identity::of_this_process("test")), None);
        Claim::new(Key::new("k").expect("a key"), owners.mint(), Duration::from_secs(1), record)
    }

    #[tokio::test]
    async fn a_call_takes_the_requests_of_one_kind_in_their_order() {
        let (keys, claim) = (Arc::<StuckKeys>::default(), claim());
        let place = |kind| {
            let (told, _) = oneshot::channel();
            UnsentPlace::new(keys.entry(name_of(&claim)), &claim, kind, Asked::new(&claim, Ask::Try), told)
        };
        let mut places: Vec<_> = (0..PER_CALL + 2)
            .map(|number| place(if number == 1 { RequestKind::Heartbeat } else { RequestKind::Attempt }))
            .collect();
        let take = |alone| -> Vec<u64> {
            let taken = keys.entry(name_of(&claim)).with(|calls| calls.unsent.take(alone));
            taken.iter().map(|one| one.number).collect()
        };
        let last = u64::try_from(PER_CALL).expect("a number") + 2;
        let first: Vec<u64> = (1..last).filter(|number| *number != 2).collect();
        assert_eq!(take(None), first, "attempts, up to the limit");
        assert_eq!(take(Some(last)), [last], "the one that finds out");
        assert_eq!(take(None), [2], "the heartbeat");
        assert_eq!(take(None), [0_u64; 0]);
        assert!(!claim.is_sent(), "its callers know nothing of it yet");
        assert!(!places.remove(0).withdraw());
        assert!(claim.is_sent(), "it may take effect");
    }

    #[tokio::test]
    async fn a_request_that_is_dropped_before_it_is_sent_leaves_nothing() {
        let (keys, claim) = (Arc::<StuckKeys>::default(), claim());
        let (told, _) = oneshot::channel();
        let entry = keys.entry(name_of(&claim));
        let asked = Asked::new(&claim, Ask::Try);
        drop(UnsentPlace::new(keys.entry(name_of(&claim)), &claim, RequestKind::Attempt, asked, told));
        assert!(!claim.is_sent() && entry.with(|calls| calls.unsent.take(None)).is_empty());
    }
}
