//! Tests claims of several keys, which are granted all together or not at all.

use std::time::Duration;

use super::{Case, Subject, leases, list};
use crate::backend::{Capability, Claim, Mode, Queue, Released};
use crate::error::LockErrorKind;
use crate::key::Key;

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    let all = list![|can: &Capability| can.several; all_or_none, excludes_on_every_key, has_one_owner, names_the_key_that_is_held,
        is_renewed_whole_or_not, sets_that_overlap_are_all_served, turns_single_grants_into_one];
    let kinds = list![|can: &Capability| can.several && can.permits; names_the_key_that_is_in_use];
    let fifo = list![|can: &Capability| can.several && can.waiting.in_order(); overtakes_nobody];
    let fencing = list![|can: &Capability| can.several && can.fencing.gives_tokens(); has_one_token_above_all,
            has_another_token_than_its_single_grants];
    let leased = list![|can: &Capability| can.several && leases(can); runs_out_whole];
    all.into_iter().chain(kinds).chain(leased).chain(fifo).chain(fencing)
}

fn keys<const N: usize>(subject: &Subject) -> [Key; N] {
    std::array::from_fn(|number| subject.key(&number.to_string()))
}

/// When one of three keys is held, none of the three is acquired.
async fn all_or_none(subject: Subject) {
    let keys = keys::<3>(&subject);
    for held in &keys {
        let holder = subject.exclusive(held);
        subject.acquire(&holder).await;
        let all = subject.all(&keys);
        for _ in 0..3 {
            subject.refused(&all).await;
        }
        for free in keys.iter().filter(|key| *key != held) {
            let other = subject.exclusive(free);
            subject.acquire(&other).await;
            subject.release(&other).await;
        }
        subject.release(&holder).await;
        subject.acquire(&all).await;
        assert_eq!(subject.release(&all).await, Released::Released);
    }
}

/// A grant holds each of its keys, so claims of one key and of several keys are refused. One release frees all keys.
async fn excludes_on_every_key(subject: Subject) {
    let keys = keys::<3>(&subject);
    let all = subject.all(&keys);
    subject.acquire(&all).await;
    for key in &keys {
        subject.refused(&subject.exclusive(key)).await;
    }
    let other = subject.key("other");
    subject.refused(&subject.all(&[keys[2].clone(), other.clone()])).await;
    subject.acquire(&subject.exclusive(&other)).await;
    assert_eq!(subject.release(&all).await, Released::Released);
    for key in &keys {
        subject.acquire(&subject.exclusive(key)).await;
    }
}

/// A refusal names the key that is held, whatever the position of that key in the request.
async fn names_the_key_that_is_held(subject: Subject) {
    let keys = keys::<3>(&subject);
    for held in &keys {
        let holder = subject.exclusive(held);
        subject.acquire(&holder).await;
        let refusal = subject.refused(&subject.all(&keys)).await;
        assert_eq!(refusal.key.as_ref(), Some(held));
        assert_eq!(subject.refused(&subject.exclusive(held)).await.key, None, "one key needs no name");
        subject.release(&holder).await;
    }
}

/// If one of the keys is in use as another kind of lock, the error names that key.
async fn names_the_key_that_is_in_use(subject: Subject) {
    let keys = keys::<3>(&subject);
    for used in &keys {
        let holder = subject.claim(used, Mode::Permit { of: 3 }, Queue::Barging);
        subject.acquire(&holder).await;
        let error = subject.attempt(&subject.all(&keys)).await.expect_err("another kind of lock");
        assert_eq!(
            (error.kind(), error.key()),
            (LockErrorKind::InvalidRequest, Some(used.as_str())),
            "{error}"
        );
        subject.release(&holder).await;
    }
}

/// If the owner acquires the keys again, it still has one grant, and one release frees all keys.
async fn has_one_owner(subject: Subject) {
    let keys = keys::<2>(&subject);
    let all = Claim { fencing: subject.capability().fencing.gives_tokens(), ..subject.all(&keys) };
    let first = subject.acquire(&all).await;
    for _ in 0..3 {
        assert_eq!(subject.acquire(&all).await.fence, first.fence, "the same grant has the same token");
    }
    subject.release(&all).await;
    assert_ne!(subject.release(&all).await, Released::Released);
    subject.acquire(&subject.all(&keys)).await;
}

/// A grant of several keys is renewed as a whole. If one of the keys is lost, the renewal is refused.
async fn is_renewed_whole_or_not(subject: Subject) {
    let keys = keys::<3>(&subject);
    for lost in &keys {
        let all = subject.brief(subject.all(&keys));
        subject.acquire(&all).await;
        subject.renewed(&all, subject.long()).await;
        subject.short_lease_runs_out().await;
        for key in &keys {
            subject.refused(&subject.exclusive(key)).await;
        }
        let part = Claim { key: lost.clone(), more: [].into(), ..all.clone() };
        subject.release(&part).await;
        subject.not_renewed(&all).await;
        let next = subject.exclusive(lost);
        subject.acquire(&next).await;
        subject.not_renewed(&all).await;
        subject.release(&all).await;
        subject.refused(&subject.exclusive(lost)).await;
        subject.release(&next).await;
    }
}

