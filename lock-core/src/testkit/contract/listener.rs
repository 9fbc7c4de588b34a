//! Tests the notifications of a store.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::{Case, Subject, list};
use crate::backend::{Capability, Claim, Listener, Mode, Queue};
use crate::error::LossReason;
use crate::owner::Owner;
use crate::sync::Mutex;

/// The number of times that a case tries to be notified. A notification is a hint, and may be lost.
const TRIES: usize = 5;

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    let contended =
        list![|can: &Capability| can.waiting.tells_holder() && can.waiting.in_order(); the_holder_is_told];
    let granted = list![|can: &Capability| can.waiting.by_heartbeats(); one_who_is_served_is_told];
    let opened = list![|can: &Capability| can.latches; the_opening_of_a_latch_is_told];
    contended.into_iter().chain(granted).chain(opened)
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    Granted(Owner),
    Contended(String),
    Opened(String),
    Lost(Owner, LossReason),
}

/// A listener that records its calls.
#[derive(Debug, Default)]
pub(super) struct Heard {
    events: Mutex<Vec<Event>>,
    more: Notify,
}

impl Heard {
    /// Returns a listener that is attached to `process`. It receives notifications until it is dropped.
    pub(super) fn new(subject: &Subject, process: u128) -> Arc<Self> {
        let heard = Arc::new(Self::default());
        let listener: Arc<dyn Listener> = Arc::<Self>::clone(&heard);
        subject.attach(process, Arc::downgrade(&listener));
        heard
    }

    fn hear(&self, event: Event) {
        self.events.lock().push(event);
        self.more.notify_one();
    }

    pub(super) fn count(&self, event: &Event) -> usize {
        let events = self.events.lock();
        events.iter().filter(|heard| *heard == event).count()
    }

    /// Returns whether `event` is reported soon. Use this for a hint if the case makes several attempts.
    async fn hears_soon(&self, event: &Event) -> bool {
        self.hears_within(event, Duration::from_secs(1)).await
    }

    /// Returns whether `event` is reported. The time limit is long enough for a busy machine.
    pub(super) async fn hears(&self, event: &Event) -> bool {
        self.hears_within(event, Duration::from_secs(20)).await
    }

    async fn hears_within(&self, event: &Event, bound: Duration) -> bool {
        let heard = async {
            while self.count(event) == 0 {
                self.more.notified().await;
            }
        };
        tokio::time::timeout(bound, heard).await.is_ok()
    }
}

impl Listener for Heard {
    fn granted(&self, owner: Owner, _waiters: usize) {
        self.hear(Event::Granted(owner));
    }

    fn contended(&self, key: &str) {
        self.hear(Event::Contended(key.to_owned()));
    }

    fn opened(&self, key: &str) {
        self.hear(Event::Opened(key.to_owned()));
    }

    fn lost(&self, owner: Owner, reason: LossReason) {
        self.hear(Event::Lost(owner, reason));
    }

    fn reconnected(&self) {}
}

/// The holder is notified once, when the first waiter of another manager begins to wait. Waiters of its own manager and
/// later waiters cause no notification.
async fn the_holder_is_told(subject: Subject) {
    for number in 0..TRIES {
        let key = subject.key(&number.to_string());
        let (holder, own) = (subject.exclusive(&key), subject.exclusive(&key));
        let heard = Heard::new(&subject, holder.owner.process());
        let contended = Event::Contended(key.as_str().to_owned());
        subject.acquire(&holder).await;
        subject.enqueue(&own).await;
        subject.renewed(&holder, subject.long()).await;
        assert_eq!(heard.count(&contended), 0, "told, and nobody waits");
        subject.enqueued(&subject.stranger(&key, Mode::Exclusive, Queue::Barging)).await;
        let told = heard.hears_soon(&contended).await;
        let last = subject.stranger(&key, Mode::Exclusive, Queue::Barging);
        subject.enqueued(&last).await;
        subject.still_waits(&last).await;
        assert!(heard.count(&contended) < 2, "told of one who waits behind another");
        if told {
            return;
        }
    }
    panic!("nobody told the holder, {TRIES} times");
}

/// A waiter that is served is notified.
async fn one_who_is_served_is_told(subject: Subject) {
    for number in 0..TRIES {
        let key = subject.key(&number.to_string());
        let holder: Claim = subject.exclusive(&key);
        let waits = subject.claim(&key, Mode::Exclusive, Queue::Fifo);
        let heard = Heard::new(&subject, waits.owner.process());
        subject.acquire(&holder).await;
        subject.enqueued(&waits).await;
        subject.still_waits(&waits).await;
        assert_eq!(heard.count(&Event::Granted(waits.owner)), 0, "told, and not served");
        subject.release(&holder).await;
        let told = heard.hears_soon(&Event::Granted(waits.owner)).await;
        subject.served(&waits, Duration::ZERO).await;
        subject.release(&waits).await;
        if told {
            return;
        }
    }
    panic!("nobody told the one who was served, {TRIES} times");
}

/// A waiter for a latch is notified when the latch opens, and not before.
async fn the_opening_of_a_latch_is_told(subject: Subject) {
    for number in 0..TRIES {
        let key = subject.key(&number.to_string());
        let process = subject.owner().process();
        let heard = Heard::new(&subject, process);
        let opened = Event::Opened(key.as_str().to_owned());
        subject.set_latch(&key, 2).await;
        subject.wait_for_latch(&key, process).await;
        subject.count_down(&key, subject.owner()).await;
        subject.look(&key).await;
        assert_eq!(heard.count(&opened), 0, "told, and not open");
        subject.count_down(&key, subject.owner()).await;
        if heard.hears_soon(&opened).await {
            return;
        }
    }
    panic!("nobody told the one who waits for a latch, {TRIES} times");
}
