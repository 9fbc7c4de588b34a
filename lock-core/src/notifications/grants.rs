//! Delivers the store's grants to the owners that wait in its queue.

use std::collections::HashMap;
use std::sync::Arc;

use crate::owner::Owner;
use crate::sync::{Mutex, MutexGuard, Notify};

/// The mailboxes of the owners of one manager that wait in the store's queue.
#[derive(Debug, Default)]
pub(crate) struct Notifications(Mutex<HashMap<Owner, Arc<Mailbox>>>);

/// Stores the last notification for one owner until the owner's waiter receives it.
#[derive(Debug, Default)]
struct Mailbox {
    /// The number of waiters behind the owner in the queue at the time of the grant. `None` if no notification has
    /// arrived.
    granted: Mutex<Option<usize>>,
    arrived: Notify,
}

impl Notifications {
    fn mailboxes(&self) -> MutexGuard<'_, HashMap<Owner, Arc<Mailbox>>> {
        self.0.lock()
    }

    /// Subscribes to the notifications of `owner`. Call this before the request is sent, because the notification may
    /// arrive before the answer.
    pub(crate) fn subscribe(notifications: &Arc<Self>, owner: Owner) -> Subscription {
        let mailbox = Arc::new(Mailbox::default());
        notifications.mailboxes().insert(owner, Arc::clone(&mailbox));
        Subscription { notifications: Arc::clone(notifications), owner, mailbox }
    }

    /// Notifies `owner` that the store has granted its request. Does nothing if the owner no longer waits. Such an
    /// owner either already holds the lock, or has given up and releases the grant itself.
    pub(crate) fn granted(&self, owner: Owner, waiters: usize) {
        // The lock is released before the waiter is woken, because a waker may drop a `Subscription`, which acquires
        // this lock.
        let mailbox = self.mailboxes().get(&owner).cloned();
        if let Some(mailbox) = mailbox {
            *mailbox.granted() = Some(waiters);
            mailbox.arrived.notify_one();
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.mailboxes().is_empty()
    }
}

impl Mailbox {
    fn granted(&self) -> MutexGuard<'_, Option<usize>> {
        self.granted.lock()
    }
}

/// The subscription of one waiting owner. The subscription ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Subscription {
    notifications: Arc<Notifications>,
    owner: Owner,
    mailbox: Arc<Mailbox>,
}

impl Subscription {
    /// Removes the notification, if one has arrived, and returns the number of waiters behind the owner.
    pub(crate) fn take(&self) -> Option<usize> {
        self.mailbox.granted().take()
    }

    /// Waits until the store has granted the owner's request, and returns the number of waiters behind the owner. This
    /// method is cancel safe.
    pub(crate) async fn notified(&self) -> usize {
        loop {
            if let Some(waiters) = self.take() {
                return waiters;
            }
            self.mailbox.arrived.notified().await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.notifications.mailboxes().remove(&self.owner);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::owner::OwnerSource;

    #[tokio::test(start_paused = true)]
    async fn a_notification_reaches_its_owner_and_no_other() {
        let (notifications, owners) =
            (Arc::<Notifications>::default(), OwnerSource::new().expect("random bytes"));
        let (one, two) = (owners.mint(), owners.mint());
        let (first, second) =
            (Notifications::subscribe(&notifications, one), Notifications::subscribe(&notifications, two));
        notifications.granted(one, 3);
        assert_eq!(first.notified().await, 3, "it arrived before anybody waited for it");
        let nothing = tokio::time::timeout(Duration::from_secs(1), first.notified()).await;
        assert!(nothing.is_err(), "it is taken once");
        assert_eq!(second.take(), None);
        drop(first);
        notifications.granted(one, 0);
        drop(second);
        assert!(notifications.is_empty());
    }
}
