//! Tests grants that live in the session of their process.

use std::sync::Arc;
use std::time::Duration;

use super::listener::{Event, Heard};
use super::{Case, Subject, leases, list};
use crate::backend::{Attempt, Capability, Claim, Mode, Queue, Released};
use crate::error::LossReason;
use crate::key::Key;
use crate::testkit::Claims;

/// The longest time that the start of a session may take.
const BEGINS: Duration = Duration::from_secs(10);

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    let all = list![|can: &Capability| !leases(can); its_end_frees_what_it_holds, nothing_ends_before_it,
        its_end_is_told_to_its_holders, is_renewed_until_its_end, a_release_after_its_end_is_answered,
        another_begins_after_its_end];
    let queued = |can: &Capability| !leases(can) && can.waiting.in_order();
    let watched = |can: &Capability| !leases(can) && can.waiting.watches();
    let queued = list![queued; its_end_takes_its_queue_entries_along];
    let several = list![|can: &Capability| !leases(can) && can.several; its_end_frees_every_key_of_several];
    let watched = list![watched; its_end_wakes_those_who_wait_for_it];
    all.into_iter().chain(queued).chain(several).chain(watched)
}

/// A manager with its own session, which can end while the session of the case continues.
struct Manager {
    subject: Subject,
    claims: Claims,
    heard: Arc<Heard>,
}

impl Manager {
    fn attach(subject: &Subject) -> Self {
        let claims = Claims::new().expect("random bytes");
        let heard = Heard::new(subject, claims.owner().process());
        Self { subject: subject.clone(), claims, heard }
    }

    fn claim(&self, key: &Key, queue: Queue) -> Claim {
        self.claims.claim(key, Mode::Exclusive, queue, self.subject.long())
    }

