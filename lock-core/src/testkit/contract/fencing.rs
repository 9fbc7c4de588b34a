//! Tests fencing tokens.

use super::{Case, Subject, leases, list};
use crate::backend::{Capability, Claim, Fencing, FencingToken, Mode, Placement, Queue};
use crate::error::LockErrorKind;

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    let all = list![|can: &Capability| can.fencing.gives_tokens(); grows_with_every_owner, on_demand, only_for_the_holder,
        one_a_turn];
    let leased = |can: &Capability| can.fencing.gives_tokens() && leases(can);
    all.into_iter().chain(list![leased; grows_over_expiry])
}

pub(super) fn over_readers() -> impl IntoIterator<Item = Case> {
    list![|can: &Capability| can.fencing.gives_tokens() && can.shared; grows_over_readers]
}

/// Each holder of a grant that is handed off has its own token, which is larger than the token of the previous holder.
/// If processes number hand-offs themselves, a token from the store is also larger than a number that the process has
/// assigned in the meantime. The token of the next owner is larger than all of these.
async fn one_a_turn(subject: Subject) {
    let (key, can) = (subject.key("k"), subject.capability());
    // If a remote store uses the numbers of its changes as tokens, no process assigns tokens, and none can be raised.
    let numbers = can.fencing == Fencing::StoreTime || can.placement == Placement::Embedded;
    let mut claim = Claim { fencing: true, ..subject.mutex(&key) };
    let grant = subject.acquire(&claim).await;
    let mut last = subject.token(&claim, &grant).await;
    for turn in 1..4 {
        claim.handoffs = turn;
        let own = (turn == 2 && numbers).then(|| FencingToken::new(last.get() + 1_000));
        if let Some(own) = own {
            claim.number_fence(own);
        }
        let token = subject.backend().fence_dyn(&claim).await.expect("the holder gets a token");
        assert!(token > last && Some(token) > own, "turn {turn}: {token} after {last}, own {own:?}");
        let again = subject.backend().fence_dyn(&claim).await.expect("the holder gets a token");
        assert_eq!(again, token, "turn {turn} asked twice");
        last = token;
    }
    let own = if numbers { FencingToken::new(last.get() + 1_000) } else { last };
    if numbers {
        claim.number_fence(own);
    }
    subject.release(&claim).await;
    let next = Claim { fencing: true, ..subject.mutex(&key) };
    let grant = subject.acquire(&next).await;
    let token = subject.token(&next, &grant).await;
    assert!(token > own, "{token} after {own}, which was told with the release");
    subject.release(&next).await;
}

/// Every owner of a key has a larger fencing token than all earlier owners, in whatever way the owner acquired the key.
async fn grows_with_every_owner(subject: Subject) {
    let key = subject.key("k");
    let mut last = None;
    for round in 0..30 {
        let claim = Claim { fencing: round % 2 == 0, ..subject.mutex(&key) };
        let grant = subject.acquire(&claim).await;
        assert!(!claim.fencing || grant.fence.is_some(), "asked for with the grant");
        let token = Some(subject.token(&claim, &grant).await);
        assert!(token > last, "{token:?} after {last:?}");
        last = token;
        subject.release(&claim).await;
    }
}

/// The owner that follows an expired lease has a larger token.
async fn grows_over_expiry(subject: Subject) {
    let key = subject.key("k");
    let (gone, next) = (subject.brief(subject.mutex(&key)), subject.mutex(&key));
    let first = subject.acquire(&gone).await;
    let first = subject.token(&gone, &first).await;
    let second = subject.granted_within(&next, gone.ttl).await;
    assert!(subject.token(&next, &second).await > first);
    subject.release(&next).await;
}

/// A holder can request a token while it holds the key.
async fn on_demand(subject: Subject) {
    let key = subject.key("k");
    let claim = subject.mutex(&key);
    let grant = subject.acquire(&claim).await;
    let token = subject.backend().fence_dyn(&claim).await.expect("the holder gets a token");
    assert!(grant.fence.is_none_or(|fence| fence <= token));
    subject.release(&claim).await;
    let next = Claim { fencing: true, ..subject.mutex(&key) };
    let grant = subject.acquire(&next).await;
    assert!(grant.fence.expect("asked for with the grant") > token);
    subject.release(&next).await;
}

/// Only the holder gets a token. An owner gets none if it was refused, has released, or its lease has expired.
async fn only_for_the_holder(subject: Subject) {
    let key = subject.key("k");
    let (holder, refused, released) = (subject.mutex(&key), subject.mutex(&key), subject.mutex(&key));
    let ran_out = subject.brief(subject.mutex(&key));
    subject.acquire(&released).await;
    subject.release(&released).await;
    if leases(&subject.capability()) {
        subject.acquire(&ran_out).await;
    }
    subject.granted_within(&holder, ran_out.ttl).await;
    subject.refused(&refused).await;
    for (claim, who) in
        [(&refused, "refused"), (&released, "released"), (&ran_out, "ran out, or never asked")]
    {
        match subject.backend().fence_dyn(claim).await {
            Ok(token) => panic!("one who {who} got {token}"),
            Err(error) => assert_eq!(error.kind(), LockErrorKind::Lost, "one who {who}: {error}"),
        }
    }
    subject.release(&holder).await;
}

/// Readers have growing tokens too, and the next writer has a larger token than all readers.
async fn grows_over_readers(subject: Subject) {
    let key = subject.key("k");
    let mut tokens = Vec::new();
    let mut readers = Vec::new();
    for _ in 0..3 {
        let reader = Claim { fencing: true, ..subject.claim(&key, Mode::Shared, Queue::Barging) };
        let grant = subject.acquire(&reader).await;
        tokens.push(subject.token(&reader, &grant).await);
        readers.push(reader);
    }
    for reader in &readers {
        subject.release(reader).await;
    }
    let writer = Claim { fencing: true, ..subject.mutex(&key) };
    let grant = subject.acquire(&writer).await;
    tokens.push(subject.token(&writer, &grant).await);
    assert!(tokens.is_sorted_by(|first, second| first < second), "{tokens:?}");
    subject.release(&writer).await;
}
