//! Tests that leases expire, but not too early.

use super::{Case, Subject, leases, list};
use crate::backend::Attempt;
use crate::clock::Moment;

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    list![leases; frees, not_early, shortest, longest]
}

/// The lease of a dead holder expires and frees the key.
async fn frees(subject: Subject) {
    let key = subject.key("k");
    let (gone, next) = (subject.brief(subject.mutex(&key)), subject.mutex(&key));
    subject.acquire(&gone).await;
    subject.refused(&next).await;
    subject.granted_within(&next, gone.ttl).await;
    subject.refused(&subject.mutex(&key)).await;
    subject.release(&next).await;
}

/// No owner is granted a key before the lease of its holder has ended by the holder's own clock.
async fn not_early(subject: Subject) {
    let key = subject.key("k");
    for _ in 0..2 {
        let (holder, next) = (subject.brief(subject.mutex(&key)), subject.mutex(&key));
        let grant = subject.acquire(&holder).await;
        subject.granted_within(&next, holder.ttl).await;
        let held = subject.now().since(grant.sent);
        // The check allows the margin that a manager subtracts because clocks do not run at the same rate.
        assert!(held >= grant.lease.mul_f64(0.98), "free after {held:?} of {:?}", grant.lease);
        subject.release(&next).await;
    }
}

/// The shortest lease of the capability is granted, and expires. If the store is slow compared with such a lease, some
/// of its answers may be too late, but not all.
async fn shortest(subject: Subject) {
    const TRIES: usize = 100;
    let key = subject.key("k");
    let ttl = subject.capability().min_ttl;
    for _ in 0..TRIES {
        let (mut brief, next) = (subject.mutex(&key), subject.mutex(&key));
        brief.ttl = ttl;
        match subject.attempt(&brief).await {
            Err(error) if error.is_temporary() => {
                // A grant of an unanswered attempt expires, or is released here.
                let _ = subject.backend().release_dyn(&brief, None).await;
            }
            answer => {
                assert!(matches!(answer, Ok(Attempt::Granted(_))), "{answer:?}");
                subject.granted_within(&next, ttl).await;
                subject.release(&next).await;
                return;
            }
        }
    }
    panic!("{TRIES} attempts with a lease of {ttl:?} and no answer");
}

/// The longest lease of the capability is granted, and does not overflow.
async fn longest(subject: Subject) {
    let key = subject.key("k");
    let (mut claim, other) = (subject.mutex(&key), subject.mutex(&key));
    claim.ttl = subject.capability().max_ttl;
    let grant = subject.acquire(&claim).await;
    let end: Moment = grant.sent.plus(grant.lease);
    assert!(!end.is_past(subject.now()));
    subject.short_lease_runs_out().await;
    subject.refused(&other).await;
    subject.renewed(&claim, claim.ttl).await;
    subject.release(&claim).await;
    subject.acquire(&other).await;
    subject.release(&other).await;
}
