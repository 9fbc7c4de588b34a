//! What happens to the groups of a fair lock: they are granted it, hand it on, lose it, and lose waiters.

use std::sync::Arc;
use std::time::Duration;

use super::groups::Groups;
use super::handoff::Handoff;
use super::key_queue::{Effects, Passed, Reclaimed, not_taken};
use super::last_answer::LastAnswer;
use super::places::Place;
use super::waiter_node::{ANSWER, NodeState, WaiterNode};
use crate::backend::Held;
use crate::clock::Moment;
use crate::owner::Owner;
use crate::pending::LeftEntry;

/// How many times as long as a hand-off a grant is kept. An answer takes less, and a future that nobody polls must not
/// keep others waiting.
const KEPT: u32 = 4;

impl Groups {
    /// Notes that the store granted the key to this waiter, for `owner`. `contended`: others wait there.
    pub(super) fn granted(
        &mut self,
        node: &Arc<WaiterNode>,
        owner: Owner,
        contended: bool,
        now: Moment,
        effects: &mut Effects,
    ) {
        LastAnswer::granted(now).replace(&mut self.last_answer);
        let number = self.group_of(node);
        let leads =
            |groups: &Self, number: &u64| groups.groups.get(number).is_some_and(|group| group.is_head(node));
        let led = number.filter(|number| leads(self, number));
        if let Some(group) = number.and_then(|number| self.groups.get_mut(&number)) {
            group.remove(node);
            self.waiting -= 1;
        }
        // Who was skipped has the grant for itself, and for those who stand directly behind it from now on.
        let number = led.unwrap_or_else(|| self.open(node.ttl(), Place::Held(owner)));
        self.set_place(number, Place::Held(owner));
        let overtaken = self.awaits();
        if let Some(group) = self.groups.get_mut(&number) {
            (group.contended, group.overtaken) = (contended, overtaken);
        }
        effects.unused.extend(node.state().entry.take());
        self.settle(None, now, effects);
    }

    /// Removes a waiter. Its entry in the store's queue goes to the next one of its group. Returns the entry where
    /// there is none.
    pub(super) fn leave(
        &mut self,
        node: &Arc<WaiterNode>,
        entry: Option<LeftEntry>,
        now: Moment,
        effects: &mut Effects,
    ) -> Option<LeftEntry> {
        let mut entry = entry.or_else(|| node.state().entry.take());
        node.state().gone = true;
        let Some(number) = self.group_of(node) else { return entry };
        let Some(group) = self.groups.get_mut(&number) else { return entry };
        let was_head = group.is_head(node);
        group.remove(node);
        self.waiting -= 1;
        if was_head {
            entry = self.succeed(number, entry, now, effects);
            self.settle(None, now, effects);
        }
        entry
    }

    /// Hands the grant of `owner` on to the next of its group, or keeps it while a group asks. Where it must go to the
    /// store, `succession` is the place that its group has there next, if any.
    pub(super) fn pass(
        &mut self,
        owner: Owner,
        handoff: impl FnOnce(Option<Duration>) -> Option<Handoff>,
        succession: impl FnOnce() -> Option<LeftEntry>,
        now: Moment,
        effects: &mut Effects,
    ) -> Passed {
        let Some(number) = self.places.of(owner) else { return Passed::No };
        // Before the hand-off, which a waiter that nobody polls would keep for 250 ms.
        self.skip_stalled(number, now, effects);
        // With a place of its own behind the grant, no request can be answered that it stands directly behind it.
        let asks = self.places.asking();
        let keeps = owner.is_grouped() && asks.is_some() && !self.places.is_any_queued();
        let Some(group) = self.groups.get_mut(&number).filter(|group| group.place == Place::Held(owner))
        else {
            return Passed::No;
        };
        // A request that was sent before the grant came may have been answered before those others came.
        let keeps = keeps && (!group.contended || group.overtaken == asks);
        let ttl = group.head().map(|head| head.ttl());
        let given = if ttl.is_some() || keeps { handoff(ttl) } else { None };
        let passed = match given {
            None => Passed::No,
            Some(handoff) if ttl.is_none() => {
                group.kept = Some((handoff, now));
                Passed::Kept
            }
            Some(handoff) => match group.give(handoff, now) {
                Ok(node) => {
                    self.waiting -= 1;
                    Passed::On(node)
                }
                Err(handoff) => {
                    effects.ended.push(handoff);
                    Passed::No
                }
            },
        };
        match (&passed, ttl) {
            (Passed::No, Some(_)) => match succession() {
                Some(entry) => self.is_succeeded(number, owner, entry, now, effects),
                None => self.ends(number, owner, now, effects),
            },
            (Passed::No, None) => self.ends(number, owner, now, effects),
            _ => drop(self.given.insert(number)),
        }
        passed
    }

    /// Notes that `owner` has released the key to the store, or lost it, or left the queue. The rest of its group asks
    /// for another place.
    pub(super) fn freed(&mut self, owner: Owner, now: Moment, effects: &mut Effects) {
        let Some(number) = self.places.of(owner) else { return };
        if let Some(group) = self.groups.get_mut(&number) {
            effects.ended.extend(group.kept.take().map(|(handoff, _)| handoff));
            self.follows(number, effects);
        }
        self.settle(None, now, effects);
    }

