//! The last answer of the store about a key, for all its waiters in this process.

use crate::clock::Moment;
use crate::error::LockError;

/// The last answer of the store to a request of this process, or its failure.
///
/// Few waiters ask the store: the others learn from this why their wait ended. A failure has no source here, so that no
/// code of the application runs when the queue of a key drops it under its lock.
#[derive(Debug)]
pub(crate) struct LastAnswer {
    pub(crate) at: Moment,
    /// Why the store failed; `None` if it has answered.
    pub(crate) failure: Option<LockError>,
}

impl LastAnswer {
    /// A grant.
    pub(super) fn granted(at: Moment) -> Self {
        Self { at, failure: None }
    }

    pub(super) fn copy(&self) -> Self {
        Self { at: self.at, failure: self.failure.as_ref().map(LockError::without_source) }
    }

    /// Replaces `last`, unless that is later.
    pub(super) fn replace(self, last: &mut Option<Self>) {
        if last.as_ref().is_none_or(|last| last.at.since(self.at).is_zero()) {
            *last = Some(self);
        }
    }
}
