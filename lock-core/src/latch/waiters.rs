//! Who waits in this process for a latch to open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::key::Key;

/// All waits for latches of one manager.
#[derive(Debug, Default)]
pub(crate) struct Latches {
    waiting: Mutex<HashMap<Key, Line>>,
}

/// The waits for one latch.
#[derive(Debug, Default)]
struct Line {
    told: Arc<Notify>,
    waits: usize,
}

impl Latches {
    /// The latch `key` is open, or may be: everybody who waits for it asks.
    pub(crate) fn opened(&self, key: &str) {
        let told = self.lines().get(key).map(|line| Arc::clone(&line.told));
        if let Some(told) = told {
            told.notify_waiters();
        }
    }

    /// What was told may have been missed: everybody asks.
    pub(crate) fn woken_all(&self) {
        let all: Vec<_> = self.lines().values().map(|line| Arc::clone(&line.told)).collect();
        all.iter().for_each(|told| told.notify_waiters());
    }

    /// Waits for `key` from now on, for as long as the value lives.
    pub(super) fn join<'a>(&'a self, key: &'a Key) -> Waiter<'a> {
        let mut lines = self.lines();
        let line = lines.entry(key.clone()).or_default();
        line.waits += 1;
        Waiter { latches: self, key, told: Arc::clone(&line.told) }
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Key, Line>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One wait; dropping it leaves.
#[derive(Debug)]
pub(super) struct Waiter<'a> {
    latches: &'a Latches,
    key: &'a Key,
    told: Arc<Notify>,
}

impl Waiter<'_> {
    /// Completes when the latch may be open; counts from the call on, polled or not.
    pub(super) fn told(&self) -> Notified<'_> {
        self.told.notified()
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut lines = self.latches.lines();
        if let Some(line) = lines.get_mut(self.key) {
            line.waits -= 1;
            if line.waits == 0 {
                lines.remove(self.key);
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
    async fn those_who_wait_for_a_latch_are_told_of_it_and_of_no_other() {
        let latches = Latches::default();
        let (a, b) = (key("a"), key("b"));
        let (one, two, other) = (latches.join(&a), latches.join(&a), latches.join(&b));
        let (mut first, mut second, mut third) = (pin!(one.told()), pin!(two.told()), pin!(other.told()));
        for told in [first.as_mut(), second.as_mut(), third.as_mut()] {
            assert!(!told.enable());
        }
        latches.opened("c");
        latches.opened("a");
        assert!(first.as_mut().enable() && second.as_mut().enable(), "both wait for it");
        assert!(!third.as_mut().enable(), "it waits for another");
        latches.woken_all();
        assert!(third.as_mut().enable());
    }

    #[test]
    fn nothing_is_left_of_waits_that_are_over() {
        let latches = Latches::default();
        let (a, b) = (key("a"), key("b"));
        let (one, two, other) = (latches.join(&a), latches.join(&a), latches.join(&b));
        drop(one);
        assert_eq!(latches.lines().len(), 2, "somebody waits for each");
        drop(two);
        assert_eq!(latches.lines().len(), 1);
        drop(other);
        assert_eq!(latches.lines().len(), 0);
    }
}