/// The lease of a dead holder expires for all keys.
async fn runs_out_whole(subject: Subject) {
    let keys = keys::<3>(&subject);
    let gone = subject.brief(subject.all(&keys));
    subject.acquire(&gone).await;
    let next = subject.all(&keys);
    subject.granted_within(&next, gone.ttl).await;
    subject.not_renewed(&gone).await;
    assert_eq!(subject.release(&gone).await, Released::Taken);
    subject.release(&next).await;
}

/// Claims on overlapping sets of keys are all served, in whatever order they name the keys. No two claims wait for each
/// other.
async fn sets_that_overlap_are_all_served(subject: Subject) {
    let keys = keys::<3>(&subject);
    let sets = [[0, 1], [1, 2], [2, 0], [1, 0], [0, 2], [2, 1]];
    let tasks = sets.map(|set| {
        let (subject, set) = (subject.clone(), set.map(|number: usize| keys[number].clone()));
        tokio::spawn(async move {
            for _ in 0..3 {
                let claim = subject.all(&set);
                subject.granted_within(&claim, Duration::ZERO).await;
                tokio::task::yield_now().await;
                assert_eq!(subject.release(&claim).await, Released::Released);
            }
        })
    });
    for task in tasks {
        task.await.expect("served");
    }
}

/// If an owner has acquired keys one by one, a claim of all of these keys makes one grant. One release frees them all.
async fn turns_single_grants_into_one(subject: Subject) {
    let keys = keys::<2>(&subject);
    let all = subject.all(&keys);
    for key in &keys {
        let single = Claim { key: key.clone(), more: [].into(), ..all.clone() };
        subject.acquire(&subject.brief(single)).await;
    }
    subject.acquire(&all).await;
    subject.short_lease_runs_out().await;
    for key in &keys {
        subject.refused(&subject.exclusive(key)).await;
    }
    subject.renewed(&all, subject.long()).await;
    assert_eq!(subject.release(&all).await, Released::Released);
    subject.acquire(&subject.all(&keys)).await;
}

/// A waiter for one of the keys is served before a later claim on all of them.
async fn overtakes_nobody(subject: Subject) {
    let keys = keys::<2>(&subject);
    let (holder, waits) =
        (subject.exclusive(&keys[1]), subject.claim(&keys[1], Mode::Exclusive, Queue::Fifo));
    subject.acquire(&holder).await;
    subject.enqueued(&waits).await;
    let all = subject.all(&keys);
    subject.refused(&all).await;
    subject.release(&holder).await;
    subject.refused(&all).await;
    subject.served(&waits, Duration::ZERO).await;
    subject.refused(&all).await;
    subject.release(&waits).await;
    subject.granted_within(&all, Duration::ZERO).await;
    subject.release(&all).await;
}

/// The owner acquires keys one by one, and then all of them. The token of the last grant is larger than the tokens that
/// other owners got in the meantime.
async fn has_another_token_than_its_single_grants(subject: Subject) {
    let keys = keys::<2>(&subject);
    for with_grant in [true, false] {
        let all = Claim { fencing: with_grant, ..subject.all(&keys) };
        let single = |key: &Key| Claim { key: key.clone(), more: [].into(), fencing: false, ..all.clone() };
        subject.acquire(&single(&keys[0])).await;
        let other = Claim { fencing: true, ..subject.exclusive(&keys[1]) };
        let grant = subject.acquire(&other).await;
        let before = subject.token(&other, &grant).await;
        subject.release(&other).await;
        subject.acquire(&single(&keys[1])).await;
        let grant = subject.acquire(&all).await;
        assert!(subject.token(&all, &grant).await > before, "{grant:?} after {before:?}");
        assert_eq!(subject.release(&all).await, Released::Released);
    }
}

/// A grant of several keys has one token. It is larger than every earlier token of each key, and smaller than every
/// later token.
async fn has_one_token_above_all(subject: Subject) {
    let keys = keys::<2>(&subject);
    let single = async |key: &Key| {
        let claim = Claim { fencing: true, ..subject.exclusive(key) };
        let grant = subject.acquire(&claim).await;
        let token = subject.token(&claim, &grant).await;
        subject.release(&claim).await;
        token
    };
    for with_grant in [true, false] {
        let mut before = vec![single(&keys[0]).await];
        for _ in 0..5 {
            before.push(single(&keys[1]).await);
        }
        let all = Claim { fencing: with_grant, ..subject.all(&keys) };
        let grant = subject.acquire(&all).await;
        let token = subject.token(&all, &grant).await;
        assert!(before.iter().all(|before| *before < token), "{token:?} after {before:?}");
        subject.release(&all).await;
        for key in &keys {
            assert!(single(key).await > token);
        }
    }
}
