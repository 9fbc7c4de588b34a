//! Tests readers and writers.

use super::{Case, Subject, leases, list};
use crate::backend::{Capability, Claim, Mode, Queue, Released};
use crate::key::Key;

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    let all = list![|can: &Capability| can.shared; readers_together, a_reader_keeps_writers_out, a_writer_keeps_readers_out,
        a_reader_asks_again];
    all.into_iter().chain(list![|can: &Capability| can.shared && leases(can); readers_end_one_by_one])
}

fn reader(subject: &Subject, key: &Key) -> Claim {
    subject.claim(key, Mode::Shared, Queue::Barging)
}

/// Any number of readers can hold a key together. After the last reader has released the key, a writer gets it.
async fn readers_together(subject: Subject) {
    let key = subject.key("k");
    let readers: Vec<_> = (0..10).map(|_| reader(&subject, &key)).collect();
    let writer = subject.exclusive(&key);
    for reader in &readers {
        subject.acquire(reader).await;
    }
    for reader in &readers {
        subject.refused(&writer).await;
        assert_eq!(subject.release(reader).await, Released::Released);
    }
    subject.acquire(&writer).await;
    subject.release(&writer).await;
}

/// A reader excludes writers, even after a renewal.
async fn a_reader_keeps_writers_out(subject: Subject) {
    let key = subject.key("k");
    let reader = subject.brief(reader(&subject, &key));
    subject.acquire(&reader).await;
    subject.renewed(&reader, subject.long()).await;
    subject.short_lease_runs_out().await;
    subject.refused(&subject.exclusive(&key)).await;
    subject.release(&reader).await;
}

/// A writer excludes readers and writers.
async fn a_writer_keeps_readers_out(subject: Subject) {
    let key = subject.key("k");
    let writer = subject.exclusive(&key);
    subject.acquire(&writer).await;
    subject.refused(&reader(&subject, &key)).await;
    subject.refused(&subject.exclusive(&key)).await;
    subject.release(&writer).await;
    let (first, second) = (reader(&subject, &key), reader(&subject, &key));
    subject.acquire(&first).await;
    subject.acquire(&second).await;
    subject.release(&first).await;
    subject.release(&second).await;
}

/// The hold of a dead reader ends with its own lease, even if other readers hold the key for longer and renew.
async fn readers_end_one_by_one(subject: Subject) {
    let key = subject.key("k");
    let (gone, stays) = (subject.brief(reader(&subject, &key)), reader(&subject, &key));
    subject.acquire(&gone).await;
    subject.acquire(&stays).await;
    subject.renewed(&stays, subject.long()).await;
    subject.short_lease_runs_out().await;
    subject.not_renewed(&gone).await;
    assert_ne!(subject.release(&gone).await, Released::Released);
    let writer = subject.exclusive(&key);
    subject.refused(&writer).await;
    subject.release(&stays).await;
    subject.acquire(&writer).await;
    subject.release(&writer).await;
}

/// A reader that acquires again is still one reader, and one release ends its hold.
async fn a_reader_asks_again(subject: Subject) {
    let key = subject.key("k");
    let (reader, writer) = (reader(&subject, &key), subject.exclusive(&key));
    let first = subject.acquire(&reader).await;
    let again = subject.acquire(&reader).await;
    assert_eq!(first.fence, again.fence);
    subject.release(&reader).await;
    subject.acquire(&writer).await;
    subject.release(&writer).await;
}
