//! Semaphores.

use super::{Case, Subject, list};
use crate::backend::{Capability, Claim, Mode, Queue, Released};
use crate::error::LockErrorKind;
use crate::key::Key;

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    list![|can: &Capability| can.permits; so_many_and_no_more, one_permit_is_a_mutex, permits_end_one_by_one,
        one_owner_takes_one, other_kinds_are_refused]
}

fn permit(subject: &Subject, key: &Key, of: u32) -> Claim {
    subject.claim(key, Mode::Permit { of }, Queue::Barging)
}

/// As many owners as there are permits hold one each, and no more.
async fn so_many_and_no_more(subject: Subject) {
    let key = subject.key("k");
    let holders: Vec<_> = (0..4).map(|_| permit(&subject, &key, 4)).collect();
    for holder in &holders {
        subject.acquire(holder).await;
    }
    let next = permit(&subject, &key, 4);
    subject.refused(&next).await;
    subject.renewed(&holders[3], subject.long()).await;
    assert_eq!(subject.release(&holders[1]).await, Released::Released);
    subject.acquire(&next).await;
    subject.refused(&permit(&subject, &key, 4)).await;
    for holder in holders.iter().chain([&next]) {
        subject.release(holder).await;
    }
}

/// A semaphore of one permit excludes.
async fn one_permit_is_a_mutex(subject: Subject) {
    let key = subject.key("k");
    for _ in 0..3 {
        let (holder, other) = (permit(&subject, &key, 1), permit(&subject, &key, 1));
        subject.acquire(&holder).await;
        subject.refused(&other).await;
        subject.not_renewed(&other).await;
        subject.release(&holder).await;
    }
}

/// The permit of a holder that went away is free again with its own lease; the others' are not.
async fn permits_end_one_by_one(subject: Subject) {
    let key = subject.key("k");
    let (gone, stays) = (subject.brief(permit(&subject, &key, 2)), permit(&subject, &key, 2));
    subject.acquire(&gone).await;
    subject.acquire(&stays).await;
    let next = permit(&subject, &key, 2);
    subject.granted_within(&next, gone.ttl).await;
    subject.not_renewed(&gone).await;
    subject.refused(&permit(&subject, &key, 2)).await;
    subject.renewed(&stays, subject.long()).await;
    subject.release(&stays).await;
    subject.release(&next).await;
}

/// An owner that asks again still has one permit.
async fn one_owner_takes_one(subject: Subject) {
    let key = subject.key("k");
    let (first, second) = (permit(&subject, &key, 2), permit(&subject, &key, 2));
    for _ in 0..3 {
        subject.acquire(&first).await;
    }
    subject.acquire(&second).await;
    subject.release(&first).await;
    subject.release(&second).await;
}

/// While permits are held, another number of permits and another kind are invalid requests.
async fn other_kinds_are_refused(subject: Subject) {
    let key = subject.key("k");
    let holder = permit(&subject, &key, 2);
    subject.acquire(&holder).await;
    for other in [permit(&subject, &key, 3), subject.exclusive(&key)] {
        let error = subject.attempt(&other).await.expect_err("another kind on a key that is held");
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
        subject.release(&other).await;
    }
    subject.acquire(&permit(&subject, &key, 2)).await;
    subject.refused(&permit(&subject, &key, 2)).await;
}
