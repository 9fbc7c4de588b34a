//! The state of an acquisition, in words.

use crate::clock::Moment;

/// The place in which an acquisition waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// No place: the next request is due at the end of the strategy's pause.
    Nowhere,
    /// In the local queue, after its head. The head sends the requests for all of them, or a holder hands off.
    BehindHead,
    /// At the head of the local queue, without an entry in the store's queue.
    AtHead,
    /// With an entry in the store's queue, which notifies it: as the head of the local queue, or alone.
    Queued,
}

/// The last request to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastQuestion {
    /// None was sent yet.
    None,
    /// There was no pause after that.
    Fresh,
    /// It was sent before the last pause.
    Stale,
}

impl LastQuestion {
    /// A pause begins.
    pub(super) fn age(&mut self) {
        if *self == Self::Fresh {
            *self = Self::Stale;
        }
    }
}

/// The holder of the key, by the last answer of the store.
#[derive(Clone, Copy, Debug)]
pub(super) enum Holder {
    /// Another process, or unknown.
    Elsewhere,
    /// This process, which hands off or notifies when it releases.
    Here {
        /// When its lease is over, if the store knows.
        free_at: Option<Moment>,
    },
}
