//! Tests that claims in order of arrival do not overtake each other.

use std::time::Duration;

use super::{Case, Subject, leases, list};
use crate::backend::{Capability, Claim, Heartbeat, Mode, Queue, Released, WAITER_LEASE};
use crate::key::Key;

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    let all = list![|can: &Capability| can.waiting.in_order(); a_try_takes_no_place, order_of_arrival, one_who_leaves,
        one_who_leaves_when_served, keeps_its_place];
    let leased = list![|can: &Capability| can.waiting.in_order() && leases(can); one_who_dies,
        one_who_dies_with_a_short_ttl, a_holder_that_dies];
    let shared = list![|can: &Capability| can.waiting.in_order() && can.shared; a_writer_is_not_overtaken, readers_at_the_head_together];
    let permits = list![|can: &Capability| can.waiting.in_order() && can.permits; permits_in_order];
    let beats =
        list![|can: &Capability| can.waiting.by_heartbeats(); without_a_place_there_is_nothing_to_keep];
    all.into_iter().chain(leased).chain(shared).chain(permits).chain(beats)
}

fn fifo(subject: &Subject, key: &Key, mode: Mode) -> Claim {
    subject.claim(key, mode, Queue::Fifo)
}

/// Returns the holder of a key and `N` claims that wait for it, in their order.
async fn line<const N: usize>(subject: &Subject, key: &Key) -> (Claim, [Claim; N]) {
    let holder = fifo(subject, key, Mode::Exclusive);
    subject.acquire(&holder).await;
    let claims = std::array::from_fn(|_| fifo(subject, key, Mode::Exclusive));
    for claim in &claims {
        subject.enqueued(claim).await;
    }
    (holder, claims)
}

/// A claim that does not wait gets no queue entry, and overtakes no claim that has a queue entry.
async fn a_try_takes_no_place(subject: Subject) {
    let key = subject.key("k");
    let [holder, tries, waits] = [(); 3].map(|()| fifo(&subject, &key, Mode::Exclusive));
    subject.acquire(&holder).await;
    let held = subject.refused(&tries).await;
    assert_eq!((held.queued_at, held.position), (None, None), "a place for one who tried");
    let held = subject.enqueued(&waits).await;
    assert_eq!(held.position, Some(0), "behind one who tried");
    subject.release(&holder).await;
    subject.refused(&tries).await;
    subject.served(&waits, Duration::ZERO).await;
    subject.release(&waits).await;
    subject.acquire(&tries).await;
    subject.release(&tries).await;
}

/// Claims are granted in the order in which they were queued, even if a later claim is the first to request the free
/// key.
async fn order_of_arrival(subject: Subject) {
    let key = subject.key("k");
    let (mut holder, claims) = line::<4>(&subject, &key).await;
    for (number, claim) in claims.iter().enumerate() {
        subject.release(&holder).await;
        for later in claims[number + 1..].iter().rev() {
            subject.still_waits(later).await;
        }
        subject.refused(&fifo(&subject, &key, Mode::Exclusive)).await;
        subject.served(claim, Duration::ZERO).await;
        holder = claim.clone();
    }
    subject.release(&holder).await;
}

/// When a claim gives up, its release removes its queue entry. So the next claim does not wait until that entry would
/// expire.
async fn one_who_leaves(subject: Subject) {
    let key = subject.key("k");
    let (holder, [leaves, stays]) = line(&subject, &key).await;
    assert_ne!(subject.release(&leaves).await, Released::Released, "it had nothing but a place");
    subject.release(&holder).await;
    at_once(&subject, &stays).await;
    subject.release(&stays).await;
}

/// A claim may give up after it was granted, but before it has noticed the grant. Its release then passes the key to
/// the next claim.
async fn one_who_leaves_when_served(subject: Subject) {
    let key = subject.key("k");
    let (holder, [leaves, stays]) = line(&subject, &key).await;
    subject.release(&holder).await;
    subject.release(&leaves).await;
    at_once(&subject, &stays).await;
    subject.release(&stays).await;
    assert_ne!(subject.release(&leaves).await, Released::Released);
    subject.acquire(&fifo(&subject, &key, Mode::Exclusive)).await;
}

async fn at_once(subject: &Subject, claim: &Claim) {
    let lease = subject.waiter_lease();
    let before = subject.now();
    subject.served(claim, Duration::ZERO).await;
    let waited = subject.now().since(before);
    assert!(waited < lease.mul_f64(0.8), "served after {waited:?}");
}

/// A waiter that stops sending heartbeats delays the queue for at most the waiter lease of the store.
async fn one_who_dies(subject: Subject) {
    let lease = subject.waiter_lease();
    let key = subject.key("k");
    let (holder, [_dead, stays]) = line(&subject, &key).await;
    subject.release(&holder).await;
    let before = subject.now();
    subject.served(&stays, WAITER_LEASE).await;
    let waited = subject.now().since(before);
    assert!(waited < lease.mul_f64(1.5), "served after {waited:?}");
    subject.release(&stays).await;
}

