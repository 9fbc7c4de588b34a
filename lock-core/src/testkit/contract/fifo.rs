//! Strict order of arrival.

use std::time::Duration;

use super::{Case, Subject, list};
use crate::backend::{Capability, Claim, Mode, Queue};
use crate::key::Key;

/// What a waiter that stopped asking may cost those behind it.
const DEAD: Duration = Duration::from_secs(2);

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    let all = list![|can: &Capability| can.fifo; order_of_arrival, one_who_leaves, one_who_dies, keeps_its_place,
        a_holder_that_dies];
    let shared = list![|can: &Capability| can.fifo && can.shared; a_writer_is_not_overtaken];
    let permits = list![|can: &Capability| can.fifo && can.permits; permits_in_order];
    all.into_iter().chain(shared).chain(permits)
}

fn fifo(subject: &Subject, key: &Key, mode: Mode) -> Claim {
    subject.claim(key, mode, Queue::Fifo)
}

/// A key that is held, and claims that were refused it one after another.
async fn line<const N: usize>(subject: &Subject, key: &Key) -> (Claim, [Claim; N]) {
    let holder = fifo(subject, key, Mode::Exclusive);
    subject.acquire(&holder).await;
    let claims = std::array::from_fn(|_| fifo(subject, key, Mode::Exclusive));
    for claim in &claims {
        subject.refused(claim).await;
    }
    (holder, claims)
}

/// Claims are granted in the order of their first refusal, whoever asks first when the key is free.
async fn order_of_arrival(subject: Subject) {
    let key = subject.key("k");
    let (mut holder, claims) = line::<4>(&subject, &key).await;
    for (number, claim) in claims.iter().enumerate() {
        subject.release(&holder).await;
        for later in claims[number + 1..].iter().rev() {
            subject.refused(later).await;
        }
        subject.refused(&fifo(&subject, &key, Mode::Exclusive)).await;
        subject.granted_within(claim, Duration::ZERO).await;
        holder = claim.clone();
    }
    subject.release(&holder).await;
}

/// One who gives up leaves the queue with its release, and the next is served without waiting for its death.
async fn one_who_leaves(subject: Subject) {
    let key = subject.key("k");
    let (holder, [leaves, stays]) = line(&subject, &key).await;
    subject.release(&leaves).await;
    subject.release(&holder).await;
    let before = subject.now();
    subject.granted_within(&stays, Duration::ZERO).await;
    let waited = subject.now().since(before);
    assert!(waited < DEAD.mul_f64(0.8), "served after {waited:?}");
    subject.release(&stays).await;
}

/// One who stops asking holds up the queue for no longer than two seconds.
async fn one_who_dies(subject: Subject) {
    let key = subject.key("k");
    let (holder, [_dead, stays]) = line(&subject, &key).await;
    subject.release(&holder).await;
    subject.granted_within(&stays, DEAD).await;
    subject.release(&stays).await;
}

/// One who goes on asking keeps its place for longer than a dead one would.
async fn keeps_its_place(subject: Subject) {
    let key = subject.key("k");
    let (holder, [first, second]) = line(&subject, &key).await;
    let end = subject.now().plus(DEAD + DEAD / 4);
    while !end.is_past(subject.now()) {
        subject.refused(&first).await;
        subject.refused(&second).await;
        tokio::time::sleep(DEAD / 16).await;
    }
    subject.release(&holder).await;
    subject.refused(&second).await;
    subject.granted_within(&first, Duration::ZERO).await;
    subject.release(&first).await;
    subject.granted_within(&second, Duration::ZERO).await;
    subject.release(&second).await;
}

/// The lease of a holder that went away runs out in a queue as well, and the first in line is served.
async fn a_holder_that_dies(subject: Subject) {
    let key = subject.key("k");
    let gone = subject.brief(fifo(&subject, &key, Mode::Exclusive));
    let (first, second) = (fifo(&subject, &key, Mode::Exclusive), fifo(&subject, &key, Mode::Exclusive));
    subject.acquire(&gone).await;
    subject.refused(&first).await;
    subject.refused(&second).await;
    subject.granted_within(&first, gone.ttl).await;
    subject.refused(&second).await;
    subject.release(&first).await;
    subject.granted_within(&second, Duration::ZERO).await;
    subject.release(&second).await;
}

/// A reader that comes after a waiting writer waits for it, though other readers hold.
async fn a_writer_is_not_overtaken(subject: Subject) {
    let key = subject.key("k");
    let [reader, late] = [(); 2].map(|()| fifo(&subject, &key, Mode::Shared));
    let writer = fifo(&subject, &key, Mode::Exclusive);
    subject.acquire(&reader).await;
    subject.refused(&writer).await;
    subject.refused(&late).await;
    subject.release(&reader).await;
    subject.refused(&late).await;
    subject.granted_within(&writer, Duration::ZERO).await;
    subject.release(&writer).await;
    subject.granted_within(&late, Duration::ZERO).await;
    subject.release(&late).await;
}

/// Permits are given in order of arrival as well.
async fn permits_in_order(subject: Subject) {
    let key = subject.key("k");
    let [a, b, c, d] = [(); 4].map(|()| fifo(&subject, &key, Mode::Permit { of: 2 }));
    subject.acquire(&a).await;
    subject.acquire(&b).await;
    subject.refused(&c).await;
    subject.refused(&d).await;
    subject.release(&a).await;
    subject.refused(&d).await;
    subject.granted_within(&c, Duration::ZERO).await;
    subject.release(&b).await;
    subject.granted_within(&d, Duration::ZERO).await;
    subject.release(&c).await;
    subject.release(&d).await;
}
