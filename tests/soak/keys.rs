//! Which key is next, of which kind, and the largest token of each.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use lock_core::backend::Mode;
use lock_core::{LockManager, LockRequest};

/// How many keys there are.
const KEYS: usize = 1_000_000;

/// So many requests in a row are for one key, mostly of different tasks.
const TOGETHER: usize = 4;

/// The permits of a semaphore.
const PERMITS: u32 = 2;

/// A request, and what it asks for.
pub(crate) struct Wanted {
    pub(crate) request: LockRequest,
    pub(crate) keys: Vec<String>,
    pub(crate) mode: Mode,
    /// The place of the largest token. `None` for readers and permits, whose tokens have no order among each other.
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

    /// Returns how many keys were begun.
    pub(crate) fn begun(&self) -> usize {
        self.next.load(Ordering::Relaxed) / TOGETHER
    }

    /// Returns the next request. A key has one kind.
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
            // Neighbours have a key in common.
            4 => {
                let keys = vec![format!("all:{}", number / 10), format!("all:{}", number / 10 + 1)];
                (locks.all(keys.clone()), keys, exclusive)
            }
            _ => (locks.lock(one("lock")), vec![one("lock")], exclusive),
        };
        let is_alone = mode == exclusive && keys.len() == 1;
        Wanted { request, keys, mode, number: is_alone.then_some(number) }
    }

    /// Notes the token of a holder that is alone, and returns the largest one before.
    pub(crate) fn note(&self, number: usize, token: u64) -> u64 {
        self.tokens[number].fetch_max(token, Ordering::SeqCst)
    }
}
