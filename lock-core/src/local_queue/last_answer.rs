//! Keeps the last answer of the store about a key, for all waiters of the key in this process.

use crate::clock::Moment;
use crate::error::LockError;

/// The last answer of the store to a request of this process, or the failure of that request.
///
/// Few waiters send requests. The other waiters read from this value why their wait ended. A failure is stored without
/// its source error, because this value is dropped under the lock of a queue, where no code of the application may run.
#[derive(Debug)]
pub(crate) struct LastAnswer {
    pub(crate) at: Moment,
    /// The failure of the store, or `None` if the store has answered.
    pub(crate) failure: Option<LockError>,
}

impl LastAnswer {
    /// Returns the answer for a grant.
    pub(super) fn granted(at: Moment) -> Self {
        Self { at, failure: None }
    }

    pub(super) fn copy(&self) -> Self {
        Self { at: self.at, failure: self.failure.as_ref().map(LockError::without_source) }
    }

    /// Replaces `last`, if `last` is not later than this answer.
    pub(super) fn replace(self, last: &mut Option<Self>) {
        if last.as_ref().is_none_or(|last| last.at.since(self.at).is_zero()) {
            *last = Some(self);
        }
    }
}
