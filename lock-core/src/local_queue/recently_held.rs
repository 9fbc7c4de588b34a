//! Keeps the keys that were held a moment ago.

use std::sync::atomic::{AtomicU64, Ordering};

const SLOTS: usize = 64;

/// Keeps the hashes of keys that were held a moment ago, one hash in each slot. The result is only a hint, because
/// another key may overwrite a slot.
///
/// If the last request found a key held, the next request joins the store's queue at once. A request that only tries
/// would probably fail.
#[derive(Debug)]
pub(super) struct RecentlyHeld([AtomicU64; SLOTS]);

impl Default for RecentlyHeld {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl RecentlyHeld {
    fn slot(&self, hash: u64) -> &AtomicU64 {
        #[allow(clippy::cast_possible_truncation, reason = "the low bits choose the slot")]
        let at = hash as usize % SLOTS;
        &self.0[at]
    }

    pub(super) fn has(&self, hash: u64) -> bool {
        self.slot(hash).load(Ordering::Relaxed) == hash
    }

    pub(super) fn set(&self, hash: u64, held: bool) {
        let slot = self.slot(hash);
        if held {
            slot.store(hash, Ordering::Relaxed);
        } else {
            // The slot is cleared only if it still has this key, because another key may have replaced it.
            let _ = slot.compare_exchange(hash, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}
