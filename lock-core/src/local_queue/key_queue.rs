//! The queue of one key: who waits for it in this process, and who gets its grant next.

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

/// What a change leaves to be done outside of the lock of the queue: both may run code of the application.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Who is notified: the head, and those who were skipped, in case they are polled after all.
    pub(super) notify: Vec<Arc<WaiterNode>>,
    /// Queue entries that nobody has any more.
    pub(super) unused: Vec<LeftEntry>,
}

impl Effects {
    pub(super) fn is_empty(&self) -> bool {
        self.notify.is_empty() && self.unused.is_empty()
    }
}

/// What was taken back from waiters that do not look.
#[derive(Debug, Default)]
pub(super) struct Reclaimed {
    /// Another waiter still has time to look.
    pub(super) more: bool,
    /// Hand-offs that nobody takes.
    pub(super) handoffs: Vec<Handoff>,
    pub(super) effects: Effects,
    /// The nodes that were looked at. What is dropped with a node must not be dropped under the lock of the queue.
    nodes: Vec<Arc<WaiterNode>>,
}

/// What became of a grant whose holder releases it.
#[derive(Debug)]
pub(super) enum Passed {
    /// The next waiter has it.
    On(Arc<WaiterNode>),
    /// It lingers. The time for which the key must be listed, if it is not listed for an earlier one.
    Lingers(Option<i64>),
    /// It belongs to the store.
    No,
}

/// Who was given something, and when. Weak, for the same reason.
pub(super) type Given = Option<(Weak<WaiterNode>, Moment)>;

/// The waiters of one key.
///
/// The queue exists while somebody waits, while a holder that came through it holds, and while a grant lingers. So
/// newcomers join it without asking a store that would refuse. It also exists while the store is asked for a grant that
/// may linger.
#[derive(Debug, Default)]
pub(super) struct KeyQueue {
    /// In order of arrival; the first is the head.
    nodes: VecDeque<Arc<WaiterNode>>,
    /// The owner of the grant that came through this queue and is in use.
    held: Option<Owner>,
    /// A grant that was released, and that nobody else has taken yet.
    lingering: Option<Lingering>,
    /// When the renewers look at the key, which may have a grant that lingers.
    listed: Option<i64>,
    /// How many ask the store for a grant that may linger.
    expected: usize,
    quantum: Quantum,
    questions: Questions,
    /// The waiter that was handed the grant last.
    handed: Given,
    /// The head that was last given the question to the store.
    asked: Given,
    pub(super) last_answer: Option<LastAnswer>,
}

impl KeyQueue {
    pub(super) fn is_idle(&self) -> bool {
        !self.is_busy() && self.expected == 0
    }

    /// Returns whether somebody waits or holds, or a grant lingers.
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

    /// Notes that a grant which lingered is in use.
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

    /// Adds a waiter at the end. The first one asks the store, unless the key is held through the queue: then it is
    /// notified when that changes. Returns whether it got the grant that lingered, and so is not in the queue.
    pub(super) fn join(&mut self, ttl: Duration, now: Moment) -> (Arc<WaiterNode>, bool) {
        let node = Arc::new(WaiterNode::new(ttl, now));
        let lingered = self.push(&node, now);
        (node, lingered)
    }

    /// Adds a waiter that was skipped at the end. Returns whether it got the grant that lingered.
    pub(super) fn rejoin(&mut self, node: &Arc<WaiterNode>, now: Moment) -> bool {
        let skipped = std::mem::take(&mut node.state().skipped);
        skipped && self.push(node, now)
    }

