//! The queue of one key: its waiters in this process, and the next receiver of its grant.

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

/// The work that a change leaves for after the lock of the queue, because it may run code of the application.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// The waiters to notify: the head, and skipped ones, in case they are polled after all.
    pub(super) notify: Vec<Arc<WaiterNode>>,
    /// Queue entries without a waiter.
    pub(super) unused: Vec<LeftEntry>,
}

impl Effects {
    pub(super) fn is_empty(&self) -> bool {
        self.notify.is_empty() && self.unused.is_empty()
    }
}

/// Hand-offs reclaimed from waiters that are not being polled.
#[derive(Debug, Default)]
pub(super) struct Reclaimed {
    /// Another waiter still has time to take its hand-off.
    pub(super) more: bool,
    /// Hand-offs without a taker.
    pub(super) handoffs: Vec<Handoff>,
    pub(super) effects: Effects,
    /// The nodes that were checked. The content of a node must not be dropped under the lock of the queue.
    nodes: Vec<Arc<WaiterNode>>,
}

/// The destination of a grant whose holder releases it.
#[derive(Debug)]
pub(super) enum Passed {
    /// The next waiter gets it.
    On(Arc<WaiterNode>),
    /// The grant lingers. The value is the time for which the key must be listed; `None` if it is listed early enough.
    Lingers(Option<i64>),
    /// It goes back to the store.
    No,
}

/// The waiter that was given a grant or a turn, and when. It is weak: no node may be dropped under the lock of the
/// queue.
pub(super) type Given = Option<(Weak<WaiterNode>, Moment)>;

/// The waiters of one key.
///
/// The queue exists while it has waiters, while a holder that came through it holds the key, and while a grant lingers.
/// So newcomers join it without a request that the store would refuse. It also exists during a request for a grant that
/// may linger.
#[derive(Debug, Default)]
pub(super) struct KeyQueue {
    /// In order of arrival; the first is the head.
    nodes: VecDeque<Arc<WaiterNode>>,
    /// The owner of the grant that came through this queue and is in use.
    held: Option<Owner>,
    /// A grant that was released, and not taken by the next holder yet.
    lingering: Option<Lingering>,
    /// When the renewers check the key for a lingering grant.
    listed: Option<i64>,
    /// The number of requests under way for a grant that may linger.
    expected: usize,
    quantum: Quantum,
    questions: Questions,
    /// The waiter that was handed the grant last.
    handed: Given,
    /// The head that was last notified to send a request to the store.
    asked: Given,
    pub(super) last_answer: Option<LastAnswer>,
}

impl KeyQueue {
    pub(super) fn is_idle(&self) -> bool {
        !self.is_busy() && self.expected == 0
    }

    /// Returns whether there is a waiter, a holder or a lingering grant.
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

    /// Notes that the grant that lingered is in use again.
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

    /// Adds a waiter at the end. The first waiter asks the store, unless the key is held through the queue: then the
    /// end of that hold notifies it. Returns whether the waiter got the lingering grant, and so is not in the queue.
    pub(super) fn join(&mut self, ttl: Duration, now: Moment) -> (Arc<WaiterNode>, bool) {
        let node = Arc::new(WaiterNode::new(ttl, now));
        let lingered = self.push(&node, now);
        (node, lingered)
    }

    /// Puts a waiter that was skipped back into the queue, at the end. Returns whether the waiter got the lingering
    /// grant.
    pub(super) fn rejoin(&mut self, node: &Arc<WaiterNode>, now: Moment) -> bool {
        let skipped = std::mem::take(&mut node.state().skipped);
        skipped && self.push(node, now)
    }

