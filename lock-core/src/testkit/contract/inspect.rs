//! Tests lists of holders, and forced releases.

use std::time::Duration;

use super::listener::{Event, Heard};
use super::{Case, Subject, leases, list};
use crate::backend::{Capability, Claim, GrantId, LockInfo, Mode, Queue, Released, Renew, Renewal};
use crate::clock;
use crate::error::LossReason;
use crate::key::Key;

/// The least difference that a case expects between the times of two grants. A store may round times to milliseconds.
const APART: Duration = Duration::from_millis(50);

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    let plain = list![
        |can: &Capability| can.lists;
        a_holder_is_listed_until_it_is_none,
        only_what_begins_with_the_prefix_is_listed,
        no_more_than_the_limit_is_listed,
        no_token_is_shown,
        one_key_is_looked_at_alone,
        only_the_grant_that_was_shown_is_taken_away,
        one_whose_grant_is_taken_away_is_told_and_loses,
    ];
    let shared = list![|can: &Capability| can.lists && can.shared; one_of_several_readers_is_taken_away];
    let permits = list![|can: &Capability| can.lists && can.permits; permits_are_listed_each];
    let queued = list![
        |can: &Capability| can.lists && can.waiting.in_order();
        those_who_wait_are_listed_in_order,
        the_next_is_served_when_a_grant_is_taken_away,
        one_that_waited_holds_since_its_grant,
    ];
    let kept = list![
        |can: &Capability| can.lists && can.keeps_after_release.is_some();
        what_is_kept_is_listed_as_such
    ];
    plain.into_iter().chain(kept).chain(shared).chain(permits).chain(queued)
}

async fn listed(subject: &Subject, prefix: &str) -> Vec<LockInfo> {
    let listed = subject.backend().list_dyn(prefix, false, 1_000).await.expect("a list");
    assert!(!listed.truncated, "{} locks are fewer than 1,000", listed.locks.len());
    listed.locks
}

/// Returns the lock on `key`. Fails if the key of another listed lock begins with `key`.
async fn info(subject: &Subject, key: &Key) -> LockInfo {
    let mut locks = listed(subject, key.as_str()).await;
    assert_eq!(locks.len(), 1, "locks that begin with {key}: {locks:?}");
    locks.remove(0)
}

async fn id(subject: &Subject, key: &Key) -> GrantId {
    info(subject, key).await.holders[0].id.clone()
}

async fn force_release(subject: &Subject, key: &Key, id: &GrantId) -> bool {
    subject.backend().force_release_dyn(key, id).await.expect("an answer to force_release")
}

async fn is_mine(subject: &Subject, claim: &Claim) -> bool {
    let renewed = subject.backend().renew_dyn(&[Renew { claim, ttl: claim.ttl }]).await;
    matches!(renewed[..], [Renewal::Renewed { .. }])
}

async fn a_holder_is_listed_until_it_is_none(subject: Subject) {
    let key = subject.key("k");
    assert!(listed(&subject, key.as_str()).await.is_empty());
    let claim = subject.exclusive(&key);
    subject.acquire(&claim).await;
    let lock = info(&subject, &key).await;
    assert_eq!((lock.key.as_str(), lock.mode, lock.waiting), (key.as_str(), Mode::Exclusive, 0));
    let [holder] = &lock.holders[..] else { panic!("one holder: {lock:?}") };
    let record = holder.record.as_ref().expect("a record");
    assert_eq!(record.identity().pid(), claim.record.identity().pid());
    if leases(&subject.capability()) {
        let remaining = holder.remaining.expect("a lease");
        assert!(remaining <= claim.ttl && remaining > claim.ttl / 2, "{remaining:?} of {:?}", claim.ttl);
    }
    assert!(!holder.kept);
    assert_eq!(id(&subject, &key).await, holder.id, "the same grant has the same id");
    assert_eq!(subject.release(&claim).await, Released::Released);
    assert!(listed(&subject, key.as_str()).await.is_empty());
}

async fn one_key_is_looked_at_alone(subject: Subject) {
    let [key, longer] = ["k", "k2"].map(|name| subject.key(name));
    let look = async || subject.backend().inspect_dyn(&key).await.expect("an answer");
    let other = subject.exclusive(&longer);
    subject.acquire(&other).await;
    assert!(look().await.is_none(), "another key begins with its name");
    subject.release(&other).await;
    let claim = subject.exclusive(&key);
    subject.acquire(&claim).await;
    let lock = look().await.expect("it is held");
    assert_eq!(
        (lock.key.as_str(), lock.mode, lock.holding, lock.waiting),
        (key.as_str(), Mode::Exclusive, 1, 0)
    );
    assert_eq!(lock.holders[0].id, id(&subject, &key).await, "as it is listed");
    if subject.capability().keeps_after_release.is_some() {
        subject.backend().release_dyn(&claim, Some(subject.long())).await.expect("an answer");
        let kept = look().await.expect("nobody gets it");
        assert!(kept.holders[0].kept, "{kept:?}");
        assert!(force_release(&subject, &key, &kept.holders[0].id).await);
    } else {
        subject.release(&claim).await;
    }
    assert!(look().await.is_none());
}

