//! The state of an acquisition, in words.

use crate::clock::Moment;

/// Where an acquisition waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// Nowhere: the next question is due at the end of the strategy's pause.
    Nowhere,
    /// In the local queue, behind its head. The head asks for all of them, or a holder hands off.
    BehindHead,
    /// At the head of the local queue, without an entry in the store's queue.
    AtHead,
    /// With an entry in the store's queue, which notifies it: as the head of the local queue, or alone.
    Queued,
}

/// The last question to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastQuestion {
    /// None was asked yet.
    None,
    /// Nothing was waited for since.
    Fresh,
    /// It lies before the last pause.
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

/// The holder of the key, as the store last said.
#[derive(Clone, Copy, Debug)]
pub(super) enum Holder {
    /// Another process, or unknown.
    Elsewhere,
    /// This process, which hands off or notifies when it releases.
    Here {
        /// When its lease is over, where the store knows.
        free_at: Option<Moment>,
    },
}
