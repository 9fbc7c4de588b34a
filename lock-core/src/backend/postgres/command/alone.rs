//! The keys that this process released last, each of which it may take again with the shortest statement.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::key::Key;

/// How many keys are remembered. The place of a key depends on its hash, and the last one there is remembered.
const PLACES: usize = 1024;

/// A guess and no more: a key may be forgotten, or have been used by others since.
#[derive(Debug)]
pub(super) struct AloneKeys {
    /// The hashes of the keys; 0 for none.
    places: Box<[AtomicU64]>,
}

impl Default for AloneKeys {
    fn default() -> Self {
        Self { places: (0..PLACES).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl AloneKeys {
    /// Remembers that the row of a key was left for the next one.
    pub(super) fn note(&self, key: &Key) {
        let (place, hash) = self.place(key);
        place.store(hash, Ordering::Relaxed);
    }

    /// Returns whether the row of a key was left for the next one, and forgets that.
    pub(super) fn forget(&self, key: &Key) -> bool {
        let (place, hash) = self.place(key);
        place.compare_exchange(hash, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn place(&self, key: &Key) -> (&AtomicU64, u64) {
        let hash = key.hash_value().max(1);
        (&self.places[hash as usize % PLACES], hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_remembered_once() {
        let keys = AloneKeys::default();
        let key = |number: usize| Key::new(&format!("k{number}")).expect("a key");
        assert!(!keys.forget(&key(0)));
        keys.note(&key(0));
        assert!(!keys.forget(&key(1)));
        assert!(keys.forget(&key(0)) && !keys.forget(&key(0)));
        let many = PLACES * 10;
        (0..many).for_each(|number| keys.note(&key(number)));
        let left = (0..many).filter(|number| keys.forget(&key(*number))).count();
        assert!((PLACES / 2..=PLACES).contains(&left), "{left}");
    }
}
