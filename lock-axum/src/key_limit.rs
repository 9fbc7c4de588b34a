//! Limits the number of different keys that the requests of a layer lock, or wait for, at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::key::Key;

/// The keys in use, with the number of requests for each key. All services of a layer share this value.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyLimit(Arc<Mutex<HashMap<Key, usize>>>);

impl KeyLimit {
    /// Counts `keys` until the permit is dropped. Returns `None` if there would be more than `max` different keys.
    pub(crate) fn enter(&self, keys: &[Key], max: usize) -> Option<KeyPermit> {
        let mut counts = self.counts();
        let is_new = |&(at, key): &(usize, &Key)| !counts.contains_key(key) && !keys[..at].contains(key);
        let new = keys.iter().enumerate().filter(is_new).count();
        if counts.len() + new > max {
            return None;
        }
        for key in keys {
            *counts.entry(key.clone()).or_default() += 1;
        }
        drop(counts);
        Some(KeyPermit { all: self.clone(), keys: keys.into() })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Key, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.counts().len()
    }
}

/// The keys of one request, which are counted until this value is dropped.
#[derive(Debug)]
pub(crate) struct KeyPermit {
    all: KeyLimit,
    keys: Box<[Key]>,
}

impl Drop for KeyPermit {
    fn drop(&mut self) {
        let mut counts = self.all.counts();
        for key in &self.keys {
            if let Some(count) = counts.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys<const N: usize>(names: [&str; N]) -> [Key; N] {
        names.map(|name| Key::new(name).expect("a key"))
    }

    #[test]
    fn different_keys_are_counted_and_forgotten() {
        let all = KeyLimit::default();
        let a = all.enter(&keys(["a"]), 2).expect("room");
        let again = all.enter(&keys(["a"]), 2).expect("the same key");
        let b = all.enter(&keys(["b"]), 2).expect("room");
        assert!(all.enter(&keys(["c"]), 2).is_none());
        assert!(all.enter(&keys(["a", "b"]), 2).is_some(), "both are there");
        assert!(all.enter(&keys(["b", "c"]), 2).is_none());
        drop(a);
        assert_eq!(all.len(), 2, "the other request for it still runs");
        drop(again);
        assert!(all.enter(&keys(["c", "c"]), 2).is_some(), "one key, twice");
        let c = all.enter(&keys(["c"]), 2).expect("room again");
        drop((b, c));
        assert_eq!(all.len(), 0);
    }
}
