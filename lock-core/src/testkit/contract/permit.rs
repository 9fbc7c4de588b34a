//! Tests semaphores.

use super::{Case, Subject, leases, list};
use crate::backend::{Ask, Capability, Claim, Mode, Queue, Released};
use crate::error::LockErrorKind;
use crate::key::Key;

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    let all = list![|can: &Capability| can.permits; so_many_and_no_more, one_permit_is_a_mutex, one_owner_takes_one,
        other_kinds_are_refused];
    all.into_iter().chain(list![|can: &Capability| can.permits && leases(can); permits_end_one_by_one])
}

fn permit(subject: &Subject, key: &Key, of: u32) -> Claim {
    subject.claim(key, Mode::Permit { of }, Queue::Barging)
}

/// Each permit can be held by one owner, and no further owner gets a permit.
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

/// A semaphore with one permit has one holder at a time.
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

/// The permit of a dead holder becomes free when its own lease expires. Permits of other holders stay held.
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

/// An owner that acquires again still has one permit.
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

/// While permits are held, a request for another number of permits or another kind is invalid, and the error names
/// both kinds. A request for permits while the key is locked is invalid too.
async fn other_kinds_are_refused(subject: Subject) {
    let (key, can) = (subject.key("k"), subject.capability());
    let holder = permit(&subject, &key, 7);
    subject.acquire(&holder).await;
    let mut others =
        vec![(permit(&subject, &key, 9), ["7", "9"]), (subject.exclusive(&key), ["7", "exclusive"])];
    if can.shared {
        others.push((subject.claim(&key, Mode::Shared, Queue::Barging), ["7", "shared"]));
    }
    for (other, names) in &others {
        clashes(&subject, other, names).await;
    }
    subject.acquire(&permit(&subject, &key, 7)).await;
    let key = subject.key("locked");
    subject.acquire(&subject.exclusive(&key)).await;
    clashes(&subject, &permit(&subject, &key, 7), &["exclusive", "7"]).await;
    if can.shared {
        let key = subject.key("read");
        subject.acquire(&subject.claim(&key, Mode::Shared, Queue::Barging)).await;
        clashes(&subject, &permit(&subject, &key, 7), &["shared", "7"]).await;
    }
}

async fn clashes(subject: &Subject, claim: &Claim, names: &[&str]) {
    for answer in [
        subject.attempt(claim).await,
        subject.backend().acquire_dyn(claim, Ask::Enqueue { room: None }).await,
    ] {
        let error = answer.expect_err("another kind on a key that is held");
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
        // The key is removed from the text, because it also contains letters and digits.
        let text = error.to_string().replace(claim.key.as_str(), "");
        assert!(names.iter().all(|name| text.contains(name)), "{text}: not named: {names:?}");
    }
    subject.release(claim).await;
}
