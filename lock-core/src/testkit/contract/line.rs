//! Tests what the store reports about a queue, and which claims are not queued.

use std::time::Duration;

use super::{Case, Subject, leases, list};
use crate::backend::{Capability, Claim, Mode, Queue, Renewal};
use crate::key::Key;

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    list![|can: &Capability| can.waiting.in_order(); tells_positions, tells_how_many_wait, has_room_for_so_many, places_are_dated,
        managers_pass_it_on_themselves, one_who_barges_waits_for_another_manager,
        one_who_waits_is_seen_by_the_holder]
}

fn fifo(subject: &Subject, key: &Key) -> Claim {
    subject.claim(key, Mode::Exclusive, Queue::Fifo)
}

async fn held(subject: &Subject, key: &Key) -> Claim {
    let holder = fifo(subject, key);
    subject.acquire(&holder).await;
    holder
}

/// Every waiter gets the number of waiters before it, and the number of all other waiters.
async fn tells_positions(subject: Subject) {
    let key = subject.key("k");
    let holder = held(&subject, &key).await;
    let line = [(); 3].map(|()| fifo(&subject, &key));
    for (number, claim) in line.iter().enumerate() {
        let told = subject.enqueued(claim).await;
        assert_eq!((told.position, told.waiters), (Some(number), Some(number)));
    }
    let told = subject.still_waits(&line[0]).await;
    assert_eq!((told.position, told.waiters), (Some(0), Some(2)));
    let told = subject.refused(&fifo(&subject, &key)).await;
    assert_eq!((told.position, told.waiters), (None, Some(3)), "of one who tries");
    subject.release(&line[0]).await;
    let told = subject.still_waits(&line[2]).await;
    assert_eq!((told.position, told.waiters), (Some(1), Some(1)));
    for claim in line.iter().chain([&holder]) {
        subject.release(claim).await;
    }
}

/// The holder gets the number of waiting claims with its grant and with every renewal.
async fn tells_how_many_wait(subject: Subject) {
    let key = subject.key("k");
    let holder = held(&subject, &key).await;
    let line = [(); 2].map(|()| fifo(&subject, &key));
    for (number, claim) in line.iter().enumerate() {
        tells_waiters(&subject, &holder, number).await;
        subject.enqueued(claim).await;
    }
    tells_waiters(&subject, &holder, 2).await;
    subject.release(&holder).await;
    assert_eq!(subject.served(&line[0], Duration::ZERO).await.waiters, Some(1));
    tells_waiters(&subject, &line[0], 1).await;
    subject.release(&line[1]).await;
    tells_waiters(&subject, &line[0], 0).await;
    subject.release(&line[0]).await;
}

/// Checks the number of waiters in the answer to a renewal. If grants live in a session, a renewal may be answered
/// without a request to the store. The answer then has no number.
async fn tells_waiters(subject: &Subject, holder: &Claim, expected: usize) {
    match subject.renew(holder, subject.long()).await {
        Renewal::Renewed { waiters: None, .. } if !leases(&subject.capability()) => {}
        Renewal::Renewed { waiters, .. } => assert_eq!(waiters, Some(expected)),
        answer => panic!("the holder may renew: {answer:?}"),
    }
}

/// A full queue accepts no further entry, and its existing entries stay.
async fn has_room_for_so_many(subject: Subject) {
    let key = subject.key("k");
    let holder = held(&subject, &key).await;
    let [first, second] = [(); 2].map(|()| fifo(&subject, &key));
    for (claim, room, place) in
        [(&first, 0, false), (&first, 1, true), (&second, 1, false), (&second, 2, true)]
    {
        let told = subject.enqueue_with_room(claim, Some(room)).await;
        assert_eq!(told.queued_at.is_some(), place, "room for {room}: {told:?}");
        if place {
            subject.still_waits(claim).await;
        }
    }
    if !subject.capability().waiting.by_heartbeats() {
        assert!(
            subject.enqueue_with_room(&first, Some(0)).await.queued_at.is_some(),
            "it has its place already"
        );
    }
    subject.release(&holder).await;
    subject.served(&first, Duration::ZERO).await;
    subject.release(&first).await;
    subject.served(&second, Duration::ZERO).await;
    subject.release(&second).await;
}

/// The time of a queue entry is between the call that created or kept it and the answer to that call.
async fn places_are_dated(subject: Subject) {
    let key = subject.key("k");
    let (holder, claim) = (held(&subject, &key).await, fifo(&subject, &key));
    let mut before = subject.now();
    let mut told = subject.enqueued(&claim).await;
    for _ in 0..2 {
        let place = told.queued_at.expect("a place");
        assert!(before.is_past(place) && place.is_past(subject.now()), "dated outside the call");
        tokio::time::sleep(Duration::from_millis(2)).await;
        before = subject.now();
        told = subject.still_waits(&claim).await;
    }
    subject.release(&claim).await;
    subject.release(&holder).await;
}

/// A barging claim is not queued while its own manager holds the key, because the manager itself hands the key off. A
/// claim in order of arrival is queued.
async fn managers_pass_it_on_themselves(subject: Subject) {
    let key = subject.key("k");
    let (holder, barges) = (subject.exclusive(&key), subject.exclusive(&key));
    subject.acquire(&holder).await;
    for _ in 0..2 {
        let told = subject.enqueue(&barges).await;
        assert_eq!((told.own, told.queued_at, told.position), (true, None, None));
    }
    let told = subject.enqueued(&fifo(&subject, &key)).await;
    assert_eq!((told.own, told.position), (true, Some(0)));
    subject.release(&barges).await;
    subject.release(&holder).await;
}

/// The store answers that others wait while another claim waits for the key, and also if the owner no longer holds the
/// key.
async fn one_who_waits_is_seen_by_the_holder(subject: Subject) {
    let key = subject.key("k");
    let (holder, waits) = (subject.exclusive(&key), subject.stranger(&key, Mode::Exclusive, Queue::Barging));
    subject.acquire(&holder).await;
    subject.enqueued(&waits).await;
    let others_wait = async || subject.backend().others_wait_dyn(&holder).await.expect("an answer");
    assert!(others_wait().await, "somebody waits");
    subject.release(&waits).await;
    subject.release(&holder).await;
    assert!(others_wait().await, "it does not hold the key");
    let stranger = subject.stranger(&key, Mode::Exclusive, Queue::Barging);
    subject.acquire(&stranger).await;
    assert!(others_wait().await, "somebody else holds the key");
    subject.release(&stranger).await;
}

/// A barging claim is queued while another manager holds the key, and is served when that manager releases the key.
async fn one_who_barges_waits_for_another_manager(subject: Subject) {
    let key = subject.key("k");
    let (holder, barges) = (subject.exclusive(&key), subject.stranger(&key, Mode::Exclusive, Queue::Barging));
    subject.acquire(&holder).await;
    let told = subject.enqueued(&barges).await;
    assert_eq!((told.own, told.position), (false, Some(0)));
    let own = subject.enqueue(&subject.exclusive(&key)).await;
    assert_eq!((own.own, own.queued_at), (true, None));
    subject.release(&holder).await;
    subject.served(&barges, Duration::ZERO).await;
    assert!(!subject.refused(&subject.exclusive(&key)).await.own, "another manager has it now");
    subject.release(&barges).await;
}
