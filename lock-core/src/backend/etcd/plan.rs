//! The next step of a claim that has no entry in the queue of its key.

use crate::backend::{Attempt, Held};
use crate::clock::Moment;

/// The last entry of a queue that was read, with the revision at which it was created; `None` if the queue was empty.
pub(super) type Behind = Option<(Vec<u8>, i64)>;

pub(super) enum Plan {
    Refused(Attempt),
    Put(Put),
    /// The claim already has an entry, which another store of this process has created.
    Known,
    /// The claim has an entry now, and waits behind this number of entries.
    Waits(Held, usize),
}

/// A new entry.
#[derive(Clone)]
pub(super) struct Put {
    pub(super) behind: Behind,
    /// The holders and the waiters before the new entry; `None` if the entry is expected to hold the key.
    pub(super) waits: Option<Waits>,
}

/// The state of the queue that a claim is about to join as a waiter.
#[derive(Clone)]
pub(super) struct Waits {
    pub(super) held: Held,
    pub(super) holding: usize,
}

impl Waits {
    /// Returns the answer for a claim that now waits behind `before` entries. The attempt started at `began`.
    pub(super) fn behind(&self, before: usize, began: Moment) -> Held {
        let ahead = Some(before.saturating_sub(self.holding));
        Held { waiters: ahead, position: ahead, queued_at: Some(began), ..self.held.clone() }
    }
}
