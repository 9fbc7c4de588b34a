//! The groups of all fair locks, by key.

use std::array;
use std::sync::atomic::AtomicUsize;
#[cfg(test)]
use std::sync::atomic::Ordering;

use super::groups::Groups;
use super::shards::SHARDS;
use crate::key::KeyMap;
use crate::sync::Mutex;

/// The groups, by key.
#[derive(Debug)]
pub(super) struct GroupedKeys {
    pub(super) shards: [Mutex<KeyMap<Groups>>; SHARDS],
    /// The number of keys with groups. While it is zero, nothing need be looked up.
    pub(super) count: AtomicUsize,
}

impl Default for GroupedKeys {
    fn default() -> Self {
        Self { shards: array::from_fn(|_| Mutex::default()), count: AtomicUsize::new(0) }
    }
}

impl GroupedKeys {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }
}
