//! Notifies the waiters of a latch when the latch opens.

use std::sync::{Arc, Weak};

use crate::key::{Key, KeyMap};
use crate::sync::{Mutex, Notify};

/// The latches for which one manager has waiters. All waiters of a latch share one value, which ends with the last of
/// them.
#[derive(Debug, Default)]
pub(crate) struct Latches(Mutex<KeyMap<Weak<Notify>>>);

impl Latches {
    /// Notifies all waiters of the latch `key` that the latch may be open.
    pub(crate) fn opened(&self, key: &Key) {
        // The lock is released before a waiter is woken, because wakers are code of the application.
        let opened = self.0.lock().get(key).and_then(Weak::upgrade);
        if let Some(opened) = opened {
            opened.notify_waiters();
        }
    }

    /// Notifies all waiters of all latches, because notifications may have been lost.
    pub(crate) fn wake_all(&self) {
        let all: Vec<_> = self.0.lock().values().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|opened| opened.notify_waiters());
    }

    /// Returns what is notified when the latch `key` may be open. The caller waits until it drops this value.
    pub(crate) fn join(&self, key: &Key) -> Arc<Notify> {
        let mut all = self.0.lock();
        if let Some(opened) = all.get(key).and_then(Weak::upgrade) {
            return opened;
        }
        // The entries without waiters are removed before the map grows. Otherwise it would grow with every key that
        // ever had waiters.
        if all.len() == all.capacity() {
            all.retain(|_, opened| opened.strong_count() > 0);
        }
        let opened = Arc::default();
        all.insert(key.clone(), Arc::downgrade(&opened));
        opened
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
    fn waiters_share_a_value_until_the_last_of_them_left() {
        let latches = Latches::default();
        let a = key("a");
        let (one, two) = (latches.join(&a), latches.join(&a));
        assert!(Arc::ptr_eq(&one, &two));
        let first = Arc::downgrade(&one);
        drop(one);
        assert!(Arc::ptr_eq(&two, &latches.join(&a)), "somebody still waits");
        drop(two);
        assert!(first.upgrade().is_none());
        let later = latches.join(&a);
        let mut notified = pin!(later.notified());
        assert!(!notified.as_mut().enable());
        latches.opened(&a);
        assert!(notified.enable(), "a later waiter is notified too");
    }

    #[test]
    fn little_is_left_of_waiters_that_left() {
        let latches = Latches::default();
        let stays = latches.join(&key("stays"));
        for id in 0..1_000 {
            drop(latches.join(&key(&format!("order:{id}"))));
        }
        assert!(latches.0.lock().len() <= 8, "{latches:?}");
        assert!(Arc::ptr_eq(&stays, &latches.join(&key("stays"))), "it still waits");
    }
}