    async fn acquired(&self, key: &Key) -> Claim {
        let begins = async {
            loop {
                let claim = self.claim(key, Queue::Barging);
                match self.subject.attempt(&claim).await {
                    Ok(Attempt::Granted(_)) => return claim,
                    // The old session may not have ended yet, or the next session may not have begun yet.
                    Ok(Attempt::Held(_)) => {}
                    Err(error) => assert!(error.is_temporary(), "{error}"),
                }
                // The session may also end during this release, which then gets no answer.
                if let Err(error) = self.subject.backend().release_dyn(&claim, None).await {
                    assert!(error.is_temporary(), "{error}");
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(BEGINS, begins).await.expect("a session begins")
    }

    async fn end(&self) {
        self.subject.end_session(self.claims.owner().process()).await;
    }
}

fn keys<const N: usize>(subject: &Subject) -> [Key; N] {
    std::array::from_fn(|number| subject.key(&number.to_string()))
}

/// The end of a session frees all keys of its grants, and no other keys.
async fn its_end_frees_what_it_holds(subject: Subject) {
    let [first, second, other] = keys(&subject);
    let (ends, stays) = (Manager::attach(&subject), Manager::attach(&subject));
    ends.acquired(&first).await;
    ends.acquired(&second).await;
    let kept = stays.acquired(&other).await;
    ends.end().await;
    for key in [&first, &second] {
        let next = subject.exclusive(key);
        subject.granted_within(&next, Duration::ZERO).await;
        subject.release(&next).await;
    }
    subject.refused(&subject.exclusive(&other)).await;
    subject.renewed(&kept, subject.long()).await;
    subject.release(&kept).await;
}

/// A grant stays while its session lives, even if the ttl of its claim is short, or the grant is not renewed.
async fn nothing_ends_before_it(subject: Subject) {
    let [key] = keys(&subject);
    let claim = subject.brief(subject.exclusive(&key));
    subject.acquire(&claim).await;
    for _ in 0..3 {
        tokio::time::sleep(claim.ttl).await;
        subject.refused(&subject.exclusive(&key)).await;
    }
    assert_eq!(subject.release(&claim).await, Released::Released);
}

/// The process is notified of the end of its session, once for each grant in the session. Released grants are not
/// included.
async fn its_end_is_told_to_its_holders(subject: Subject) {
    let [first, second, free] = keys(&subject);
    let (ends, stays) = (Manager::attach(&subject), Manager::attach(&subject));
    let held = [ends.acquired(&first).await, ends.acquired(&second).await];
    let released = ends.acquired(&free).await;
    subject.release(&released).await;
    ends.end().await;
    let lost = |claim: &Claim| Event::Lost(claim.owner, LossReason::SessionEnded);
    for claim in &held {
        assert!(ends.heard.hears(&lost(claim)).await, "nobody told the holder");
        assert_eq!((ends.heard.count(&lost(claim)), stays.heard.count(&lost(claim))), (1, 0));
    }
    assert_eq!(ends.heard.count(&lost(&released)), 0, "told of what it gave back");
}

/// A grant can be renewed while its session lives. A later session of the same process cannot renew the grant.
async fn is_renewed_until_its_end(subject: Subject) {
    let [first, second] = keys(&subject);
    let ends = Manager::attach(&subject);
    let claim = ends.acquired(&first).await;
    subject.renewed(&claim, subject.long()).await;
    ends.end().await;
    let next = ends.acquired(&second).await;
    subject.not_renewed(&claim).await;
    subject.renewed(&next, subject.long()).await;
    subject.release(&next).await;
}

/// The release of a grant whose session has ended is answered, and changes no other grant.
async fn a_release_after_its_end_is_answered(subject: Subject) {
    let [taken, free] = keys(&subject);
    let ends = Manager::attach(&subject);
    let (lost, gone) = (ends.acquired(&taken).await, ends.acquired(&free).await);
    ends.end().await;
    let next = subject.exclusive(&taken);
    subject.granted_within(&next, Duration::ZERO).await;
    // A release that is under way when the session ends gets no answer.
    assert!(
        ends.heard.hears(&Event::Lost(lost.owner, LossReason::SessionEnded)).await,
        "nobody told the holder"
    );
    assert_eq!(subject.release(&lost).await, Released::Taken);
    subject.refused(&subject.exclusive(&taken)).await;
    assert_eq!(subject.release(&gone).await, Released::Expired);
    subject.release(&next).await;
}

/// A process whose session ended can acquire locks again.
async fn another_begins_after_its_end(subject: Subject) {
    let [key] = keys(&subject);
    let ends = Manager::attach(&subject);
    for _ in 0..3 {
        let claim = ends.acquired(&key).await;
        subject.renewed(&claim, subject.long()).await;
        ends.end().await;
    }
    subject.granted_within(&subject.exclusive(&key), Duration::ZERO).await;
}

/// When a session ends, its queue entries are removed, and the next waiters are served.
async fn its_end_takes_its_queue_entries_along(subject: Subject) {
    let [key] = keys(&subject);
    let (holder, stays) = (subject.exclusive(&key), subject.stranger(&key, Mode::Exclusive, Queue::Fifo));
    let ends = Manager::attach(&subject);
    subject.acquire(&holder).await;
    let gone = ends.claim(&key, Queue::Fifo);
    subject.enqueued(&gone).await;
    subject.enqueued(&stays).await;
    ends.end().await;
    let told = subject.still_waits(&stays).await;
    assert_eq!(told.position, Some(0), "behind one whose session is over");
    subject.release(&holder).await;
    subject.served(&stays, Duration::ZERO).await;
    subject.release(&stays).await;
}

/// The end of a session frees all keys of a claim of several keys, and its holder is notified once.
async fn its_end_frees_every_key_of_several(subject: Subject) {
    let keys = keys::<3>(&subject);
    let ends = Manager::attach(&subject);
    let all = ends.claims.all(keys.iter().cloned(), Queue::Barging, subject.long());
    subject.granted_within(&all, Duration::ZERO).await;
    ends.end().await;
    let lost = Event::Lost(all.owner, LossReason::SessionEnded);
    assert!(ends.heard.hears(&lost).await, "nobody told the holder");
    for key in &keys {
        let next = subject.exclusive(key);
        subject.granted_within(&next, Duration::ZERO).await;
    }
    assert_eq!(subject.release(&all).await, Released::Taken);
    assert_eq!(ends.heard.count(&lost), 1);
}

/// A watcher of a key is notified when the session of its holder ends.
async fn its_end_wakes_those_who_wait_for_it(subject: Subject) {
    let [key] = keys(&subject);
    let ends = Manager::attach(&subject);
    ends.acquired(&key).await;
    let waiting = subject.exclusive(&key);
    let told = async {
        // A hint may be sent too early. The waiter then waits for the next hint.
        while !matches!(subject.attempt(&waiting).await, Ok(Attempt::Granted(_))) {
            subject.backend().changed_dyn(&waiting).await;
            // This pause lets time pass even if hints arrive without end.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let end = async {
        tokio::time::sleep(subject.short() / 4).await;
        ends.end().await;
    };
    let ((), in_time) = tokio::join!(end, subject.in_time(told));
    assert!(in_time, "nobody told the waiter");
    subject.release(&waiting).await;
}
