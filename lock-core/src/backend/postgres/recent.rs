//! Keys of which this process has heard something lately: those that it released last, each of which it may take again with
//! the shortest statement, and those that others have asked for.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::key::Key;

/// How many keys are remembered: of each bucket the last one. The hash of a key chooses its bucket.
const BUCKETS: usize = 1024;

/// A guess and no more: a key may be forgotten, or have been used by others since.
#[derive(Debug)]
pub(crate) struct RecentKeys {
    /// The hashes of the keys; 0 for none.
    buckets: Box<[AtomicU64]>,
}

impl Default for RecentKeys {
    fn default() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl RecentKeys {
    /// Remembers a key.
    pub(crate) fn note(&self, key: &Key) {
        let (bucket, hash) = self.bucket(key);
        bucket.store(hash, Ordering::Relaxed);
    }

    /// Returns whether a key is remembered, and forgets it.
    pub(crate) fn take(&self, key: &Key) -> bool {
        let (bucket, hash) = self.bucket(key);
        bucket.compare_exchange(hash, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn bucket(&self, key: &Key) -> (&AtomicU64, u64) {
        let hash = key.hash_value().max(1);
        (&self.buckets[hash as usize % BUCKETS], hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_remembered_once() {
        let keys = RecentKeys::default();
        let key = |number: usize| Key::new(&format!("k{number}")).expect("a key");
        assert!(!keys.take(&key(0)));
        keys.note(&key(0));
        assert!(!keys.take(&key(1)));
        assert!(keys.take(&key(0)) && !keys.take(&key(0)));
        let many = BUCKETS * 10;
        (0..many).for_each(|number| keys.note(&key(number)));
        let left = (0..many).filter(|number| keys.take(&key(*number))).count();
        assert!((BUCKETS / 2..=BUCKETS).contains(&left), "{left}");
    }
}