async fn only_what_begins_with_the_prefix_is_listed(subject: Subject) {
    let names = ["a*b", "axb", "a[x]", "a?b", "a\\b", "b"];
    let keys = names.map(|name| subject.key(name));
    for key in &keys {
        subject.acquire(&subject.exclusive(key)).await;
    }
    for key in &keys {
        let locks = listed(&subject, key.as_str()).await;
        assert_eq!(locks.iter().map(|lock| lock.key.as_str()).collect::<Vec<_>>(), [key.as_str()]);
    }
    let all = listed(&subject, subject.key("").as_str()).await;
    let mut expected = keys.each_ref().map(|key| key.as_str());
    expected.sort_unstable();
    assert_eq!(all.iter().map(|lock| lock.key.as_str()).collect::<Vec<_>>(), expected, "sorted");
}

async fn no_more_than_the_limit_is_listed(subject: Subject) {
    for number in 0..3 {
        subject.acquire(&subject.exclusive(&subject.key(&number.to_string()))).await;
    }
    let prefix = subject.key("");
    for (limit, count, truncated) in [(0, 0, true), (2, 2, true), (3, 3, false), (4, 3, false)] {
        let listed = subject.backend().list_dyn(prefix.as_str(), false, limit).await.expect("a list");
        assert_eq!((listed.locks.len(), listed.truncated), (count, truncated), "limit {limit}");
    }
}

async fn no_token_is_shown(subject: Subject) {
    let key = subject.key("k");
    let claim = subject.exclusive(&key);
    subject.acquire(&claim).await;
    if subject.capability().waiting.in_order() {
        subject.enqueue(&subject.claim(&key, Mode::Exclusive, Queue::Fifo)).await;
    }
    let shown = format!("{:?}", info(&subject, &key).await);
    // A token has 48 digits. The key is removed first, because its prefix contains 16 digits of another token.
    let token = claim.owner.token();
    assert!(!shown.replace(key.as_str(), "").contains(&token.as_str()[..32]), "a token is shown: {shown}");
}

async fn what_is_kept_is_listed_as_such(subject: Subject) {
    let key = subject.key("k");
    let claim = subject.exclusive(&key);
    subject.acquire(&claim).await;
    let keep = subject.long();
    subject.backend().release_dyn(&claim, Some(keep)).await.expect("an answer");
    let lock = info(&subject, &key).await;
    assert!(lock.holders[0].kept, "{lock:?}");
    assert!(!format!("{lock:?}").replace(key.as_str(), "").contains(&claim.owner.token().as_str()[..32]));
    assert!(force_release(&subject, &key, &lock.holders[0].id).await, "an operator can free it");
    assert!(subject.gets(&subject.exclusive(&key)).await);
}

async fn only_the_grant_that_was_shown_is_taken_away(subject: Subject) {
    let key = subject.key("k");
    let [first, second] = [subject.exclusive(&key), subject.exclusive(&key)];
    subject.acquire(&first).await;
    let shown = id(&subject, &key).await;
    let other: GrantId = "0".repeat(40).parse().expect("40 digits");
    assert!(!force_release(&subject, &key, &other).await);
    assert!(!force_release(&subject, &subject.key("other"), &shown).await);
    assert!(is_mine(&subject, &first).await);
    assert!(force_release(&subject, &key, &shown).await);
    assert!(!is_mine(&subject, &first).await);
    assert!(!force_release(&subject, &key, &shown).await, "once");
    subject.acquire(&second).await;
    assert!(!force_release(&subject, &key, &shown).await, "one that came later is not hit");
    assert!(is_mine(&subject, &second).await);
}

