//! Defines the queue of one key: the waiters in this process, and the rules that choose the next holder of the grant.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::handoff::Handoff;
use super::last_answer::LastAnswer;
use super::lingering_keys::{Lingering, instant};
use super::quantum::{Quantum, Questions};
use super::waiter_node::{NodeState, WaiterNode};
use crate::clock::Moment;
use crate::owner::Owner;
use crate::pending::LeftEntry;

/// The work that must wait until the lock of the queue is released, because it may run code of the application.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// The waiters to notify: the new head, and skipped waiters, because their futures may still be polled.
    pub(super) notify: Vec<Arc<WaiterNode>>,
    /// Entries in the store's queue that no waiter uses.
    pub(super) unused: Vec<LeftEntry>,
}

/// The results of a reclaim of hand-offs and turns from waiters that are not being polled. A turn is the duty to send
/// the next request for the queue.
#[derive(Debug, Default)]
pub(super) struct Reclaimed {
    /// Whether a waiter still has time to accept its hand-off, so that another reclaim is needed.
    pub(super) more: bool,
    /// Hand-offs that no waiter has accepted.
    pub(super) handoffs: Vec<Handoff>,
    pub(super) effects: Effects,
    /// The nodes that were checked. These references are dropped outside of the queue's lock, because the content of a
    /// node must not be dropped under that lock.
    nodes: Vec<Arc<WaiterNode>>,
}

/// The destination of a grant that its holder releases.
#[derive(Debug)]
pub(super) enum Passed {
    /// The grant goes to the next waiter.
    On(Arc<WaiterNode>),
    /// The grant lingers. The value is the time of the check that the caller must add to `LingeringKeys`. It is `None`
    /// if an earlier check of the key is already listed.
    Lingers(Option<i64>),
    /// The grant must be released at the store.
    No,
}

/// The waiter that last received a hand-off or a turn, and the time of that event. The reference is weak, because no
/// node may be dropped under the lock of the queue.
pub(super) type Given = Option<(Weak<WaiterNode>, Moment)>;

/// The waiters of one key.
///
/// The queue exists while it has waiters, while a holder that came through the queue holds the key, and while a grant
/// lingers. In these cases new waiters join without a request, because the store would refuse the request. The queue
/// also exists during a request for a grant that may linger.
#[derive(Debug, Default)]
pub(super) struct KeyQueue {
    /// The waiters in order of arrival. The first is the head.
    nodes: VecDeque<Arc<WaiterNode>>,
    /// The owner of the grant in use, if its holder came through this queue.
    held: Option<Owner>,
    /// A released grant that waits for its next holder.
    lingering: Option<Lingering>,
    /// The time at which the renewers check the key for a lingering grant that must end.
    listed: Option<i64>,
    /// The number of requests under way whose grants may linger.
    expected: usize,
    quantum: Quantum,
    questions: Questions,
    /// The waiter that last received the grant by a hand-off.
    handed: Given,
    /// The waiter that last received a turn as the head.
    asked: Given,
    pub(super) last_answer: Option<LastAnswer>,
}

impl KeyQueue {
    pub(super) fn is_idle(&self) -> bool {
        !self.is_busy() && self.expected == 0
    }

    /// Returns whether the queue has a waiter, a holder or a lingering grant.
    pub(super) fn is_busy(&self) -> bool {
        !self.nodes.is_empty() || self.held.is_some() || self.lingering.is_some()
    }

    pub(super) fn expect(&mut self) {
        self.expected += 1;
    }

    pub(super) fn no_more_expected(&mut self) {
        self.expected -= 1;
    }

    pub(super) fn lingering(&self) -> Option<&Lingering> {
        self.lingering.as_ref()
    }

    pub(super) fn take_lingering(&mut self) -> Option<Handoff> {
        self.lingering.take().map(|lingering| lingering.handoff)
    }

    pub(super) fn listed(&self) -> Option<i64> {
        self.listed
    }

    pub(super) fn set_listed(&mut self, listed: Option<i64>) {
        self.listed = listed;
    }

    /// Records that the lingering grant is in use again.
    pub(super) fn hold(&mut self, owner: Owner) {
        self.held = Some(owner);
    }