    fn push(&mut self, node: &Arc<WaiterNode>, now: Moment) -> bool {
        // The grant was released after this waiter found the key held. There is no other waiter: else the grant would
        // not linger.
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

    /// Gives the grant to a waiter that is out of the queue.
    fn give(&mut self, node: &Arc<WaiterNode>, handoff: Handoff, now: Moment) {
        self.quantum.count_handoff();
        self.held = Some(handoff.claim().owner);
        node.state().handoff = Some(handoff);
        self.handed = Some((Arc::downgrade(node), now));
    }

    /// Removes a waiter. Its hand-off or turn goes to the next one.
    pub(super) fn leave(&mut self, node: &Arc<WaiterNode>, entry: Option<LeftEntry>, now: Moment) -> Effects {
        // This is all under the lock of the queue: a hand-off goes to the first of `nodes`, so from here on to another
        // waiter.
        let was_head = self.is_head(node);
        let entry = entry.or_else(|| node.state().entry.take());
        self.nodes.retain(|other| !Arc::ptr_eq(other, node));
        node.state().gone = true;
        let mut effects = Effects::default();
        if was_head {
            // The last notification may have gone to the removed waiter.
            self.succeed(entry, now, &mut effects);
        } else {
            // If it has an entry, it was skipped meanwhile: another waiter is the head, and asks with its own claim.
            effects.unused.extend(entry);
        }
        effects
    }

    /// Gives the new head the turn to ask and the entry in the store's queue of the previous head.
    fn succeed(&mut self, entry: Option<LeftEntry>, now: Moment, effects: &mut Effects) {
        let Some(head) = self.nodes.front() else { return effects.unused.extend(entry) };
        let mut state = head.state();
        // The entry that is replaced is released, which may run code of the application. So the release waits until the
        // lock of the queue is released.
        if entry.is_some() {
            effects.unused.extend(std::mem::replace(&mut state.entry, entry));
        }
        if self.held.is_none() {
            state.must_ask = true;
            self.asked = Some((Arc::downgrade(head), now));
        }
        effects.notify.push(Arc::clone(head));
    }

    /// Skips the head, which is not polled: it leaves the queue until it is polled. A stalled waiter that kept its turn
    /// would slow a hot key down to the time after which a hand-off is reclaimed.
    fn skip(&mut self, now: Moment, effects: &mut Effects) {
        let Some(head) = self.nodes.pop_front() else { return };
        let entry = {
            let mut state = head.state();
            // The turn to ask goes to the next head. When this waiter is polled again it must not ask out of turn.
            (state.skipped, state.must_ask) = (true, false);
            state.entry.take()
        };
        self.succeed(entry, now, effects);
        // If its future is still polled, it soon joins again.
        effects.notify.push(head);
    }

    /// Skips the heads that should have been polled long ago.
    pub(super) fn skip_stalled(&mut self, now: Moment, effects: &mut Effects) {
        while self.nodes.front().is_some_and(|head| head.state().is_stalled(now)) {
            self.skip(now, effects);
        }
    }

    /// Notes that the head has a grant from the store, for `owner`. `contended`: others may wait elsewhere.
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

    /// Notes that the store granted the key to `owner`, in the queue or outside. `contended`: others may wait
    /// elsewhere.
    pub(super) fn granted_here(&mut self, owner: Owner, contended: bool, now: Moment) {
        self.held = Some(owner);
        LastAnswer::granted(now).replace(&mut self.last_answer);
        // A notification that others wait may have overtaken this answer, so it counts for the new grant too.
        let contended = contended || self.quantum.is_contended();
        self.quantum = Quantum::default();
        self.handed = None;
        if contended {
            self.quantum.contend(now);
        }
    }

    /// Returns whether the grant of `owner` may be the one that waiters of this queue rely on. A guard that is dropped
    /// late may release an earlier grant, which was lost.
    pub(super) fn may_be_of(&self, owner: Owner) -> bool {
        self.held.is_none_or(|holder| holder == owner)
    }

    /// Hands the grant of `owner` off to the next waiter, if there is one and the quantum is not over. If there is
    /// none, the grant may stay for `linger`. If the caller `asks` whether others wait, the quantum lasts until the
    /// answer.
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
            // The grant lingers only if the queue has received all notifications about others since the grant. An
            // earlier grant whose time is over may still be here, and must not be dropped under the lock.
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
            // This is done here and not in `freed`: a notification that arrives from here on is about the next grant,
            // and the answer to this release may be processed later.
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
        // If nothing is handed off, the head need not ask yet: the release that follows calls `freed`, when the store
        // has answered it or it is given up.
        if self.quantum.is_over(now) && !asks {
            return None;
        }
        // The hand-off is made while the waiter is still in the queue: if no hand-off is made, that waiter must ask the
        // store.
        let handoff = handoff(ttl)?;
        let next = self.nodes.pop_front()?;
        if asks {
            self.quantum.asked(now);
            self.questions.asked();
        }
        self.give(&next, handoff, now);
        Some(next)
    }

    /// Notes that `owner` has released the key to the store, or lost it, or left the store's queue. The head asks,
    /// unless another owner holds the key through this queue: then its release notifies the head.
    pub(super) fn freed(&mut self, owner: Owner, now: Moment) -> Option<Arc<WaiterNode>> {
        if let Some(holder) = self.held {
            if holder != owner {
                return None;
            }
            // The grant was lost, dropped between two holders, or lingered and was released. The knowledge of waiters
            // elsewhere stays: it may be about the next grant, whose notification can come before this answer.
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

    /// Returns whether to ask the store for waiters elsewhere, because the quantum is over and there is a waiter here.
    /// `may_ask` says whether the caller can ask.
    pub(super) fn asks_for_others(&mut self, may_ask: impl FnOnce() -> bool, now: Moment) -> bool {
        !self.nodes.is_empty() && self.quantum.is_open_question(now) && may_ask() && self.questions.is_due()
    }

    /// Notes the answer, at `now`, whether others wait for the grant of `owner`. The request `took` this long.
    pub(super) fn answered(&mut self, others_wait: bool, owner: Owner, took: Duration, now: Moment) {
        if !others_wait {
            self.questions.nobody_waited();
        }
        match self.held {
            Some(holder) if holder != owner => {}
            // The grant no longer has a holder.
            None => {}
            Some(_) if others_wait => self.quantum.others_waited(now),
            Some(_) => self.quantum.nobody_waited(took, now),
        }
    }

    #[cfg(test)]
    pub(super) fn is_contended(&self) -> bool {
        self.quantum.is_contended()
    }

    /// Takes back a hand-off that its waiter has not taken for `patience`.
    pub(super) fn reclaim(&mut self, patience: Duration, now: Moment, reclaimed: &mut Reclaimed) {
        if let Some(node) = not_taken(&mut self.handed, NodeState::has_handoff, patience, now, reclaimed) {
            let mut state = node.state();
            // `skipped` is set in the same step: a waiter that finds no hand-off and was not skipped would keep
            // waiting, outside of the queue.
            state.skipped = true;
            reclaimed.handoffs.extend(state.handoff.take());
        }
        if let Some(node) = not_taken(&mut self.asked, NodeState::has_question, patience, now, reclaimed)
            // Another waiter may be the head by now, and has been notified.
            && self.is_head(&node)
        {
            self.skip(now, &mut reclaimed.effects);
        }
    }
}

/// Returns the waiter in `given` if it was given that longer than `patience` ago, and still `has` it.
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
