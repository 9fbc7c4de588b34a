//! The hash of a key, which is made once.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use once_cell::sync::Lazy;

use super::name::Key;

/// A map by key that does not hash the key again.
pub(crate) type KeyMap<V> = HashMap<Key, V, BuildHasherDefault<HashOfKey>>;

/// Random in each process, because keys are often made of what strangers send.
static STATE: Lazy<RandomState> = Lazy::new(RandomState::new);

/// Returns the hash of the key with this text.
pub(super) fn of(text: &str) -> u64 {
    STATE.hash_one(text)
}

/// Returns the hash that a key writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HashOfKey(u64);

impl Hasher for HashOfKey {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    // A key writes one number.
    fn write(&mut self, bytes: &[u8]) {
        self.0 = STATE.hash_one((self.0, bytes));
    }
}
