//! Tests mutual exclusion: one holder at a time.

use std::time::Duration;

use super::{Case, Subject, leases, list};
use crate::backend::{Ask, Attempt, Claim, Released};
use crate::error::LockErrorKind;
use crate::key::Key;

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    list![|_| true; excludes, the_next_gets_it, grants_are_dated, asks_again, asks_again_with_less, two_keys,
        any_text_is_a_key, the_hint_is_a_lease, a_probe_takes_what_is_free]
}

/// While a key is held, every other owner is refused.
async fn excludes(subject: Subject) {
    let key = subject.key("k");
    let holder = subject.mutex(&key);
    subject.acquire(&holder).await;
    for _ in 0..5 {
        subject.refused(&subject.mutex(&key)).await;
    }
    subject.release(&holder).await;
}

/// After a release, the next owner acquires the key.
async fn the_next_gets_it(subject: Subject) {
    let key = subject.key("k");
    for _ in 0..5 {
        let (holder, next) = (subject.mutex(&key), subject.mutex(&key));
        subject.acquire(&holder).await;
        subject.refused(&next).await;
        subject.release(&holder).await;
        subject.acquire(&next).await;
        subject.release(&next).await;
    }
}

/// A probe acquires a free key. If another owner holds the key, the probe is refused, and gets no queue entry.
async fn a_probe_takes_what_is_free(subject: Subject) {
    let key = subject.key("k");
    let (holder, other, next) = (subject.mutex(&key), subject.mutex(&key), subject.mutex(&key));
    let probe = async |claim| subject.backend().acquire_dyn(claim, Ask::Probe).await.expect("an answer");
    assert!(matches!(probe(&holder).await, Attempt::Granted(_)), "the key is free");
    match probe(&other).await {
        Attempt::Held(held) => assert!(held.queued_at.is_none(), "{held:?}"),
        Attempt::Granted(_) => panic!("granted beside a holder"),
    }
    subject.renewed(&holder, subject.long()).await;
    assert_eq!(subject.release(&holder).await, Released::Released);
    subject.acquire(&next).await;
    subject.release(&next).await;
}

/// A lease is counted from a moment between the call and its answer. If each grant has its own lease, the lease is at
/// least as long as requested.
async fn grants_are_dated(subject: Subject) {
    let claim = subject.mutex(&subject.key("k"));
    let before = subject.now();
    let grant = subject.acquire(&claim).await;
    let after = subject.now();
    assert!(before.is_past(grant.sent), "sent before the call");
    assert!(grant.sent.is_past(after), "sent after the answer");
    let asked = if leases(&subject.capability()) { claim.ttl } else { Duration::from_nanos(1) };
    assert!(grant.lease >= asked, "a lease of {:?} for a ttl of {:?}", grant.lease, claim.ttl);
    subject.release(&claim).await;
}

/// An owner that acquires again after a grant is granted again, with the same fencing token.
async fn asks_again(subject: Subject) {
    let key = subject.key("k");
    let claim = Claim { fencing: subject.capability().fencing.gives_tokens(), ..subject.mutex(&key) };
    let first = subject.acquire(&claim).await;
    for _ in 0..3 {
        let again = subject.acquire(&claim).await;
        assert_eq!(again.fence, first.fence, "the same grant has the same token");
    }
    subject.release(&claim).await;
    subject.acquire(&subject.mutex(&key)).await;
}

/// An owner that acquires again with a shorter ttl keeps its longer lease.
async fn asks_again_with_less(subject: Subject) {
    let key = subject.key("k");
    let claim = subject.mutex(&key);
    subject.acquire(&claim).await;
    subject.acquire(&subject.brief(claim.clone())).await;
    subject.short_lease_runs_out().await;
    subject.refused(&subject.mutex(&key)).await;
    subject.release(&claim).await;
}

/// Two keys do not affect each other, even if the text of one is part of the text of the other.
async fn two_keys(subject: Subject) {
    let holders =
        ["a", "a:a", "a:q", "A", "{a}", "a*", "a:fence", "a "].map(|name| subject.mutex(&subject.key(name)));
    for holder in &holders {
        subject.acquire(holder).await;
    }
    for (number, holder) in holders.iter().enumerate() {
        subject.release(holder).await;
        for (later, other) in holders.iter().enumerate() {
            let other = subject.mutex(&other.key);
            assert_eq!(subject.gets(&other).await, later <= number, "{:?} after {:?}", other.key, holder.key);
            subject.release(&other).await;
        }
    }
}

/// Any text can be a key, and different texts are different keys.
async fn any_text_is_a_key(subject: Subject) {
    let mut texts =
        ["é", "e\u{301}", "锁", "🔒", "a b", "a\r\nb", "\n", "\0", "%", "%20", "{", "}{", "'\"\\", "$1", "/"]
            .map(str::to_owned)
            .to_vec();
    texts.push(format!("{}x", "y".repeat(64)));
    let long = subject.key("long");
    texts.push("z".repeat(Key::MAX_LEN - long.as_str().len() + "long".len()));
    let claims: Vec<_> = texts.iter().map(|text| subject.mutex(&subject.key(text))).collect();
    let mut taken = Vec::new();
    for claim in &claims {
        match subject.attempt(claim).await {
            // A store may refuse a text that it cannot store, but must not confuse the text with another key.
            Err(error) if error.kind() == LockErrorKind::InvalidKey => {}
            answer => {
                assert!(matches!(answer, Ok(Attempt::Granted(_))), "{}: {answer:?}", claim.key);
                taken.push(claim);
            }
        }
    }
    assert!(taken.len() + 1 >= claims.len(), "more than one text is refused");
    for claim in taken {
        let other = subject.mutex(&claim.key);
        subject.refused(&other).await;
        subject.release(claim).await;
        subject.acquire(&other).await;
        subject.release(&other).await;
    }
}

/// A time that a refusal reports is at most the lease of the holder. A record that it reports is the holder's.
async fn the_hint_is_a_lease(subject: Subject) {
    let key = subject.key("k");
    let holder = subject.mutex(&key);
    let grant = subject.acquire(&holder).await;
    let Attempt::Held(held) = subject.attempt(&subject.mutex(&key)).await.expect("an answer") else {
        panic!("granted beside a holder");
    };
    if let Some(remaining) = held.remaining {
        assert!(remaining <= grant.lease, "{remaining:?} of {:?}", grant.lease);
    }
    if let Some(record) = held.holder {
        assert_eq!(record, holder.record, "the record of another");
    }
    subject.release(&holder).await;
}
