//! Defines the state that the clones of one election share: its terms, and the requests to resign.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::backend::{FencingToken, Released};
use crate::clock::Moment;
use crate::guard::LockHandle;
use crate::owner::OwnerRecord;
use crate::sync::change;

/// The time for which a candidate leads, from its election to the end of its leadership.
#[derive(Clone, Debug)]
pub(super) struct Term {
    /// The fencing token. No other term of the key has the same number.
    pub(super) token: FencingToken,
    pub(super) handle: LockHandle,
    /// Whether the store has confirmed the release, so that the store no longer lists this grant.
    released: Arc<AtomicBool>,
}

impl Term {
    pub(super) fn new(token: FencingToken, handle: LockHandle) -> Self {
        Self { token, handle, released: Arc::default() }
    }

    pub(super) fn is_held(&self) -> bool {
        self.handle.is_held()
    }

    /// Records the answer to the release. The answer `StillHeld` is ignored, because another guard still holds the
    /// lock.
    pub(super) fn note_answer(&self, answer: Option<Released>) {
        if answer.is_some_and(|answer| answer != Released::StillHeld) {
            self.released.store(true, Ordering::Release);
        }
    }

    pub(super) fn is_of(&self, record: &OwnerRecord) -> bool {
        self.handle.lease().claim().record == *record
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Terms {
    /// The term that has not ended yet. Its lock may already be lost.
    pub(super) current: Option<Term>,
    /// The previous term, and the time at which it ended.
    last: Option<(Term, Moment)>,
}

impl Terms {
    /// Returns the term in which the candidate leads now.
    pub(super) fn held(&self) -> Option<&Term> {
        self.current.as_ref().filter(|term| term.is_held())
    }

    /// Returns whether a record in the store comes from a term of this candidate that has ended, or whose lock is lost.
    /// The store may list a grant that was lost, or not yet released, for up to `ttl`.
    pub(super) fn is_left_over(&self, record: &OwnerRecord, ttl: Duration, now: Moment) -> bool {
        let lost = self.current.as_ref().is_some_and(|term| !term.is_held() && term.is_of(record));
        let left = |(term, ended): &(Term, Moment)| {
            !term.released.load(Ordering::Acquire) && !ended.plus(ttl).is_past(now) && term.is_of(record)
        };
        lost || self.last.as_ref().is_some_and(left)
    }
}

/// The candidate that all clones of an election share.
#[derive(Debug, Default)]
pub(super) struct Candidate {
    terms: watch::Sender<Terms>,
    /// The number of requests to resign so far.
    resigned: watch::Sender<u64>,
    /// The runs that have not ended. Each entry is the number of requests to resign before that run began.
    runs: watch::Sender<Vec<u64>>,
}

impl Candidate {
    pub(super) fn terms(&self) -> watch::Ref<'_, Terms> {
        self.terms.borrow()
    }

    pub(super) fn watch_terms(&self) -> watch::Receiver<Terms> {
        self.terms.subscribe()
    }

    /// Starts a term, which ends when the returned value is dropped.
    pub(super) fn begin_term(self: &Arc<Self>, term: Term) -> Seat {
        // The replaced term is dropped outside the lock, because it may own the last reference to its lease, whose drop
        // ends a span and so runs the log subscriber.
        drop(change(&self.terms, |terms| terms.current.replace(term.clone())));
        Seat { candidate: Arc::clone(self), term }
    }

    /// Counts a run, which ends when the returned value is dropped.
    pub(super) fn begin_run(self: &Arc<Self>) -> Run {
        let before = *self.resigned.borrow();
        change(&self.runs, |runs| runs.push(before));
        Run { candidate: Arc::clone(self), before }
    }

    /// Requests every current run to end, and waits until all of them have ended.
    pub(super) async fn end_runs(&self) {
        let this = change(&self.resigned, |count| {
            *count += 1;
            *count
        });
        // `self` keeps the sender alive, so `wait_for` cannot fail.
        let _ = self.runs.subscribe().wait_for(|runs| runs.iter().all(|before| *before >= this)).await;
    }
}

/// Represents a term that has not ended. The term ends when this value is dropped, which happens after the guard is
/// dropped.
#[derive(Debug)]
pub(super) struct Seat {
    candidate: Arc<Candidate>,
    pub(super) term: Term,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let (term, now) = (&self.term, self.term.handle.lease().now());
        // The terms are dropped outside the lock, as in `begin_term`.
        drop(change(&self.candidate.terms, |terms| {
            // A caller may keep a guard after its lock was lost. So another clone of the election may already lead in a
            // new term, which must not end here.
            let is_current = terms.current.as_ref().is_some_and(|current| current.token == term.token);
            let ended = if is_current { terms.current.take() } else { None };
            (ended, terms.last.replace((term.clone(), now)))
        }));
    }
}

/// Represents a run that has not ended.
#[derive(Debug)]
pub(super) struct Run {
    candidate: Arc<Candidate>,
    before: u64,
}

impl Run {
    /// Completes when the candidate receives a request to resign after this run began.
    pub(super) async fn resigned(&self) {
        let _ = self.candidate.resigned.subscribe().wait_for(|count| *count > self.before).await;
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        change(&self.candidate.runs, |runs| {
            if let Some(at) = runs.iter().position(|before| *before == self.before) {
                runs.swap_remove(at);
            }
        });
    }
}
