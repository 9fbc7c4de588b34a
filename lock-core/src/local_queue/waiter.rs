//! Defines [`Waiter`]: a waiter of the local queue, as the acquire loop uses it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::futures::Notified;

use super::handoff::Handoff;
use super::last_answer::LastAnswer;
use super::queues::LocalQueue;
use super::waiter_node::{ANSWER, WaiterNode};
use crate::clock::Moment;
use crate::key::Key;
use crate::owner::Owner;
use crate::pending::LeftEntry;

/// A waiter in the queue of one key. Dropping this value removes the waiter from the queue, and passes its hand-off or
/// turn on to the next waiter. A turn is the duty to send the next request for the queue.
pub(crate) struct Waiter<'a> {
    local_queue: &'a LocalQueue,
    key: Key,
    node: Arc<WaiterNode>,
    /// Whether the waiter has left the queue, with or without the key.
    served: bool,
}

impl<'a> Waiter<'a> {
    /// Joins the queue of `key` at `now`, after the current waiters. If there are already `max` waiters or more,
    /// returns their number as `Err`.
    pub(crate) fn join(
        local_queue: &'a LocalQueue,
        key: &Key,
        max: usize,
        ttl: Duration,
        now: Moment,
    ) -> Result<Self, usize> {
        let node = local_queue.join(key, max, ttl, now)?;
        Ok(Self { local_queue, key: key.clone(), node, served: false })
    }

    /// Records an answer that the store sent to this waiter. All waiters of the key can read it.
    pub(crate) fn note_answer(&self, answer: &LastAnswer) {
        self.local_queue.with(&self.key, |queue| answer.copy().replace(&mut queue.last_answer));
    }

    /// Returns the last answer of the store to any waiter of this key.
    pub(crate) fn last_answer(&self) -> Option<LastAnswer> {
        self.local_queue.with(&self.key, |queue| queue.last_answer.as_ref().map(LastAnswer::copy)).flatten()
    }

    /// Returns whether this waiter is the head: the first in the queue. The other waiters send no requests.
    pub(crate) fn is_head(&self) -> bool {
        self.local_queue.with(&self.key, |queue| queue.is_head(&self.node)).unwrap_or(false)
    }

    /// Returns whether this waiter is the first or the second in the queue.
    pub(crate) fn is_head_or_next(&self) -> bool {
        self.local_queue.with(&self.key, |queue| queue.is_head_or_next(&self.node)).unwrap_or(false)
    }

    /// Returns the number of other waiters in the queue.
    pub(crate) fn others(&self) -> usize {
        self.local_queue.waiters(&self.key).saturating_sub(1)
    }

    /// Returns whether this waiter must send a request, and clears that flag.
    pub(crate) fn take_ask(&self) -> bool {
        std::mem::take(&mut self.node.state().must_ask)
    }

    /// Takes the handed-off grant of the previous holder, if there is one.
    fn take_handoff(&mut self) -> Option<Handoff> {
        let handoff = self.node.state().handoff.take();
        self.served |= handoff.is_some();
        handoff
    }

    /// Records that this waiter is polled, and will check the queue again by `then`.
    pub(crate) fn checks_in_by(&self, then: Moment) {
        self.node.state().check_in_by = then;
    }

    /// Records at `now` whether this waiter awaits an answer of the store. If so, the queue expects its next check only
    /// after [`ANSWER`].
    pub(crate) fn set_asking(&self, asking: bool, now: Moment) {
        let mut state = self.node.state();
        // A head that awaits an answer cannot check in, and must not be skipped at once. But it is skipped some time
        // after `ANSWER`, so that the other waiters do not wait for a slow answer.
        (state.asking, state.check_in_by) = (asking, if asking { now.plus(ANSWER) } else { now });
    }

    /// Takes the hand-off, if there is one. If the waiter was skipped because it was not polled, it joins the queue
    /// again.
    pub(crate) fn check_in(&mut self) -> Option<Handoff> {
        let mut state = self.node.state();
        // Both fields are read in one step, because a reclaim changes both in one step: it takes the hand-off and sets
        // `skipped`.
        let (mut handoff, skipped) = (state.handoff.take(), state.skipped);
        drop(state);
        if handoff.is_none() && skipped {
            self.local_queue.rejoin(&self.key, &self.node);
            // If a grant lingers, `rejoin` stores it in the node without a notification.
            handoff = self.node.state().handoff.take();
        }
        self.served |= handoff.is_some();
        handoff
    }

    /// Takes the previous head's entry in the store's queue. Also returns whether this waiter must send a request.
    pub(crate) fn take_left(&self) -> (Option<LeftEntry>, bool) {
        let mut state = self.node.state();
        (state.entry.take(), std::mem::take(&mut state.must_ask))
    }

    /// Completes when this waiter is notified. This method is cancel safe.
    pub(crate) fn notified(&self) -> Notified<'_> {
        self.node.notified()
    }

    /// Skips the waiters at the front of the queue whose futures are not being polled.
    pub(crate) fn skip_stalled(&self, now: Moment) {
        // This waiter is being polled at this moment, so it must not skip itself, even if it is late.
        self.checks_in_by(now);
        self.local_queue.skip_stalled(&self.key, now);
    }

    /// Records that the store granted the key to this waiter, the head, for `owner`. `contended` says whether others
    /// wait in other processes.
    pub(crate) fn granted(&mut self, owner: Owner, contended: bool) {
        self.served = true;
        self.local_queue.granted(&self.key, &self.node, owner, contended);
        // If the node still has a hand-off, it belongs to an earlier grant, which has expired. Dropping the hand-off
        // releases that grant.
        drop(self.take_handoff());
    }

    pub(crate) fn is_served(&self) -> bool {
        self.served
    }

    /// Leaves the queue, and passes `entry`, an entry in the store's queue, to the next waiter.
    pub(crate) fn leave(&mut self, entry: Option<LeftEntry>) {
        if self.served {
            return;
        }
        self.served = true;
        self.local_queue.leave(&self.key, &self.node, entry);
        // A hand-off may have arrived before the node left the queue. No hand-off can arrive after that.
        if let Some(handoff) = self.take_handoff() {
            self.local_queue.pass_on(handoff);
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.leave(None);
    }
}
