//! Tests renewals.

use super::{Case, Subject, leases, list};
use crate::backend::{Claim, Renew, Renewal};

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    let all = list![|_| true; outlives_its_first_lease, never_shortens, not_after_release, not_of_another,
        a_batch_is_answered_in_order, an_empty_batch, is_dated];
    all.into_iter().chain(list![leases; not_after_expiry, promises_what_is_kept])
}

/// A renewed grant outlives its first lease.
async fn outlives_its_first_lease(subject: Subject) {
    let key = subject.key("k");
    let claim = subject.brief(subject.mutex(&key));
    subject.acquire(&claim).await;
    subject.renewed(&claim, subject.long()).await;
    subject.short_lease_runs_out().await;
    subject.refused(&subject.mutex(&key)).await;
    subject.renewed(&claim, subject.long()).await;
    subject.release(&claim).await;
}

/// A renewal for less than the time left does not shorten the lease.
async fn never_shortens(subject: Subject) {
    let key = subject.key("k");
    let claim = subject.mutex(&key);
    subject.acquire(&claim).await;
    subject.renewed(&claim, subject.short()).await;
    subject.short_lease_runs_out().await;
    subject.refused(&subject.mutex(&key)).await;
    subject.release(&claim).await;
}

/// A renewal after the release is refused, and creates no grant.
async fn not_after_release(subject: Subject) {
    let key = subject.key("k");
    let (claim, next) = (subject.mutex(&key), subject.mutex(&key));
    subject.acquire(&claim).await;
    subject.release(&claim).await;
    subject.not_renewed(&claim).await;
    subject.acquire(&next).await;
    subject.release(&next).await;
}

/// A renewal after expiry is refused, and creates no grant, even if there is no other owner.
async fn not_after_expiry(subject: Subject) {
    let key = subject.key("k");
    let (stale, next) = (subject.brief(subject.mutex(&key)), subject.mutex(&key));
    subject.acquire(&stale).await;
    subject.short_lease_runs_out().await;
    subject.not_renewed(&stale).await;
    subject.acquire(&next).await;
    subject.not_renewed(&stale).await;
    subject.renewed(&next, subject.long()).await;
    subject.release(&next).await;
}

/// No owner can renew the grant of another owner.
async fn not_of_another(subject: Subject) {
    let key = subject.key("k");
    let (holder, other) = (subject.brief(subject.mutex(&key)), subject.mutex(&key));
    subject.acquire(&holder).await;
    subject.not_renewed(&other).await;
    subject.refused(&subject.mutex(&key)).await;
    if leases(&subject.capability()) {
        // If the renewal had extended the holder's lease, this wait would fail.
        subject.granted_within(&subject.mutex(&key), holder.ttl).await;
    }
}

/// The store answers each renewal of a large batch, in the order of the batch. Some keys of the batch are free, and
/// other owners hold some.
async fn a_batch_is_answered_in_order(subject: Subject) {
    let claims: Vec<Claim> =
        (0..150).map(|number| subject.mutex(&subject.key(&number.to_string()))).collect();
    // This pattern is not symmetric, so answers in the reverse order are found.
    let is_mine = |number: usize| number % 5 < 2;
    for (number, claim) in claims.iter().enumerate() {
        if is_mine(number) {
            subject.acquire(claim).await;
        } else if number % 5 == 2 {
            subject.acquire(&subject.mutex(&claim.key)).await;
        }
    }
    let batch: Vec<_> = claims.iter().map(|claim| Renew { claim, ttl: subject.long() }).collect();
    let answers = subject.backend().renew_dyn(&batch).await;
    assert_eq!(answers.len(), claims.len());
    for (number, answer) in answers.iter().enumerate() {
        let as_expected = match answer {
            Renewal::Renewed { .. } => is_mine(number),
            Renewal::NotOwned => !is_mine(number),
            Renewal::Unknown(_) => false,
        };
        assert!(as_expected, "number {number}: {answer:?}");
    }
    for claim in &claims {
        subject.release(claim).await;
    }
}

/// An empty batch has no answers.
async fn an_empty_batch(subject: Subject) {
    assert!(subject.backend().renew_dyn(&[]).await.is_empty());
}

/// A grant lasts until the end of the lease that its renewal returned.
async fn promises_what_is_kept(subject: Subject) {
    let key = subject.key("k");
    let claim = subject.brief(subject.mutex(&key));
    subject.acquire(&claim).await;
    let Renewal::Renewed { sent, lease, .. } = subject.renew(&claim, subject.short()).await else {
        panic!("the holder may renew");
    };
    let next = subject.mutex(&key);
    subject.granted_within(&next, lease).await;
    let after = subject.now().since(sent);
    // The clock of the store may run a little faster than the clock of this process, and may count in milliseconds.
    assert!(after >= lease.mul_f64(0.95), "{lease:?} were promised, and another has the key after {after:?}");
    subject.release(&next).await;
}

/// A renewed lease is counted from a moment between the call and its answer.
async fn is_dated(subject: Subject) {
    let claim = subject.mutex(&subject.key("k"));
    subject.acquire(&claim).await;
    let before = subject.now();
    let Renewal::Renewed { sent, .. } = subject.renew(&claim, subject.long()).await else {
        panic!("the holder may renew");
    };
    assert!(before.is_past(sent) && sent.is_past(subject.now()), "sent outside the call");
    subject.release(&claim).await;
}
