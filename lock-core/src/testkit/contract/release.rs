//! Tests releases.

use std::time::Duration;

use super::{Case, Subject, leases, list};
use crate::backend::{Capability, Claim, Released};

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    let all = list![|_| true; says_released, twice, of_another];
    let leased = list![leases; of_one_who_ran_out, after_expiry];
    all.into_iter()
        .chain(leased)
        .chain(list![|can: &Capability| can.keeps_after_release.is_some(); keeps, says_kept])
}

pub(super) fn telling() -> impl IntoIterator<Item = Case> {
    list![|can: &Capability| can.waiting.watches(); a_waiter_is_told]
}

/// The release by a holder is answered with *released*.
async fn says_released(subject: Subject) {
    let claim = subject.mutex(&subject.key("k"));
    subject.acquire(&claim).await;
    assert_eq!(subject.release(&claim).await, Released::Released);
}

/// A repeated release changes nothing, and does not affect the next holder.
async fn twice(subject: Subject) {
    let key = subject.key("k");
    let (first, second) = (subject.mutex(&key), subject.mutex(&key));
    subject.acquire(&first).await;
    subject.release(&first).await;
    assert_ne!(subject.release(&first).await, Released::Released);
    subject.acquire(&second).await;
    assert_eq!(subject.release(&first).await, Released::Taken);
    subject.refused(&subject.mutex(&key)).await;
    subject.release(&second).await;
}

/// The release by an owner that never held the key changes nothing, and the answer reports this.
async fn of_another(subject: Subject) {
    let key = subject.key("k");
    let (holder, other) = (subject.mutex(&key), subject.mutex(&key));
    subject.acquire(&holder).await;
    subject.refused(&other).await;
    assert_eq!(subject.release(&other).await, Released::Taken);
    subject.refused(&subject.mutex(&key)).await;
    subject.renewed(&holder, subject.long()).await;
    subject.release(&holder).await;
}

/// The late release by an owner whose lease has expired does not affect the next holder, and the answer reports this.
async fn of_one_who_ran_out(subject: Subject) {
    let key = subject.key("k");
    let (stale, holder) = (subject.brief(subject.mutex(&key)), subject.mutex(&key));
    subject.acquire(&stale).await;
    subject.granted_within(&holder, stale.ttl).await;
    assert_eq!(subject.release(&stale).await, Released::Taken);
    subject.refused(&subject.mutex(&key)).await;
    subject.release(&holder).await;
}

/// If the lease has expired and the key has had no holder since, a release is answered with *expired*.
async fn after_expiry(subject: Subject) {
    let claim = subject.brief(subject.mutex(&subject.key("k")));
    subject.acquire(&claim).await;
    subject.short_lease_runs_out().await;
    assert_eq!(subject.release(&claim).await, Released::Expired);
}

/// A key that is released with `keep_for` stays locked for that time, and cannot be renewed.
async fn keeps(subject: Subject) {
    let key = subject.key("k");
    let (claim, next) = (subject.mutex(&key), subject.mutex(&key));
    let keep = subject.short();
    subject.acquire(&claim).await;
    let before = subject.now();
    let released = subject.backend().release_dyn(&claim, Some(keep)).await.expect("an answer to release");
    assert_eq!(released, Released::Released);
    subject.not_renewed(&claim).await;
    subject.granted_within(&next, keep).await;
    // The clock of the store may run a little faster than the clock of this process.
    let kept = subject.now().since(before);
    assert!(kept >= keep.mul_f64(0.95), "kept for {kept:?} of {keep:?}");
    subject.release(&next).await;
}

/// If a key is only kept after a release, a refusal reports this, and names the owner that keeps the key.
async fn says_kept(subject: Subject) {
    let key = subject.key("k");
    let (claim, next) = (subject.mutex(&key), subject.mutex(&key));
    subject.acquire(&claim).await;
    assert!(!subject.refused(&next).await.kept, "it is held");
    let released = subject.backend().release_dyn(&claim, Some(subject.long())).await;
    assert_eq!(released.expect("an answer to release"), Released::Released);
    let refusal = subject.refused(&next).await;
    assert!(refusal.kept && refusal.holder == Some(claim.record.clone()), "{refusal:?}");
}

/// A waiter is notified of a release long before the lease would have expired.
async fn a_waiter_is_told(subject: Subject) {
    let key = subject.key("k");
    let (holder, waiting): (Claim, Claim) = (subject.mutex(&key), subject.mutex(&key));
    subject.acquire(&holder).await;
    subject.refused(&waiting).await;
    let told = async {
        // A hint may be sent too early. The waiter then waits for the next hint.
        while !subject.gets(&waiting).await {
            subject.backend().changed_dyn(&waiting).await;
            // This pause lets time pass even if hints arrive without end.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let release = async {
        tokio::time::sleep(subject.short() / 4).await;
        subject.release(&holder).await;
    };
    let ((), in_time) = tokio::join!(release, subject.in_time(told));
    assert!(in_time, "nobody told the waiter");
    subject.release(&waiting).await;
}
