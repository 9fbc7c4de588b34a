//! A node of the quorum, and the number of its failures.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::error::Result;

/// The number of failures in a row after which a node is suspect. A restart of a node causes two failures.
const SUSPECT_AFTER: u32 = 3;

/// One store of the quorum.
#[derive(Debug)]
pub(super) struct Node<B> {
    pub(super) backend: B,
    name: String,
    /// The number of calls in a row without an answer.
    failures: AtomicU32,
    /// The number of attempts that wait for the node while it is suspect.
    waiting: AtomicUsize,
    healing: AtomicBool,
}

impl<B> Node<B> {
    pub(super) fn new(name: String, backend: B) -> Self {
        Self {
            backend,
            name,
            failures: AtomicU32::new(0),
            waiting: AtomicUsize::new(0),
            healing: AtomicBool::new(false),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the node has repeatedly failed to answer. Requests are still sent to a suspect node, so that its
    /// return is noticed. But no caller waits for the node while the other nodes are a majority.
    pub(super) fn is_suspect(&self) -> bool {
        // `Relaxed` is enough: the counter decides only whether callers wait for this node. No grant depends on it.
        self.failures.load(Ordering::Relaxed) >= SUSPECT_AFTER
    }

    /// Returns whether the node is suspect and an earlier attempt still waits for it. Another attempt would only make
    /// the queue of the node longer.
    pub(super) fn is_stuck(&self) -> bool {
        self.is_suspect() && self.waiting.load(Ordering::Relaxed) > 0
    }

    pub(super) fn answered(&self) {
        // If no call has failed, as usual, the load avoids a write to shared memory.
        if self.failures.load(Ordering::Relaxed) > 0
            && self.failures.swap(0, Ordering::Relaxed) >= SUSPECT_AFTER
        {
            tracing::info!(lock.node = %self.name, "the node answers again");
        }
    }

    pub(super) fn failed(&self) {
        // The count stops at the limit, so that it never wraps around.
        let more = |count: u32| (count < SUSPECT_AFTER).then_some(count + 1);
        let before = self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if before == Ok(SUSPECT_AFTER - 1) {
            tracing::warn!(lock.node = %self.name, "the node does not answer; it is not waited for until it does");
        }
    }

    /// Counts `answer` as an answer or as a failure. An error with a retry time counts as an answer: a node in
    /// quarantine does not vote for a while, but is alive.
    pub(super) fn heard<T>(&self, answer: &Result<T>) {
        match answer {
            Err(error) if error.is_temporary() && error.retry_after().is_none() => self.failed(),
            _ => self.answered(),
        }
    }

    /// Counts an attempt as waiting for the node until the returned guard is dropped.
    pub(super) fn waits(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(&self.waiting)
    }

    /// Returns a guard for the healing of the node, or `None` while another task heals it.
    pub(super) fn heals(&self) -> Option<Healing<'_>> {
        (!self.healing.swap(true, Ordering::AcqRel)).then_some(Healing(&self.healing))
    }
}

#[derive(Debug)]
pub(super) struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(super) struct Healing<'a>(&'a AtomicBool);

impl Drop for Healing<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{LockError, LockErrorKind};

    #[test]
    fn a_node_that_fails_is_suspect_until_it_answers() {
        let node = Node::new("a".to_owned(), ());
        let silent = || Err::<(), _>(LockError::new(LockErrorKind::Unavailable, "no answer"));
        for _ in 1..SUSPECT_AFTER {
            node.heard(&silent());
        }
        assert!(!node.is_suspect());
        node.heard(&Ok(()));
        for _ in 0..SUSPECT_AFTER {
            assert!(!node.is_suspect(), "failures in a row count");
            node.heard(&silent());
        }
        assert!(node.is_suspect() && !node.is_stuck());
        let waiting = node.waits();
        assert!(node.is_stuck());
        drop(waiting);
        assert!(!node.is_stuck(), "somebody has to ask");
        let refused = Err::<(), _>(LockError::new(LockErrorKind::InvalidRequest, "another mode"));
        node.heard(&refused);
        assert!(!node.is_suspect(), "a refusal is an answer");
        for _ in 0..SUSPECT_AFTER {
            let rests = LockError::new(LockErrorKind::Unavailable, "in quarantine");
            node.heard(&Err::<(), _>(rests.with_retry_after(Some(std::time::Duration::from_secs(1)))));
        }
        assert!(!node.is_suspect(), "and so is a quarantine");
    }
}
