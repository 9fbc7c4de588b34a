//! A place in the queue, as its waiter has it.

use std::sync::Arc;
use std::time::Duration;

use super::handoff::Handoff;
use super::queues::LocalQueue;
use super::waiter_node::WaiterNode;
use crate::clock::Moment;
use crate::key::Key;
use crate::pending::PendingClaim;

/// A store answers within so long as a rule.
const ANSWER: Duration = Duration::from_secs(2);

/// A place in the queue; dropping it leaves, and passes on what it was given.
pub(crate) struct Waiter<'a> {
    local_queue: &'a LocalQueue,
    key: Key,
    node: Arc<WaiterNode>,
    /// It is out of the queue: it has the key.
    served: bool,
}

impl<'a> Waiter<'a> {
    /// Joins the queue for `key`, behind those who wait already; `Err` says how many they are, if they are `max` or more.
    pub(crate) fn join(
        local_queue: &'a LocalQueue,
        key: &Key,
        max: usize,
        ttl: Duration,
    ) -> Result<Self, usize> {
        let node = local_queue.join(key, max, ttl)?;
        Ok(Self { local_queue, key: key.clone(), node, served: false })
    }

    /// Whether it is the first in queue, who alone asks the store.
    pub(crate) fn is_head(&self) -> bool {
        self.local_queue.is_head(&self.key, &self.node)
    }

    /// Others in the queue.
    pub(crate) fn others(&self) -> usize {
        self.local_queue.waiters(&self.key).saturating_sub(1)
    }

    /// Whether it is to ask the store; tells once.
    pub(crate) fn take_ask(&self) -> bool {
        std::mem::take(&mut self.node.news().ask)
    }

    /// The grant of the holder before, if it is its turn.
    fn take_handoff(&mut self) -> Option<Handoff> {
        let handoff = self.node.news().handoff.take();
        self.served |= handoff.is_some();
        handoff
    }

    /// The place in the store's queue that a head before it left.
    pub(crate) fn take_entry(&self) -> Option<PendingClaim> {
        self.node.news().entry.take()
    }

    /// Notes that somebody polls this waiter, which looks round again by `back`.
    pub(crate) fn is_alive(&self, back: Moment) {
        self.node.news().back = back;
    }

    /// Notes that this waiter awaits an answer of the store, from `now` on, or has it.
    pub(crate) fn is_asking(&self, asking: bool, now: Moment) {
        let mut news = self.node.news();
        (news.asking, news.back) = (asking, if asking { now.plus(ANSWER) } else { now });
    }

    /// Looks round: the turn, if it is this one's. One that was passed over because nobody polled it lines up again.
    pub(crate) fn look_round(&mut self) -> Option<Handoff> {
        let handoff = self.take_handoff();
        if handoff.is_none() && self.node.news().skipped {
            self.local_queue.rejoin(&self.key, &self.node);
        }
        handoff
    }

    /// Completes when there is news. Cancel safe.
    pub(crate) async fn news(&self) {
        self.node.rung().await;
    }

    /// Sees to it that the queue is not lost on a head that nobody polls.
    pub(crate) fn skip_stalled(&self, now: Moment) {
        self.is_alive(now);
        self.local_queue.skip_stalled(&self.key, now);
    }

    /// The store granted the key to this head; `contended`: others wait there.
    pub(crate) fn granted(&mut self, contended: bool) {
        self.served = true;
        self.local_queue.granted(&self.key, &self.node, contended);
        // A turn on another grant, which has run out by now; dropped, it is given back.
        drop(self.take_handoff());
    }

    /// Whether it has the key, and so is out of the queue.
    pub(crate) fn is_served(&self) -> bool {
        self.served
    }

    /// Leaves, and leaves a place in the store's queue to the one behind.
    pub(crate) fn leave_with(mut self, entry: Option<PendingClaim>) {
        self.leave(entry);
    }

    fn leave(&mut self, entry: Option<PendingClaim>) {
        if self.served {
            return;
        }
        self.served = true;
        self.local_queue.leave(&self.key, &self.node, entry);
        // It may have been its turn, or become so until now: then it is the next one's, or the store's.
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
