//! Records the events of the locks in a test.

use std::sync::Arc;

use crate::backend::FencingToken;
use crate::error::{LockErrorKind, LossReason};
use crate::key::Key;
use crate::observe::{LockEvent, LockName, Witness};
use crate::sync::{Mutex, MutexGuard};

/// An event of one key. A request for several keys is recorded once for each key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TestEvent {
    /// The key, with its namespace.
    pub key: String,
    /// The sort of event.
    pub what: Happened,
    /// The fencing token, if it was known at the time of the event. The store returns the token with a grant. A lock
    /// that was handed off inside its process has no token until the holder requests one.
    pub fencing_token: Option<FencingToken>,
    /// Whether the lock belonged to the other process (a [`TestHolder`](super::TestHolder)) and not to the code under
    /// test.
    pub elsewhere: bool,
}

/// A sort of event of a key. A nested call that enters a lock again is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Happened {
    /// The key was granted.
    Granted,
    /// A request ended without the lock, for this reason.
    Refused(LockErrorKind),
    /// The strategy skipped a request, which ended without the lock.
    Skipped,
    /// The future of a request was dropped.
    Cancelled,
    /// The last guard was released or dropped.
    Released,
    /// The lock was lost, for this reason.
    Lost(LossReason),
}

/// All events so far. Clones share the record.
#[derive(Clone, Debug, Default)]
pub(super) struct History(Arc<Mutex<Vec<TestEvent>>>);

impl History {
    /// Returns a [`Witness`] that records the events of one process.
    pub(super) fn scribe(&self, elsewhere: bool) -> Arc<dyn Witness> {
        Arc::new(Scribe { history: self.clone(), elsewhere })
    }

    pub(super) fn events(&self) -> MutexGuard<'_, Vec<TestEvent>> {
        self.0.lock()
    }

    /// Returns the number of times that `key` was granted to the code under test.
    pub(super) fn times_granted(&self, key: &Key) -> usize {
        let events = self.events();
        let granted = |event: &&TestEvent| event.what == Happened::Granted && !event.elsewhere;
        events.iter().filter(granted).filter(|event| event.key == key.as_str()).count()
    }
}

#[derive(Debug)]
struct Scribe {
    history: History,
    elsewhere: bool,
}

impl Witness for Scribe {
    fn see(&self, event: &LockEvent) {
        let Some((lock, what, fencing_token)) = read(event) else { return };
        let elsewhere = self.elsewhere;
        let mut events = self.history.events();
        for key in std::iter::once(&lock.key).chain(lock.more.iter()) {
            events.push(TestEvent { key: key.to_string(), what, fencing_token, elsewhere });
        }
    }
}

fn read(event: &LockEvent) -> Option<(&LockName, Happened, Option<FencingToken>)> {
    match event {
        LockEvent::Granted { lock, fencing_token, .. } => Some((lock, Happened::Granted, *fencing_token)),
        LockEvent::Refused { lock, skipped: true, .. } => Some((lock, Happened::Skipped, None)),
        LockEvent::Refused { lock, why, .. } => Some((lock, Happened::Refused(*why), None)),
        LockEvent::Cancelled { lock, .. } => Some((lock, Happened::Cancelled, None)),
        LockEvent::Released { lock, fencing_token, .. } => Some((lock, Happened::Released, *fencing_token)),
        LockEvent::Lost { lock, reason, fencing_token, .. } => {
            Some((lock, Happened::Lost(*reason), *fencing_token))
        }
        LockEvent::Endangered { .. }
        | LockEvent::HeldLong { .. }
        | LockEvent::ReleaseFailed { .. }
        | LockEvent::StoreFailed { .. }
        | LockEvent::Bypassed { .. }
        | LockEvent::StoreEvicted { .. }
        | LockEvent::Missed(_) => None,
    }
}
