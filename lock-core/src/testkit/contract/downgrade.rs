//! Tests downgrades from exclusive to shared. A shared lock cannot be upgraded.

use std::time::Duration;

use super::{Case, Subject, leases, list};
use crate::backend::{Capability, Claim, Mode, Queue, Released, Renewal};

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    let all = list![|can: &Capability| can.shared; lets_readers_in, is_for_the_holder, goes_one_way];
    let leased = list![|can: &Capability| can.shared && leases(can); has_the_lease_of_its_ttl];
    let fifo = list![|can: &Capability| can.shared && can.waiting.in_order(); serves_readers_that_wait, overtakes_no_writer];
    all.into_iter().chain(leased).chain(fifo)
}

async fn downgraded(subject: &Subject, claim: &mut Claim) {
    let before = subject.now();
    let Renewal::Renewed { sent, .. } = subject.backend().downgrade_dyn(claim).await else {
        panic!("the holder may");
    };
    assert!(before.is_past(sent) && sent.is_past(subject.now()), "sent outside the call");
    claim.mode = Mode::Shared;
}

/// A downgraded writer admits other readers, excludes writers, and behaves as a reader in every way.
async fn lets_readers_in(subject: Subject) {
    let key = subject.key("k");
    let mut claim = subject.exclusive(&key);
    let [reader, next] = [(); 2].map(|()| subject.claim(&key, Mode::Shared, Queue::Barging));
    subject.acquire(&claim).await;
    subject.refused(&reader).await;
    for _ in 0..2 {
        // A repeated downgrade gets the same answer.
        downgraded(&subject, &mut claim).await;
    }
    subject.acquire(&reader).await;
    subject.refused(&subject.exclusive(&key)).await;
    subject.renewed(&claim, subject.long()).await;
    assert_eq!(subject.release(&reader).await, Released::Released);
    subject.refused(&subject.exclusive(&key)).await;
    subject.acquire(&next).await;
    assert_eq!(subject.release(&claim).await, Released::Released);
    subject.not_renewed(&claim).await;
    subject.release(&next).await;
    subject.acquire(&subject.exclusive(&key)).await;
}

/// After a downgrade, the lease starts again with the ttl of the claim.
async fn has_the_lease_of_its_ttl(subject: Subject) {
    let (longer, shorter) = (subject.key("longer"), subject.key("shorter"));
    let mut claim = subject.brief(subject.exclusive(&longer));
    subject.acquire(&claim).await;
    claim.ttl = subject.long();
    downgraded(&subject, &mut claim).await;
    subject.short_lease_runs_out().await;
    subject.refused(&subject.exclusive(&longer)).await;
    subject.release(&claim).await;
    let mut claim = subject.brief(subject.exclusive(&shorter));
    subject.acquire(&claim).await;
    downgraded(&subject, &mut claim).await;
    subject.granted_within(&subject.exclusive(&shorter), claim.ttl).await;
    subject.not_renewed(&claim).await;
}

/// No owner can downgrade a grant of another owner, or a grant that has ended.
async fn is_for_the_holder(subject: Subject) {
    let key = subject.key("k");
    let (holder, other, over) = (subject.exclusive(&key), subject.exclusive(&key), subject.exclusive(&key));
    subject.acquire(&over).await;
    subject.release(&over).await;
    let answer = subject.backend().downgrade_dyn(&over).await;
    assert!(matches!(answer, Renewal::NotOwned), "of nothing: {answer:?}");
    subject.acquire(&holder).await;
    for claim in [&other, &over] {
        let answer = subject.backend().downgrade_dyn(claim).await;
        assert!(matches!(answer, Renewal::NotOwned), "of another's: {answer:?}");
    }
    subject.refused(&subject.claim(&key, Mode::Shared, Queue::Barging)).await;
    subject.release(&holder).await;
}

/// A reader cannot become a writer by acquiring the key exclusively, even if it is the only reader.
async fn goes_one_way(subject: Subject) {
    let key = subject.key("k");
    let [reader, other] = [(); 2].map(|()| subject.claim(&key, Mode::Shared, Queue::Barging));
    subject.acquire(&reader).await;
    let upgrade = Claim { mode: Mode::Exclusive, ..reader.clone() };
    assert!(!subject.gets(&upgrade).await, "alone");
    subject.acquire(&other).await;
    assert!(!subject.gets(&upgrade).await, "beside another");
    subject.renewed(&reader, subject.long()).await;
    subject.release(&reader).await;
    subject.release(&other).await;
}

/// Readers that wait at the head of the queue are served when the writer is downgraded.
async fn serves_readers_that_wait(subject: Subject) {
    let key = subject.key("k");
    let mut claim = subject.exclusive(&key);
    let [first, second] = [(); 2].map(|()| subject.claim(&key, Mode::Shared, Queue::Fifo));
    let writer = subject.claim(&key, Mode::Exclusive, Queue::Fifo);
    subject.acquire(&claim).await;
    for waits in [&first, &second, &writer] {
        subject.enqueued(waits).await;
    }
    downgraded(&subject, &mut claim).await;
    subject.served(&second, Duration::ZERO).await;
    subject.served(&first, Duration::ZERO).await;
    subject.still_waits(&writer).await;
    for reader in [&claim, &first, &second] {
        subject.still_waits(&writer).await;
        assert_eq!(subject.release(reader).await, Released::Released);
    }
    subject.served(&writer, Duration::ZERO).await;
    subject.release(&writer).await;
}

/// Readers that arrived after a waiting writer continue to wait.
async fn overtakes_no_writer(subject: Subject) {
    let key = subject.key("k");
    let mut claim = subject.exclusive(&key);
    let reader = subject.claim(&key, Mode::Shared, Queue::Fifo);
    let writer = subject.claim(&key, Mode::Exclusive, Queue::Fifo);
    subject.acquire(&claim).await;
    subject.enqueued(&writer).await;
    subject.enqueued(&reader).await;
    downgraded(&subject, &mut claim).await;
    subject.still_waits(&reader).await;
    subject.release(&claim).await;
    subject.served(&writer, Duration::ZERO).await;
    subject.release(&writer).await;
    subject.served(&reader, Duration::ZERO).await;
    subject.release(&reader).await;
}
