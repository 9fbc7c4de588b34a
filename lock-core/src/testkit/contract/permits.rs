//! Tests claims for several permits of a semaphore at once.

use std::time::Duration;

use super::{Case, Subject, leases, list};
use crate::backend::{Capability, Claim, Mode, Queue, Released};
use crate::key::Key;

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    let all = list![many; all_or_none, are_not_overtaken, are_served_as_far_as_they_fit];
    let leased = list![|can: &Capability| many(can) && leases(can); end_together];
    let listed = list![|can: &Capability| many(can) && can.lists; are_counted_and_taken_away_together];
    let kept = list![|can: &Capability| many(can) && can.keeps_after_release.is_some(); are_kept];
    all.into_iter().chain(leased).chain(listed).chain(kept)
}

/// Returns whether a claim can take several permits at once, in the order of arrival.
fn many(can: &Capability) -> bool {
    can.permits && can.several_permits && can.waiting.in_order()
}

fn several(subject: &Subject, key: &Key, permits: u32, of: u32) -> Claim {
    Claim { permits, ..subject.claim(key, Mode::Permit { of }, Queue::Fifo) }
}

/// Several permits are granted all at once or not at all, and one release frees them all. A claim that needs no more
/// than the remaining permits is granted.
async fn all_or_none(subject: Subject) {
    let key = subject.key("k");
    let [three, another, two, one] =
        [3, 3, 2, 1].map(|permits| Claim { queue: Queue::Barging, ..several(&subject, &key, permits, 5) });
    subject.acquire(&three).await;
    subject.refused(&another).await;
    subject.acquire(&two).await;
    subject.refused(&one).await;
    for _ in 0..2 {
        subject.acquire(&three).await;
        subject.renewed(&three, subject.long()).await;
    }
    subject.not_renewed(&another).await;
    assert_eq!(subject.release(&three).await, Released::Released);
    subject.acquire(&another).await;
    subject.refused(&one).await;
    assert_eq!(subject.release(&two).await, Released::Released);
    subject.acquire(&one).await;
    for claim in [&another, &one] {
        assert_eq!(subject.release(claim).await, Released::Released);
    }
    let whole = several(&subject, &key, 5, 5);
    subject.acquire(&whole).await;
    subject.refused(&one).await;
    assert_eq!(subject.release(&whole).await, Released::Released);
    assert_eq!(subject.release(&whole).await, Released::Expired);
}

/// A claim for several permits is not overtaken by a later, smaller claim, even if there are enough permits for the
/// smaller claim.
async fn are_not_overtaken(subject: Subject) {
    let key = subject.key("k");
    let [holder, other, large, small] = [1, 1, 3, 1].map(|permits| several(&subject, &key, permits, 3));
    subject.acquire(&holder).await;
    subject.acquire(&other).await;
    subject.enqueued(&large).await;
    subject.enqueued(&small).await;
    subject.refused(&several(&subject, &key, 1, 3)).await;
    subject.release(&holder).await;
    for claim in [&small, &large] {
        subject.still_waits(claim).await;
    }
    subject.release(&other).await;
    subject.served(&large, Duration::ZERO).await;
    subject.still_waits(&small).await;
    subject.release(&large).await;
    subject.served(&small, Duration::ZERO).await;
    subject.release(&small).await;
}

/// Successive claims in the queue are granted together if there are enough permits for them.
async fn are_served_as_far_as_they_fit(subject: Subject) {
    let key = subject.key("k");
    let holder = several(&subject, &key, 4, 4);
    subject.acquire(&holder).await;
    let waiting = [1, 2, 2, 1].map(|permits| several(&subject, &key, permits, 4));
    for claim in &waiting {
        subject.enqueued(claim).await;
    }
    subject.release(&holder).await;
    let [first, second, third, fourth] = &waiting;
    for claim in [fourth, third] {
        subject.still_waits(claim).await;
    }
    for claim in [second, first] {
        subject.served(claim, Duration::ZERO).await;
    }
    subject.release(first).await;
    subject.served(third, Duration::ZERO).await;
    subject.still_waits(fourth).await;
    subject.release(second).await;
    subject.served(fourth, Duration::ZERO).await;
    for claim in [third, fourth] {
        subject.release(claim).await;
    }
}

/// The permits of one grant end together when their holder is dead.
async fn end_together(subject: Subject) {
    let key = subject.key("k");
    let gone = subject.brief(several(&subject, &key, 2, 3));
    let stays = several(&subject, &key, 1, 3);
    subject.acquire(&gone).await;
    subject.acquire(&stays).await;
    let next = several(&subject, &key, 2, 3);
    subject.granted_within(&next, gone.ttl).await;
    subject.not_renewed(&gone).await;
    subject.refused(&several(&subject, &key, 1, 3)).await;
    // A renewal extends all permits of a grant. So no permit of `renewed` is free when the lease of `probe` is over,
    // which is as long as the first lease of `renewed`.
    let probe = subject.brief(several(&subject, &subject.key("probe"), 1, 1));
    subject.acquire(&probe).await;
    subject.release(&stays).await;
    subject.release(&next).await;
    let renewed = subject.brief(several(&subject, &key, 3, 3));
    subject.acquire(&renewed).await;
    subject.renewed(&renewed, subject.long()).await;
    let after = several(&subject, &probe.key, 1, 1);
    subject.granted_within(&after, probe.ttl).await;
    tokio::time::sleep(renewed.ttl).await;
    subject.refused(&several(&subject, &key, 1, 3)).await;
    subject.release(&renewed).await;
    subject.acquire(&several(&subject, &key, 3, 3)).await;
}

/// A grant of several permits is listed as one holder, and each permit is counted. A forced release frees all of them.
async fn are_counted_and_taken_away_together(subject: Subject) {
    let key = subject.key("k");
    subject.acquire(&several(&subject, &key, 3, 5)).await;
    subject.acquire(&several(&subject, &key, 1, 5)).await;
    subject.enqueued(&several(&subject, &key, 2, 5)).await;
    let backend = subject.backend();
    let info = async || backend.inspect_dyn(&key).await.expect("an answer").expect("held");
    let found = info().await;
    assert_eq!((found.mode, found.holding, found.holders.len()), (Mode::Permit { of: 5 }, 4, 2));
    assert_eq!((found.waiting, found.waiters[0].mode), (1, Mode::Permit { of: 5 }));
    let mut left = found.holding;
    for holder in &found.holders {
        assert!(backend.force_release_dyn(&key, &holder.id).await.expect("an answer"));
        let now = backend.inspect_dyn(&key).await.expect("an answer").map_or(0, |info| info.holding);
        assert_ne!(now, left, "{found:?}");
        left = now;
    }
    assert!(left <= 2, "only the waiter, if it was served");
}

/// If a grant of several permits is released with `keep_for`, all of its permits stay taken.
async fn are_kept(subject: Subject) {
    let key = subject.key("k");
    let keeps = several(&subject, &key, 2, 3);
    subject.acquire(&keeps).await;
    let keep = subject.short();
    for _ in 0..2 {
        let released = subject.backend().release_dyn(&keeps, Some(keep)).await.expect("an answer to release");
        assert_eq!(released, Released::Released);
    }
    let one = several(&subject, &key, 1, 3);
    subject.acquire(&one).await;
    let more = several(&subject, &key, 1, 3);
    subject.refused(&more).await;
    subject.granted_within(&more, keep).await;
    subject.acquire(&several(&subject, &key, 1, 3)).await;
}