    /// Adds a waiter that was skipped, and is polled again. If its claim is still queued, that is the place of a group
    /// of its own.
    pub(super) fn rejoin(
        &mut self,
        node: &Arc<WaiterNode>,
        queued: Option<Owner>,
        now: Moment,
        effects: &mut Effects,
    ) {
        if !std::mem::take(&mut node.state().skipped) {
            return;
        }
        match queued.filter(|owner| self.places.of(*owner).is_none()) {
            Some(owner) => {
                let number = self.open(node.ttl(), Place::Queued(owner));
                self.append(number, node);
            }
            None => self.join(node, now, effects),
        }
    }

    /// Notes what the store has said to the group of a waiter. Returns what it replaces.
    pub(super) fn heard(&mut self, node: &Arc<WaiterNode>, held: Held) -> Option<Held> {
        let number = self.group_of(node)?;
        self.groups.get_mut(&number)?.heard.replace(held)
    }

    /// Returns what the store has said last to the group of a waiter, with the position of this waiter.
    pub(super) fn last_heard(&self, node: &Arc<WaiterNode>) -> Option<Held> {
        let group = self.groups.get(&self.group_of(node)?)?;
        let held = group.heard.clone()?;
        let position = held.position.zip(group.before(node)).map(|(place, before)| place + before);
        Some(Held { position, ..held })
    }

    /// Ends the wait for releases that take longer than an answer. A release whose future nobody polls may have been
    /// executed, and would keep all who wait here.
    fn outwait_releases(&mut self, now: Moment, effects: &mut Effects) {
        let groups = &self.groups;
        let is_late = |number: &u64| {
            let ended = groups.get(number).and_then(|group| group.ended);
            ended.is_some_and(|ended| now.since(ended) >= ANSWER)
        };
        let late: Vec<_> = self.places.ended().filter(is_late).collect();
        for number in late {
            self.follows(number, effects);
        }
        self.settle(None, now, effects);
    }

    /// Skips the heads that should have looked long ago, where `node` waits for them: of its own group, and of the one
    /// that asks. It waits no longer for releases that are late.
    pub(super) fn skip_stalled_before(&mut self, node: &Arc<WaiterNode>, now: Moment, effects: &mut Effects) {
        self.outwait_releases(now, effects);
        for number in [self.group_of(node), self.places.asking()].into_iter().flatten() {
            self.skip_stalled(number, now, effects);
        }
    }

    fn skip_stalled(&mut self, number: u64, now: Moment, effects: &mut Effects) {
        while self.groups.get(&number).is_some_and(|group| group.is_stalled(now)) {
            self.skip(number, now, effects);
        }
    }

    /// Skips the head of a group, which is not polled: it is in no group until it is. It keeps its entry in the store's
    /// queue, which nobody else can keep alive, so the rest of the group asks for another place.
    fn skip(&mut self, number: u64, now: Moment, effects: &mut Effects) {
        let Some(head) = self.groups.get_mut(&number).and_then(|group| group.take_head()) else { return };
        self.waiting -= 1;
        let entry = {
            let mut state = head.state();
            (state.skipped, state.must_ask) = (true, false);
            // One that it was left, and has not taken over.
            state.entry.take()
        };
        let unused = self.succeed(number, entry, now, effects);
        effects.unused.extend(unused);
        // If it is polled after all, it is so soon.
        effects.notify.push(head);
        self.settle(None, now, effects);
    }

    /// Takes back what was given to a waiter and not taken for `patience`, and what was kept for longer.
    pub(super) fn reclaim(&mut self, patience: Duration, now: Moment, reclaimed: &mut Reclaimed) {
        for number in std::mem::take(&mut self.given) {
            let Some(group) = self.groups.get_mut(&number) else { continue };
            let not_taken = not_taken(&mut group.handed, NodeState::has_handoff, patience, now, reclaimed);
            if let Some(node) = not_taken {
                let mut state = node.state();
                // In one step with the hand-off: a waiter that finds none must find that it was skipped.
                state.skipped = true;
                reclaimed.handoffs.extend(state.handoff.take());
            }
            if let Some((handoff, since)) = group.kept.take() {
                if now.since(since) < KEPT * patience && !handoff.is_over(now) {
                    reclaimed.more = true;
                    group.kept = Some((handoff, since));
                } else {
                    reclaimed.effects.ended.push(handoff);
                    self.forget(number);
                    continue;
                }
            }
            if group.has_given() {
                self.given.insert(number);
            } else if self.waits_for_release(number, patience, now, &mut reclaimed.effects) {
                reclaimed.more = true;
                self.given.insert(number);
            }
        }
        if let Some(node) = not_taken(&mut self.asked, NodeState::has_question, patience, now, reclaimed)
            && let Some(number) = self.places.asking().filter(|number| self.group_of(&node) == Some(*number))
        {
            self.skip(number, now, &mut reclaimed.effects);
        }
    }
}