async fn one_whose_grant_is_taken_away_is_told_and_loses(subject: Subject) {
    let [key, other] = ["{one}k", "{one}other"].map(|name| subject.key(name));
    let claim = subject.exclusive(&key);
    let heard = Heard::new(&subject, claim.owner.process());
    subject.acquire(&claim).await;
    // Some stores notify a process only over a connection on which the process waits or has waited. So the process
    // waits for another key here. Both keys have the same hash tag, and so the same shard and connection.
    if subject.capability().waiting.by_heartbeats() {
        subject.acquire(&subject.stranger(&other, Mode::Exclusive, Queue::Barging)).await;
        subject.enqueue(&subject.claim(&other, Mode::Exclusive, Queue::Fifo)).await;
    }
    assert!(force_release(&subject, &key, &id(&subject, &key).await).await);
    assert!(heard.hears(&Event::Lost(claim.owner, LossReason::Forced)).await, "the holder is told");
    assert!(!is_mine(&subject, &claim).await);
    assert_eq!(subject.release(&claim).await, Released::Expired);
}

async fn one_of_several_readers_is_taken_away(subject: Subject) {
    let key = subject.key("k");
    let readers = [(); 3].map(|()| subject.claim(&key, Mode::Shared, Queue::Barging));
    for reader in &readers {
        subject.acquire(reader).await;
    }
    let lock = info(&subject, &key).await;
    assert_eq!((lock.mode, lock.holders.len()), (Mode::Shared, 3));
    assert!(force_release(&subject, &key, &lock.holders[1].id).await);
    let mut left = 0;
    for reader in &readers {
        left += usize::from(is_mine(&subject, reader).await);
    }
    assert_eq!(left, 2);
    let writer = subject.exclusive(&key);
    assert!(!subject.gets(&writer).await);
    for holder in &info(&subject, &key).await.holders {
        assert!(force_release(&subject, &key, &holder.id).await);
    }
    assert!(subject.gets(&writer).await, "the last one takes the key with it");
}

async fn permits_are_listed_each(subject: Subject) {
    let key = subject.key("k");
    let mode = Mode::Permit { of: 3 };
    for _ in 0..2 {
        subject.acquire(&subject.claim(&key, mode, Queue::Barging)).await;
    }
    let lock = info(&subject, &key).await;
    assert_eq!((lock.mode, lock.holders.len()), (mode, 2));
    assert_ne!(lock.holders[0].id, lock.holders[1].id);
}

async fn those_who_wait_are_listed_in_order(subject: Subject) {
    let key = subject.key("k");
    subject.acquire(&subject.exclusive(&key)).await;
    let modes = [Mode::Exclusive, Mode::Exclusive, Mode::Shared];
    let modes = if subject.capability().shared { modes } else { [Mode::Exclusive; 3] };
    for mode in modes {
        subject.enqueue(&subject.claim(&key, mode, Queue::Fifo)).await;
    }
    let lock = info(&subject, &key).await;
    assert_eq!(lock.waiting, 3);
    assert_eq!(lock.waiters.iter().map(|waiter| waiter.mode).collect::<Vec<_>>(), modes);
    assert!(lock.waiters.iter().all(|waiter| waiter.record.is_some()));
}

async fn the_next_is_served_when_a_grant_is_taken_away(subject: Subject) {
    let key = subject.key("k");
    let (holder, next) = (subject.exclusive(&key), subject.claim(&key, Mode::Exclusive, Queue::Fifo));
    subject.acquire(&holder).await;
    subject.enqueue(&next).await;
    assert!(force_release(&subject, &key, &id(&subject, &key).await).await);
    assert!(!subject.gets(&subject.exclusive(&key)).await, "nobody comes in between");
    assert!(subject.gets(&next).await);
}

/// A holder that waited shows the time of its grant, if the store keeps this time. The case compares only times of the
/// store, because the clock of the store may differ from the clock of this process.
async fn one_that_waited_holds_since_its_grant(subject: Subject) {
    let key = subject.key("k");
    let queued = || subject.claim(&key, Mode::Exclusive, Queue::Fifo);
    let (holder, second, third) = (subject.exclusive(&key), queued(), queued());
    subject.acquire(&holder).await;
    subject.enqueue(&second).await;
    subject.enqueue(&third).await;
    subject.release(&holder).await;
    let held_since = async |claim: &Claim| {
        assert!(subject.gets(claim).await);
        info(&subject, &key).await.holders[0].held_since
    };
    let first = held_since(&second).await;
    // Both tokio's clock and the wall clock must advance. A test may have paused tokio's clock, and the sleep then
    // takes no real time.
    tokio::time::sleep(2 * APART).await;
    let end = clock::wall() + 2 * APART;
    while clock::wall() < end {
        tokio::task::yield_now().await;
    }
    assert!(force_release(&subject, &key, &id(&subject, &key).await).await);
    let next = held_since(&third).await;
    assert_eq!(first.is_some(), next.is_some(), "{first:?} and {next:?}");
    assert!(next >= first.map(|first| first + APART), "they asked together; {first:?}, then {next:?}");
}
