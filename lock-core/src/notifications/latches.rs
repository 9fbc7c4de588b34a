//! Notifies the waiters of a latch when the latch opens.

use std::sync::Arc;

use tokio::sync::futures::Notified;

use crate::key::{Key, KeyMap};
use crate::sync::{Mutex, MutexGuard, Notify};

/// The latches for which one manager has waiters.
#[derive(Debug, Default)]
pub(crate) struct Latches(Mutex<KeyMap<Waiting>>);

/// The waiters of one latch.
#[derive(Debug, Default)]
struct Waiting {
    opened: Arc<Notify>,
    waiters: usize,
}

impl Latches {
    /// Notifies all waiters of the latch `key` that the latch may be open.
    pub(crate) fn opened(&self, key: &Key) {
        // The lock is released before a waiter is woken, because a waker may drop a `LatchWaiter`, which acquires this
        // lock.
        let opened = self.waiting().get(key).map(|waiting| Arc::clone(&waiting.opened));
        if let Some(opened) = opened {
            opened.notify_waiters();
        }
    }

    /// Notifies all waiters of all latches, because notifications may have been lost.
    pub(crate) fn wake_all(&self) {
        let all: Vec<_> = self.waiting().values().map(|waiting| Arc::clone(&waiting.opened)).collect();
        all.iter().for_each(|opened| opened.notify_waiters());
    }

    /// Registers a waiter for `key` until the returned value is dropped.
    pub(crate) fn join<'a>(&'a self, key: &'a Key) -> LatchWaiter<'a> {
        let mut all = self.waiting();
        let waiting = all.entry(key.clone()).or_default();
        waiting.waiters += 1;
        LatchWaiter { latches: self, key, opened: Arc::clone(&waiting.opened) }
    }

    fn waiting(&self) -> MutexGuard<'_, KeyMap<Waiting>> {
        self.0.lock()
    }
}

/// The registration of one waiter for a latch. The registration ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct LatchWaiter<'a> {
    latches: &'a Latches,
    key: &'a Key,
    opened: Arc<Notify>,
}

impl LatchWaiter<'_> {
    /// Returns a future that completes when the latch may be open. The future receives every notification after the
    /// call of this method, even before its first poll.
    pub(crate) fn notified(&self) -> Notified<'_> {
        self.opened.notified()
    }
}

impl Drop for LatchWaiter<'_> {
    fn drop(&mut self) {
        let mut all = self.latches.waiting();
        if let Some(waiting) = all.get_mut(self.key) {
            waiting.waiters -= 1;
            // Remove an entry without waiters. Otherwise the map would grow with every key that ever had waiters.
            if waiting.waiters == 0 {
                all.remove(self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn key(text: &str) -> Key {
        Key::new(text).expect("a key")
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_a_latch_is_notified_of_it_and_of_no_other() {
        let latches = Latches::default();
        let (a, b) = (key("a"), key("b"));
        let (one, two, other) = (latches.join(&a), latches.join(&a), latches.join(&b));
        let (mut first, mut second, mut third) =
            (pin!(one.notified()), pin!(two.notified()), pin!(other.notified()));
        for opened in [first.as_mut(), second.as_mut(), third.as_mut()] {
            assert!(!opened.enable());
        }
        latches.opened(&key("c"));
        latches.opened(&a);
        assert!(first.as_mut().enable() && second.as_mut().enable(), "both wait for it");
        assert!(!third.as_mut().enable(), "it waits for another");
        latches.wake_all();
        assert!(third.as_mut().enable());
    }

    #[test]
    fn nothing_is_left_of_a_waiter_that_left() {
        let latches = Latches::default();
        let (a, b) = (key("a"), key("b"));
        let (one, two, other) = (latches.join(&a), latches.join(&a), latches.join(&b));
        drop(one);
        assert_eq!(latches.waiting().len(), 2, "somebody waits for each");
        drop(two);
        assert_eq!(latches.waiting().len(), 1);
        drop(other);
        assert_eq!(latches.waiting().len(), 0);
    }
}
