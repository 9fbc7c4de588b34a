//! Determines the next key and its kind, and stores the largest token of each key.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use lock_core::backend::Mode;
use lock_core::{LockManager, LockRequest};

/// The number of keys.
const KEYS: usize = 1_000_000;

/// The number of successive requests for one key, mostly by different tasks.
const TOGETHER: usize = 4;

/// The permits of a semaphore.
const PERMITS: u32 = 2;

/// A request, and the properties of its lock.
pub(crate) struct Wanted {
    pub(crate) request: LockRequest,
    pub(crate) keys: Vec<String>,
    pub(crate) mode: Mode,
    /// The index of the largest token, or `None` for readers and permits, whose tokens have no order.
    pub(crate) number: Option<usize>,
}

pub(crate) struct Keys {
    next: AtomicUsize,
    tokens: Vec<AtomicU64>,
    has_order: bool,
}

impl Keys {
    pub(crate) fn new(has_order: bool) -> Self {
        Self { next: AtomicUsize::new(0), tokens: (0..KEYS).map(|_| AtomicU64::new(0)).collect(), has_order }
    }

    /// Returns the number of keys in use so far.
    pub(crate) fn begun(&self) -> usize {
        self.next.load(Ordering::Relaxed) / TOGETHER
    }

    /// Returns the next request. All requests for a key are of one kind.
    pub(crate) fn next(&self, locks: &LockManager) -> Wanted {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let number = turn / TOGETHER % KEYS;
        let (one, exclusive) = (|kind: &str| format!("{kind}:{number}"), Mode::Exclusive);
        let (request, keys, mode) = match number % 5 {
            1 if self.has_order => (locks.fair(one("fair")), vec![one("fair")], exclusive),
            2 if self.has_order => {
                (locks.semaphore(one("permit"), PERMITS), vec![one("permit")], Mode::Permit { of: PERMITS })
            }
            3 if turn.is_multiple_of(TOGETHER) => (locks.write(one("read")), vec![one("read")], exclusive),
            3 => (locks.read(one("read")), vec![one("read")], Mode::Shared),
            // Neighbouring requests share a key.
            4 => {
                let keys = vec![format!("all:{}", number / 10), format!("all:{}", number / 10 + 1)];
                (locks.all(keys.clone()), keys, exclusive)
            }
            _ => (locks.lock(one("lock")), vec![one("lock")], exclusive),
        };
        let is_alone = mode == exclusive && keys.len() == 1;
        Wanted { request, keys, mode, number: is_alone.then_some(number) }
    }

    /// Records the token of an exclusive holder, and returns the largest earlier token.
    pub(crate) fn note(&self, number: usize, token: u64) -> u64 {
        self.tokens[number].fetch_max(token, Ordering::SeqCst)
    }
}
