//! What a backend cannot do it refuses.

use super::{Case, Subject, list};
use crate::backend::{Capability, Claim, Mode, Queue};
use crate::error::LockErrorKind;

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    let all = list![|_| true; the_capability_is_sound];
    let less = list![|can: &Capability| !(can.shared && can.permits && can.fifo); more_than_it_can];
    let fencing = list![|can: &Capability| !can.fencing; a_token_that_it_cannot_give];
    all.into_iter().chain(less).chain(fencing)
}

/// The capability does not change, and its bounds are in order.
async fn the_capability_is_sound(subject: Subject) {
    let (first, second) = (subject.capability(), subject.capability());
    assert_eq!(format!("{first:?}"), format!("{second:?}"));
    assert!(!first.min_ttl.is_zero() && first.min_ttl < first.max_ttl, "{first:?}");
    assert!(!first.store.is_empty());
    // The cases need room between a lease that runs out and one that does not.
    assert!(subject.short() * 4 <= subject.long(), "{first:?}");
}

/// A mode or a queue beyond the capability is refused as unsupported, and nothing is taken.
async fn more_than_it_can(subject: Subject) {
    let can = subject.capability();
    let beyond = [
        (can.shared, Mode::Shared, Queue::Barging),
        (can.permits, Mode::Permit { of: 2 }, Queue::Barging),
        (can.fifo, Mode::Exclusive, Queue::Fifo),
    ];
    for (_, mode, queue) in beyond.into_iter().filter(|(can, ..)| !can) {
        let key = subject.key("k");
        let (claim, other) = (subject.claim(&key, mode, queue), subject.exclusive(&key));
        let error = subject.attempt(&claim).await.expect_err("it cannot do that");
        assert_eq!(error.kind(), LockErrorKind::Unsupported, "{mode:?} {queue:?}: {error}");
        subject.acquire(&other).await;
        subject.release(&other).await;
    }
}

/// A backend without fencing tokens says so when one is asked for.
async fn a_token_that_it_cannot_give(subject: Subject) {
    let claim: Claim = subject.exclusive(&subject.key("k"));
    subject.acquire(&claim).await;
    let error = subject.backend().fence_dyn(&claim).await.expect_err("it has no tokens");
    assert_eq!(error.kind(), LockErrorKind::Unsupported, "{error}");
    subject.release(&claim).await;
}