    pub(super) fn waiting(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn is_head(&self, node: &Arc<WaiterNode>) -> bool {
        self.nodes.front().is_some_and(|head| Arc::ptr_eq(head, node))
    }

    pub(super) fn is_head_or_next(&self, node: &Arc<WaiterNode>) -> bool {
        self.nodes.iter().take(2).any(|first| Arc::ptr_eq(first, node))
    }

    pub(super) fn head(&self) -> Option<Arc<WaiterNode>> {
        self.nodes.front().cloned()
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = Arc<WaiterNode>> {
        self.nodes.iter().cloned()
    }

    /// Adds a new waiter at the end of the queue, or gives it the lingering grant. Returns its node, and whether it
    /// received the grant. If a holder that came through this queue has the key, its release notifies the waiter.
    /// Otherwise the first waiter sends a request.
    pub(super) fn join(&mut self, ttl: Duration, now: Moment) -> (Arc<WaiterNode>, bool) {
        let node = Arc::new(WaiterNode::new(ttl, now));
        let lingered = self.push(&node, now);
        (node, lingered)
    }

    /// Adds a skipped waiter at the end of the queue. Returns whether the waiter received the lingering grant.
    pub(super) fn rejoin(&mut self, node: &Arc<WaiterNode>, now: Moment) -> bool {
        let skipped = std::mem::take(&mut node.state().skipped);
        skipped && self.push(node, now)
    }

    fn push(&mut self, node: &Arc<WaiterNode>, now: Moment) -> bool {
        // The lingering grant was released after this waiter had found the key held. The queue has no other waiter,
        // because a grant lingers only without waiters.
        if let Some(handoff) = self.take_lingering() {
            self.give(node, handoff, now);
            return true;
        }
        self.nodes.push_back(Arc::clone(node));
        if self.nodes.len() == 1 && self.held.is_none() {
            node.state().must_ask = true;
        }
        false
    }

    /// Gives the grant to a waiter that is not in the queue.
    fn give(&mut self, node: &Arc<WaiterNode>, handoff: Handoff, now: Moment) {
        self.quantum.count_handoff();
        self.held = Some(handoff.claim().owner);
        node.state().handoff = Some(handoff);
        self.handed = Some((Arc::downgrade(node), now));
    }

    /// Removes a waiter. If the waiter was the head, its turn and its entry in the store's queue pass to the next
    /// waiter.
    pub(super) fn leave(&mut self, node: &Arc<WaiterNode>, entry: Option<LeftEntry>, now: Moment) -> Effects {
        // The lock of the queue is held during the whole call. Hand-offs go only to waiters in `nodes`, so no hand-off
        // reaches this waiter after its removal.
        let was_head = self.is_head(node);
        let entry = entry.or_else(|| node.state().entry.take());
        self.nodes.retain(|other| !Arc::ptr_eq(other, node));
        node.state().gone = true;
        let mut effects = Effects::default();
        if was_head {
            // The removed waiter may have received the last notification, so the new head is notified too.
            self.succeed(entry, now, &mut effects);
        } else {
            // A waiter that has an entry but is not the head was skipped. The new head sends requests with its own
            // claim, so this entry is unused.
            effects.unused.extend(entry);
        }
        effects
    }

    /// Passes the turn of the previous head, and its entry in the store's queue, to the new head.
    fn succeed(&mut self, entry: Option<LeftEntry>, now: Moment, effects: &mut Effects) {
        let Some(head) = self.nodes.front() else { return effects.unused.extend(entry) };
        let mut state = head.state();
        // The release of a replaced entry may run code of the application, so it happens outside of the queue's lock.
        if entry.is_some() {
            effects.unused.extend(std::mem::replace(&mut state.entry, entry));
        }
        if self.held.is_none() {
            state.must_ask = true;
            self.asked = Some((Arc::downgrade(head), now));
        }
        effects.notify.push(Arc::clone(head));
    }

    /// Removes a head that is not polled from the queue. The waiter joins again when it is polled. If the waiter stayed
    /// in the queue, each hand-off to this waiter would have to be reclaimed, which would slow down a hot key.
    fn skip(&mut self, now: Moment, effects: &mut Effects) {
        let Some(head) = self.nodes.pop_front() else { return };
        let entry = {
            let mut state = head.state();
            // The new head gets the turn. When the skipped waiter is polled again, it must not send a request.
            (state.skipped, state.must_ask) = (true, false);
            state.entry.take()
        };
        self.succeed(entry, now, effects);
        // If the future of the skipped waiter is still polled, this notification makes the waiter join again soon.
        effects.notify.push(head);
    }

    /// Skips waiters at the front of the queue as long as the first one is stalled.
    pub(super) fn skip_stalled(&mut self, now: Moment, effects: &mut Effects) {
        while self.nodes.front().is_some_and(|head| head.state().is_stalled(now)) {
            self.skip(now, effects);
        }
    }

    /// Records that the store granted the key to the head, for `owner`. `contended` says whether others may wait
    /// elsewhere. Returns the waiter's unused entry.
    pub(super) fn granted(
        &mut self,
        node: &Arc<WaiterNode>,
        owner: Owner,
        contended: bool,
        now: Moment,
    ) -> Option<LeftEntry> {
        self.nodes.retain(|other| !Arc::ptr_eq(other, node));
        self.granted_here(owner, contended, now);
        node.state().entry.take()
    }

    /// Records that the store granted the key to `owner`, a waiter of this queue or another request of this process.
    /// `contended` says whether others may wait elsewhere.
    pub(super) fn granted_here(&mut self, owner: Owner, contended: bool, now: Moment) {
        self.held = Some(owner);
        LastAnswer::granted(now).replace(&mut self.last_answer);
        // A notification that others wait elsewhere may have arrived before this answer, so it counts for the new grant
        // too.
        let contended = contended || self.quantum.is_contended();
        self.quantum = Quantum::default();
        self.handed = None;
        if contended {
            self.quantum.contend(now);
        }
    }

    /// Returns whether the waiters of this queue may wait for the grant of `owner`. If another owner holds the key,
    /// `owner` had an earlier grant, which was lost, and the guard of that grant was dropped late.
    pub(super) fn may_be_of(&self, owner: Owner) -> bool {
        self.held.is_none_or(|holder| holder == owner)
    }

    /// Passes the grant of `owner` to the next waiter, if there is one and the quantum is not over. Without a waiter,
    /// the grant may linger for `linger`. If `asks` is set, the caller asks the store whether others wait elsewhere,
    /// and the quantum lasts until the answer.
    pub(super) fn pass(
        &mut self,
        owner: Owner,
        linger: Option<Duration>,
        asks: bool,
        handoff: impl FnOnce(Option<Duration>) -> Option<Handoff>,
        now: Moment,
    ) -> Passed {
        if !self.may_be_of(owner) {
            return Passed::No;
        }
        let held = self.held.is_some();
        let passed = match linger {
            // The grant lingers only if the queue existed since the grant, and so has received every notification about
            // waiters elsewhere. If an expired earlier grant still lingers, it must not be replaced, because it would
            // be dropped under the lock.
            Some(linger)
                if self.nodes.is_empty()
                    && held
                    && self.lingering.is_none()
                    && !self.quantum.is_contended() =>
            {
                (self.handed, self.held) = (None, None);
                handoff(None).map_or(Passed::No, |handoff| self.linger(handoff, linger, now))
            }
            _ => self.hand_off(asks, |ttl| handoff(Some(ttl)), now).map_or(Passed::No, Passed::On),
        };
        if matches!(passed, Passed::No) {
            // The quantum is reset here and not in `freed`, which is called after the answer to this release. By then,
            // notifications about the next grant may have arrived.
            self.quantum = Quantum::default();
        }
        passed
    }

    fn linger(&mut self, handoff: Handoff, linger: Duration, now: Moment) -> Passed {
        let until = now.plus(linger).earlier(handoff.grant().deadline(), now);
        self.lingering = Some(Lingering { handoff, until });
        let until = instant(until);
        let list = self.listed.is_none_or(|listed| until < listed);
        if list {
            self.listed = Some(until);
        }
        Passed::Lingers(list.then_some(until))
    }

    fn hand_off(
        &mut self,
        asks: bool,
        handoff: impl FnOnce(Duration) -> Option<Handoff>,
        now: Moment,
    ) -> Option<Arc<WaiterNode>> {
        self.handed = None;
        self.held = None;
        let ttl = self.nodes.front()?.ttl();
        // If the quantum is over, the head sends no request yet. The caller releases the grant at the store. When that
        // release is answered or given up, `freed` is called, and the head sends its request.
        if self.quantum.is_over(now) && !asks {
            return None;
        }
        // The hand-off is made while the waiter is still in the queue. If `handoff` returns `None`, the waiter stays
        // there to send a request later.
        let handoff = handoff(ttl)?;
        let next = self.nodes.pop_front()?;
        if asks {
            self.quantum.asked(now);
            self.questions.asked();
        }
        self.give(&next, handoff, now);
        Some(next)
    }

    /// Records that `owner` has released the key at the store, has lost it, or has left the store's queue. The head
    /// then sends a request. If another owner holds the key through this queue, this does nothing, because the release
    /// of that owner will notify the head.
    pub(super) fn freed(&mut self, owner: Owner, now: Moment) -> Option<Arc<WaiterNode>> {
        if let Some(holder) = self.held {
            if holder != owner {
                return None;
            }
            // The grant was lost, was dropped between two holders, or lingered and was released. The quantum is not
            // reset. A notification that others wait elsewhere may be about the next grant, because it can arrive
            // before this answer.
            self.held = None;
        }
        let head = self.nodes.front()?;
        head.state().must_ask = true;
        self.asked = Some((Arc::downgrade(head), now));
        Some(Arc::clone(head))
    }

    pub(super) fn contend(&mut self, now: Moment) {
        self.quantum.contend(now);
    }

    /// Returns whether the caller should ask the store whether others wait elsewhere. This is the case if the quantum
    /// is over, this queue has a waiter, and a request is due. `may_ask` returns whether the caller can send the
    /// request.
    pub(super) fn asks_for_others(&mut self, may_ask: impl FnOnce() -> bool, now: Moment) -> bool {
        !self.nodes.is_empty() && self.quantum.is_open_question(now) && may_ask() && self.questions.is_due()
    }

    /// Records the store's answer to the question whether others wait for the grant of `owner`. The answer arrived at
    /// `now`, and the request took `took`.
    pub(super) fn answered(&mut self, others_wait: bool, owner: Owner, took: Duration, now: Moment) {
        if !others_wait {
            self.questions.nobody_waited();
        }
        match self.held {
            Some(holder) if holder != owner => {}
            // The key has no holder any more, so the answer is out of date.
            None => {}
            Some(_) if others_wait => self.quantum.others_waited(now),
            Some(_) => self.quantum.nobody_waited(took, now),
        }
    }

    #[cfg(test)]
    pub(super) fn is_contended(&self) -> bool {
        self.quantum.is_contended()
    }

    /// Reclaims a hand-off or a turn that its waiter has not accepted within `patience`.
    pub(super) fn reclaim(&mut self, patience: Duration, now: Moment, reclaimed: &mut Reclaimed) {
        if let Some(node) = not_taken(&mut self.handed, NodeState::has_handoff, patience, now, reclaimed) {
            let mut state = node.state();
            // `skipped` is set in the same step in which the hand-off is taken. Otherwise the waiter could find no
            // hand-off, and would keep waiting although it is not in the queue.
            state.skipped = true;
            reclaimed.handoffs.extend(state.handoff.take());
        }
        if let Some(node) = not_taken(&mut self.asked, NodeState::has_question, patience, now, reclaimed)
            // If another waiter has become the head, that waiter has been notified.
            && self.is_head(&node)
        {
            self.skip(now, &mut reclaimed.effects);
        }
    }
}

/// Returns the waiter in `given`, if it has not accepted its hand-off or turn within `patience`. `has` returns whether
/// a waiter still has the hand-off or turn.
pub(super) fn not_taken(
    given: &mut Given,
    has: fn(&NodeState) -> bool,
    patience: Duration,
    now: Moment,
    reclaimed: &mut Reclaimed,
) -> Option<Arc<WaiterNode>> {
    let (node, since) = given.as_ref()?;
    let has_it = node.upgrade().filter(|node| {
        reclaimed.nodes.push(Arc::clone(node));
        has(&node.state())
    });
    if has_it.is_some() && now.since(*since) < patience {
        reclaimed.more = true;
        return None;
    }
    *given = None;
    has_it
}
