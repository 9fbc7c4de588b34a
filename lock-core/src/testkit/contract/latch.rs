//! Tests count-down latches.

use super::{Case, Subject, list};
use crate::backend::{Ask, Capability, LatchState, LatchStep, Mode, Queue};
use crate::error::LockErrorKind;

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    list![|can: &Capability| can.latches; is_set_once, counts_each_owner_once, stays_open, ends_with_its_lease,
        every_step_but_looking_keeps_it, never_shortens_its_lease, of_nothing_nothing_is_counted, a_lock_is_no_latch,
        a_latch_is_no_lock]
}

fn left(state: LatchState) -> Option<u32> {
    match state {
        LatchState::Set { left, .. } => Some(left),
        LatchState::Unset => None,
    }
}

/// A latch is set once. If its owner repeats the call, the answer is the same. Another owner gets the answer that the
/// latch was set already.
async fn is_set_once(subject: Subject) {
    let key = subject.key("k");
    let (first, second, ttl) = (subject.owner(), subject.owner(), subject.long());
    for (owner, count, ours) in [(first, 3, true), (first, 3, true), (second, 5, false), (first, 3, true)] {
        let before = subject.now();
        let state = subject.latch(&key, &LatchStep::Set { count, owner, ttl }).await;
        let LatchState::Set { left, by_us, sent } = state else { panic!("not set") };
        assert_eq!((left, by_us), (3, ours));
        assert!(before.is_past(sent) && sent.is_past(subject.now()), "sent outside the call");
    }
}

/// An owner counts down once, even if it repeats the step.
async fn counts_each_owner_once(subject: Subject) {
    let key = subject.key("k");
    subject.set_latch(&key, 3).await;
    let owners = [(); 3].map(|()| subject.owner());
    for (number, owner) in (1..).zip(owners) {
        for _ in 0..3 {
            assert_eq!(left(subject.count_down(&key, owner).await), Some(3 - number));
        }
        assert_eq!(left(subject.look(&key).await), Some(3 - number));
    }
}

/// An open latch stays open. Further count-downs and another set have no effect.
async fn stays_open(subject: Subject) {
    let key = subject.key("k");
    subject.set_latch(&key, 1).await;
    subject.count_down(&key, subject.owner()).await;
    assert_eq!(left(subject.count_down(&key, subject.owner()).await), Some(0));
    let again = LatchStep::Set { count: 2, owner: subject.owner(), ttl: subject.long() };
    assert_eq!(left(subject.latch(&key, &again).await), Some(0));
    assert_eq!(left(subject.look(&key).await), Some(0));
}

/// A latch whose lease has expired counts as never set, whether it was open or closed.
async fn ends_with_its_lease(subject: Subject) {
    let (shut, open, ttl) = (subject.key("shut"), subject.key("open"), subject.short());
    let owner = subject.owner();
    for (key, count) in [(&shut, 2), (&open, 1)] {
        subject.latch(key, &LatchStep::Set { count, owner, ttl }).await;
        subject.latch(key, &LatchStep::CountDown { owner, ttl }).await;
    }
    assert_eq!(left(subject.look(&open).await), Some(0));
    for key in [&shut, &open] {
        subject.latch_is_unset_within(key, ttl).await;
        assert_eq!(left(subject.set_latch(key, 2).await), Some(2), "nobody has counted yet");
        assert_eq!(left(subject.count_down(key, owner).await), Some(1));
    }
}

/// Each step extends the lease of a latch, except a step that only reads the latch.
async fn every_step_but_looking_keeps_it(subject: Subject) {
    let [counted, waited, set, looked] = ["counted", "waited", "set", "looked"].map(|name| subject.key(name));
    let (owner, brief, ttl) = (subject.owner(), subject.short(), subject.long());
    for key in [&counted, &waited, &set, &looked] {
        subject.latch(key, &LatchStep::Set { count: 2, owner, ttl: brief }).await;
    }
    subject.latch(&counted, &LatchStep::CountDown { owner, ttl }).await;
    subject.latch(&waited, &LatchStep::Wait { process: owner.process(), ttl }).await;
    subject.latch(&set, &LatchStep::Set { count: 2, owner: subject.owner(), ttl }).await;
    subject.latch_is_unset_within(&looked, brief).await;
    for (key, count) in [(&counted, 1), (&waited, 2), (&set, 2)] {
        assert_eq!(left(subject.look(key).await), Some(count), "{key:?}");
    }
}

/// A step with a shorter lease does not shorten the lease of the latch.
async fn never_shortens_its_lease(subject: Subject) {
    let key = subject.key("k");
    let (owner, ttl) = (subject.owner(), subject.short());
    subject.set_latch(&key, 2).await;
    subject.latch(&key, &LatchStep::CountDown { owner, ttl }).await;
    subject.latch(&key, &LatchStep::Wait { process: owner.process(), ttl }).await;
    subject.short_lease_runs_out().await;
    assert_eq!(left(subject.look(&key).await), Some(1));
}

/// A count-down of a latch that is not set has no effect.
async fn of_nothing_nothing_is_counted(subject: Subject) {
    let key = subject.key("k");
    let owner = subject.owner();
    assert_eq!(subject.look(&key).await, LatchState::Unset);
    assert_eq!(subject.count_down(&key, owner).await, LatchState::Unset);
    subject.wait_for_latch(&key, owner.process()).await;
    assert_eq!(subject.look(&key).await, LatchState::Unset);
    assert_eq!(left(subject.set_latch(&key, 1).await), Some(1));
}

/// A locked key cannot be used as a latch, and the error names both kinds.
async fn a_lock_is_no_latch(subject: Subject) {
    let key = subject.key("k");
    let holder = subject.exclusive(&key);
    subject.acquire(&holder).await;
    let set = LatchStep::Set { count: 1, owner: subject.owner(), ttl: subject.long() };
    let error = subject.backend().latch_dyn(&key, &set).await.expect_err("a key that is locked");
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
    let text = error.to_string();
    assert!(text.contains("latch") && text.contains("exclusive"), "{text}");
    subject.release(&holder).await;
    assert_eq!(left(subject.latch(&key, &set).await), Some(1));
}

/// A latch cannot be locked, and the error names both kinds.
async fn a_latch_is_no_lock(subject: Subject) {
    let key = subject.key("k");
    subject.set_latch(&key, 1).await;
    let can = subject.capability();
    let mut claims = vec![subject.exclusive(&key)];
    if can.waiting.in_order() {
        claims.push(subject.claim(&key, Mode::Exclusive, Queue::Fifo));
    }
    for claim in &claims {
        for answer in [
            subject.attempt(claim).await,
            subject.backend().acquire_dyn(claim, Ask::Enqueue { room: None }).await,
        ] {
            let error = answer.expect_err("the key is a latch");
            assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
            let text = error.to_string();
            assert!(text.contains("latch") && text.contains("exclusive"), "{text}");
        }
        subject.release(claim).await;
    }
    assert_eq!(left(subject.look(&key).await), Some(1));
}
