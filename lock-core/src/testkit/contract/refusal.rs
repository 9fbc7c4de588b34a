//! Tests that a backend refuses requests beyond its capability.

use super::{Case, Subject, list};
use crate::backend::{Ask, Capability, Claim, LatchStep, Mode, Queue, Renewal};
use crate::error::LockErrorKind;

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    let all = list![|_| true; the_capability_is_sound];
    let less = |can: &Capability| !(can.shared && can.permits && can.waiting.in_order() && can.several);
    let less = list![less; more_than_it_can];
    let fencing = list![|can: &Capability| !can.fencing.gives_tokens(); a_token_that_it_cannot_give];
    let beats = list![|can: &Capability| !can.waiting.by_heartbeats(); a_sign_of_life_that_it_does_not_need];
    let shared = list![|can: &Capability| !can.shared; a_downgrade_that_it_cannot_do];
    let latches = list![|can: &Capability| !can.latches; a_latch_that_it_does_not_have];
    all.into_iter().chain(less).chain(fencing).chain(beats).chain(shared).chain(latches)
}

/// The capability is the same at each call, and does not contradict itself.
async fn the_capability_is_sound(subject: Subject) {
    let (first, second) = (subject.capability(), subject.capability());
    assert_eq!(format!("{first:?}"), format!("{second:?}"));
    first.validate().expect("no contradiction");
    // The cases need a margin between a lease that expires and a lease that does not.
    assert!(subject.short() * 4 <= subject.long(), "{first:?}");
}

/// A request beyond the capability is refused as unsupported, and no key is locked.
async fn more_than_it_can(subject: Subject) {
    let (can, key) = (subject.capability(), subject.key("k"));
    let beyond = [
        (can.shared, subject.claim(&key, Mode::Shared, Queue::Barging)),
        (can.permits, subject.claim(&key, Mode::Permit { of: 2 }, Queue::Barging)),
        (can.waiting.in_order(), subject.claim(&key, Mode::Exclusive, Queue::Fifo)),
        (can.several, subject.all(&[key.clone(), subject.key("l")])),
    ];
    for (_, claim) in beyond.iter().filter(|(can, _)| !can) {
        for answer in [
            subject.attempt(claim).await,
            subject.backend().acquire_dyn(claim, Ask::Enqueue { room: None }).await,
        ] {
            let error = answer.expect_err("it cannot do that");
            assert_eq!(error.kind(), LockErrorKind::Unsupported, "{claim:?}: {error}");
        }
        for key in claim.keys() {
            let other = subject.exclusive(key);
            subject.acquire(&other).await;
            subject.release(&other).await;
        }
    }
}

/// A backend whose queue entries need no heartbeat answers a heartbeat with the error `Unsupported`.
async fn a_sign_of_life_that_it_does_not_need(subject: Subject) {
    let claim = subject.exclusive(&subject.key("k"));
    let error = subject.backend().heartbeat_dyn(&claim).await.expect_err("it needs none");
    assert_eq!(error.kind(), LockErrorKind::Unsupported, "{error}");
}

/// A backend without shared locks does not downgrade an exclusive lock to a shared one.
async fn a_downgrade_that_it_cannot_do(subject: Subject) {
    let claim = subject.exclusive(&subject.key("k"));
    subject.acquire(&claim).await;
    match subject.backend().downgrade_dyn(&claim).await {
        Renewal::Unknown(error) => assert_eq!(error.kind(), LockErrorKind::Unsupported, "{error}"),
        answer => panic!("it has no shared locks: {answer:?}"),
    }
    subject.refused(&subject.exclusive(&claim.key)).await;
    subject.release(&claim).await;
}

/// A backend without latches answers each step with the error `Unsupported`.
async fn a_latch_that_it_does_not_have(subject: Subject) {
    let error =
        subject.backend().latch_dyn(&subject.key("k"), &LatchStep::Look).await.expect_err("it has none");
    assert_eq!(error.kind(), LockErrorKind::Unsupported, "{error}");
}

/// A backend without fencing tokens answers a request for a token with the error `Unsupported`.
async fn a_token_that_it_cannot_give(subject: Subject) {
    let claim: Claim = subject.exclusive(&subject.key("k"));
    subject.acquire(&claim).await;
    let error = subject.backend().fence_dyn(&claim).await.expect_err("it has no tokens");
    assert_eq!(error.kind(), LockErrorKind::Unsupported, "{error}");
    subject.release(&claim).await;
}