    fn push(&mut self, node: &Arc<WaiterNode>, now: Moment) -> bool {
        // It was released after this waiter found the key held. Nobody else waits, or it would not linger.
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

    /// Removes a waiter. What it had goes to the next one.
    pub(super) fn leave(&mut self, node: &Arc<WaiterNode>, entry: Option<LeftEntry>, now: Moment) -> Effects {
        // All under the lock of the queue: a hand-off is given to the first of `nodes`, so from here on to another.
        let was_head = self.is_head(node);
        let entry = entry.or_else(|| node.state().entry.take());
        self.nodes.retain(|other| !Arc::ptr_eq(other, node));
        node.state().gone = true;
        let mut effects = Effects::default();
        if was_head {
            // The one who leaves may have taken its notification with it.
            self.succeed(entry, now, &mut effects);
        } else {
            // It was skipped just now: another is the head, and asks with a claim of its own.
            effects.unused.extend(entry);
        }
        effects
    }

    /// Gives the new head what the one before it had: the question, and the entry in the store's queue.
    fn succeed(&mut self, entry: Option<LeftEntry>, now: Moment, effects: &mut Effects) {
        let Some(head) = self.nodes.front() else { return effects.unused.extend(entry) };
        let mut state = head.state();
        // The entry that is replaced is released, which may run code of the application. So that waits until the lock
        // of the queue is given back.
        if entry.is_some() {
            effects.unused.extend(std::mem::replace(&mut state.entry, entry));
        }
        if self.held.is_none() {
            state.must_ask = true;
            self.asked = Some((Arc::downgrade(head), now));
        }
        effects.notify.push(Arc::clone(head));
    }

    /// Skips the head, which is not polled: it is out of the queue until it is. A stalled waiter that kept its turn
    /// would slow a hot key down to the time after which a hand-off is reclaimed.
    fn skip(&mut self, now: Moment, effects: &mut Effects) {
        let Some(head) = self.nodes.pop_front() else { return };
        let entry = {
            let mut state = head.state();
            // The question goes to the next head. When this waiter is polled again it must not ask out of turn.
            (state.skipped, state.must_ask) = (true, false);
            state.entry.take()
        };
        self.succeed(entry, now, effects);
        // If it is polled after all, it is so soon.
        effects.notify.push(head);
    }

    /// Skips the heads that should have looked long ago.
    pub(super) fn skip_stalled(&mut self, now: Moment, effects: &mut Effects) {
        while self.nodes.front().is_some_and(|head| head.state().is_stalled(now)) {
            self.skip(now, effects);
        }
    }

    /// Notes that the head has a grant from the store, for `owner`. `contended`: others may wait there.
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

    /// Notes that the store granted the key to `owner`, in the queue or outside. `contended`: others may wait there.
    pub(super) fn granted_here(&mut self, owner: Owner, contended: bool, now: Moment) {
        self.held = Some(owner);
        LastAnswer::granted(now).replace(&mut self.last_answer);
        // The notification that others wait may be older than this answer, so it counts for the new grant too.
        let contended = contended || self.quantum.is_contended();
        self.quantum = Quantum::default();
        self.handed = None;
        if contended {
            self.quantum.contend(now);
        }
    }

    /// Returns whether the grant of `owner` may be the one that waiters of this queue count on. An earlier one, which was
    /// lost, is released by a guard that is dropped late.
    pub(super) fn may_be_of(&self, owner: Owner) -> bool {
        self.held.is_none_or(|holder| holder == owner)
    }

    /// Hands the grant of `owner` off to the next waiter, if there is one and the quantum is not over. If there is none,
    /// the grant may stay for `linger`. Where the caller `asks` for others who wait, the quantum goes on until the
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
            // Only where the queue has noted all that was told of others since the grant. An earlier grant whose time
            // is over may still be here, and must not be dropped under the lock.
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
            // Here and not in `freed`: a notification that comes from now on is that of the next grant, and the answer
            // to this release may be looked at later.
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
        // Where nothing is handed off, the head need not ask yet: the release that follows calls `freed`, once the
        // store has answered it or it is given up.
        if self.quantum.is_over(now) && !asks {
            return None;
        }
        // Made while the waiter is still in the queue: where there is none, that waiter must be there to ask the store.
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
    /// unless another owner holds the key through this queue: then its release tells the head.
    pub(super) fn freed(&mut self, owner: Owner, now: Moment) -> Option<Arc<WaiterNode>> {
        if let Some(holder) = self.held {
            if holder != owner {
                return None;
            }
            // It was lost, dropped on its way to a holder, or lingered and was given back. What is known of waiters
            // elsewhere stays: it may be told of the next grant, whose notification can come before this answer.
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

    /// Returns whether the store is to be asked for others who wait, because the quantum is over and somebody waits here.
    /// `may_ask` is whether anybody can ask.
    pub(super) fn asks_for_others(&mut self, may_ask: impl FnOnce() -> bool, now: Moment) -> bool {
        !self.nodes.is_empty() && self.quantum.is_open_question(now) && may_ask() && self.questions.is_due()
    }

    /// Notes the answer, at `now`, whether others wait for the grant of `owner`. The question took so long.
    pub(super) fn answered(&mut self, others_wait: bool, owner: Owner, took: Duration, now: Moment) {
        if !others_wait {
            self.questions.nobody_waited();
        }
        match self.held {
            Some(holder) if holder != owner => {}
            // Nobody has it any more.
            None => {}
            Some(_) if others_wait => self.quantum.others_waited(now),
            Some(_) => self.quantum.nobody_waited(took, now),
        }
    }

    #[cfg(test)]
    pub(super) fn is_contended(&self) -> bool {
        self.quantum.is_contended()
    }

    /// Takes back what was given to a waiter and not taken for `patience`.
    pub(super) fn reclaim(&mut self, patience: Duration, now: Moment, reclaimed: &mut Reclaimed) {
        if let Some(node) = not_taken(&mut self.handed, NodeState::has_handoff, patience, now, reclaimed) {
            let mut state = node.state();
            // In one step with the hand-off: a waiter that finds none must find that it was skipped, or it would go on
            // waiting outside of the queue.
            state.skipped = true;
            reclaimed.handoffs.extend(state.handoff.take());
        }
        if let Some(node) = not_taken(&mut self.asked, NodeState::has_question, patience, now, reclaimed)
            // Another waiter may be the head by now, and has been asked itself.
            && self.is_head(&node)
        {
            self.skip(now, &mut reclaimed.effects);
        }
    }
}

/// Returns the waiter that was `given` something for `patience` and still `has` it.
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