/// A dead waiter with a short ttl delays the queue for at most that ttl.
async fn one_who_dies_with_a_short_ttl(subject: Subject) {
    let lease = subject.waiter_lease();
    let key = subject.key("k");
    let (holder, []) = line(&subject, &key).await;
    let dead = subject.brief(fifo(&subject, &key, Mode::Exclusive));
    let stays = fifo(&subject, &key, Mode::Exclusive);
    subject.enqueued(&dead).await;
    subject.enqueued(&stays).await;
    subject.release(&holder).await;
    let before = subject.now();
    subject.served(&stays, dead.ttl).await;
    let waited = subject.now().since(before);
    assert!(waited < dead.ttl.min(lease) + lease / 2, "served after {waited:?}");
    subject.release(&stays).await;
}

/// A waiter that sends heartbeats keeps its queue entry for longer than the waiter lease of the store.
async fn keeps_its_place(subject: Subject) {
    let lease = subject.waiter_lease();
    let key = subject.key("k");
    let (holder, [first, second]) = line(&subject, &key).await;
    let end = subject.now().plus(lease + lease / 4);
    while !end.is_past(subject.now()) {
        subject.still_waits(&first).await;
        subject.still_waits(&second).await;
        tokio::time::sleep(lease / 16).await;
    }
    subject.release(&holder).await;
    subject.still_waits(&second).await;
    subject.served(&first, Duration::ZERO).await;
    subject.release(&first).await;
    subject.served(&second, Duration::ZERO).await;
    subject.release(&second).await;
}

/// The lease of a dead holder also expires while other claims wait. The first claim in the queue is then served with
/// its full lease.
async fn a_holder_that_dies(subject: Subject) {
    let key = subject.key("k");
    let gone = subject.brief(fifo(&subject, &key, Mode::Exclusive));
    let [first, second] = [(); 2].map(|()| fifo(&subject, &key, Mode::Exclusive));
    subject.acquire(&gone).await;
    subject.enqueued(&first).await;
    subject.enqueued(&second).await;
    let grant = subject.served_before(&first, &[&second], gone.ttl).await;
    assert!(grant.lease >= first.ttl, "a lease of {:?} for a ttl of {:?}", grant.lease, first.ttl);
    subject.still_waits(&second).await;
    subject.not_renewed(&gone).await;
    subject.release(&first).await;
    subject.served(&second, Duration::ZERO).await;
    subject.release(&second).await;
}

/// A reader that arrives after a waiting writer waits for this writer, although other readers hold the key.
async fn a_writer_is_not_overtaken(subject: Subject) {
    let key = subject.key("k");
    let [reader, late, tries] = [(); 3].map(|()| fifo(&subject, &key, Mode::Shared));
    let writer = fifo(&subject, &key, Mode::Exclusive);
    subject.acquire(&reader).await;
    subject.enqueued(&writer).await;
    subject.refused(&tries).await;
    subject.enqueued(&late).await;
    subject.release(&reader).await;
    subject.still_waits(&late).await;
    subject.served(&writer, Duration::ZERO).await;
    subject.still_waits(&late).await;
    subject.release(&writer).await;
    subject.served(&late, Duration::ZERO).await;
    subject.release(&late).await;
}

/// The readers at the head of the queue are served together. Readers behind the next writer continue to wait.
async fn readers_at_the_head_together(subject: Subject) {
    let key = subject.key("k");
    let (holder, writer) = (fifo(&subject, &key, Mode::Exclusive), fifo(&subject, &key, Mode::Exclusive));
    let [first, second, late] = [(); 3].map(|()| fifo(&subject, &key, Mode::Shared));
    subject.acquire(&holder).await;
    for claim in [&first, &second, &writer, &late] {
        subject.enqueued(claim).await;
    }
    subject.release(&holder).await;
    subject.served(&second, Duration::ZERO).await;
    subject.served(&first, Duration::ZERO).await;
    subject.still_waits(&late).await;
    subject.release(&first).await;
    subject.still_waits(&writer).await;
    subject.release(&second).await;
    subject.served(&writer, Duration::ZERO).await;
    subject.still_waits(&late).await;
    subject.release(&writer).await;
    subject.served(&late, Duration::ZERO).await;
    subject.release(&late).await;
}

/// Permits are also granted in order of arrival.
async fn permits_in_order(subject: Subject) {
    let key = subject.key("k");
    let [a, b, c, d] = [(); 4].map(|()| fifo(&subject, &key, Mode::Permit { of: 2 }));
    subject.acquire(&a).await;
    subject.acquire(&b).await;
    subject.enqueued(&c).await;
    subject.enqueued(&d).await;
    subject.release(&a).await;
    subject.still_waits(&d).await;
    subject.refused(&fifo(&subject, &key, Mode::Permit { of: 2 })).await;
    subject.served(&c, Duration::ZERO).await;
    subject.release(&b).await;
    subject.served(&d, Duration::ZERO).await;
    subject.release(&c).await;
    subject.release(&d).await;
}

/// A heartbeat of an owner without a queue entry creates no entry.
async fn without_a_place_there_is_nothing_to_keep(subject: Subject) {
    let key = subject.key("k");
    let (holder, [leaves]) = line(&subject, &key).await;
    let never = fifo(&subject, &key, Mode::Exclusive);
    subject.release(&leaves).await;
    for claim in [&leaves, &never] {
        let heartbeat = subject.backend().heartbeat_dyn(claim).await.expect("an answer to heartbeat");
        assert!(matches!(heartbeat, Heartbeat::Gone), "{heartbeat:?}");
    }
    subject.release(&holder).await;
    subject.acquire(&fifo(&subject, &key, Mode::Exclusive)).await;
}
