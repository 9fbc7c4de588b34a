//! The waiters of one fair lock in this process, in groups that share a place in the store's queue.
//!
//! A group consists of the waiters for whom one request asks the store. It is closed when that request is sent: whoever
//! comes later may stand behind a waiter of another process, and is in the next group. The store grants the group as
//! one claim, and its waiters hand the grant on in order of arrival. Where the store answers that a group stands
//! directly [behind](crate::backend::Held::behind) another one of this process, the two become one.
//!
//! One group asks at a time, the earliest of those without a [place](Place). So nobody overtakes those who came before,
//! also where these have lost their place and ask again. A place belongs to the head, which keeps it alive: it is lost
//! to the group with a head that nobody polls, and left to the next one by a head that gives up.
//!
//! Where others wait in other processes, a head that is to ask gives way to a hand-off: the tasks that have the grant next
//! run first. If they release it meanwhile, the head asks behind the answer to that release, for all who have come again
//! by then. So a process keeps one place, and the places of several processes do not drift apart.
//!
//! While a group asks, a grant whose own group has nobody left is *kept*: those of the request may stand directly
//! behind it. It is not kept where others are known to stand there: another group of this process has a place of its
//! own, or others waited when the store granted it, and the request was sent after that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::group::Group;
use super::key_queue::{Effects, Given};
use super::last_answer::LastAnswer;
use super::places::{Place, Placed, Places};
use super::waiter_node::WaiterNode;
use crate::clock::Moment;
use crate::pending::LeftEntry;

/// The groups of one key.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// By number, in order of arrival.
    pub(super) groups: BTreeMap<u64, Group>,
    next: u64,
    pub(super) places: Places,
    /// The request of the group that asks was sent. From then on nobody joins it.
    sent: bool,
    /// The head of the group that asks has given way, and has not sent its request.
    pub(super) gave_way: bool,
    /// The head that was last told to ask.
    pub(super) asked: Given,
    /// The groups that have given something to a waiter, keep a grant, or are empty and waited for.
    pub(super) given: BTreeSet<u64>,
    /// How many wait.
    pub(super) waiting: usize,
    pub(super) last_answer: Option<LastAnswer>,
}

impl Groups {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = Arc<WaiterNode>> {
        self.groups.values().flat_map(Group::members).cloned()
    }

    /// Returns whether this waiter asks the store for its group.
    pub(super) fn is_head(&self, node: &Arc<WaiterNode>) -> bool {
        let group = self.group_of(node).and_then(|number| self.groups.get(&number));
        group.is_some_and(|group| {
            matches!(group.place, Place::Asking | Place::Queued(_)) && group.is_head(node)
        })
    }

    /// Returns the number of its group. One that was skipped, or handed the grant, has none.
    pub(super) fn group_of(&self, node: &Arc<WaiterNode>) -> Option<u64> {
        node.state().group
    }

    /// Returns the number of the group that this waiter leads, and its place.
    fn led_by(&self, node: &Arc<WaiterNode>) -> Option<(u64, Place)> {
        let number = self.group_of(node)?;
        let group = self.groups.get(&number).filter(|group| group.is_head(node))?;
        Some((number, group.place))
    }

    pub(super) fn set_place(&mut self, number: u64, place: Place) {
        let Some(group) = self.groups.get_mut(&number) else { return };
        let before = std::mem::replace(&mut group.place, place);
        group.ended = None;
        self.places.remove(number, before);
        self.places.add(number, place);
    }

    /// Makes a group without members.
    pub(super) fn open(&mut self, ttl: Duration, place: Place) -> u64 {
        let number = self.next;
        self.next += 1;
        self.groups.insert(number, Group::new(ttl, place));
        self.places.add(number, place);
        number
    }

    /// Forgets a group that has nobody, unless its grant is in use.
    pub(super) fn tidy(&mut self, number: u64) {
        if self
            .groups
            .get(&number)
            .is_some_and(|group| group.is_empty() && !matches!(group.place, Place::Held(_)))
        {
            self.forget(number);
        }
    }

    pub(super) fn forget(&mut self, number: u64) -> Option<Group> {
        let group = self.groups.remove(&number)?;
        self.places.remove(number, group.place);
        self.given.remove(&number);
        Some(group)
    }

    /// Adds a waiter at the end. It is to ask the store where it is alone in the first group without a place.
    pub(super) fn join(&mut self, node: &Arc<WaiterNode>, now: Moment, effects: &mut Effects) {
        let is_open = |group: &Group| match group.place {
            // A head whose queue entry is gone asks for another one, whoever else asks.
            Place::None => !group.is_asking(),
            Place::Asking => !self.sent,
            Place::Queued(_) | Place::Held(_) | Place::Ended(_) | Place::Succeeds { .. } => false,
        };
        let last = self.groups.last_key_value();
        let last =
            last.filter(|(_, group)| group.ttl == node.ttl() && is_open(group)).map(|(number, _)| *number);
        let number = last.unwrap_or_else(|| self.open(node.ttl(), Place::None));
        self.append(number, node);
        // It looks right now, so it need not be told.
        self.settle(self.led_by(node).map(|(number, _)| number), now, effects);
        if let Some((_, Place::Asking)) = self.led_by(node) {
            node.state().must_ask = true;
        }
    }

    pub(super) fn append(&mut self, number: u64, node: &Arc<WaiterNode>) {
        if let Some(group) = self.groups.get_mut(&number) {
            group.append(number, Arc::clone(node));
            self.waiting += 1;
        }
    }

    /// Has the head of a group that is to ask give way to a hand-off, if others wait for that grant elsewhere. Returns
    /// whether it does.
    pub(super) fn gives_way(&mut self, node: &Arc<WaiterNode>) -> bool {
        if !matches!(self.led_by(node), Some((_, Place::Asking))) {
            return false;
        }
        let mut given = self.given.iter().filter_map(|number| self.groups.get(number));
        self.gave_way = given.any(|group| group.contended && group.is_handing_off());
        self.gave_way
    }

    /// Returns whether a head that has given way asks now. Otherwise it steps back: while a grant is being released, to
    /// ask behind the answer, because those who held it may come again by then; and behind a group that came before it.
    pub(super) fn asks_or_steps_back(
        &mut self,
        node: &Arc<WaiterNode>,
        now: Moment,
        effects: &mut Effects,
    ) -> bool {
        let Some((number, Place::Asking)) = self.led_by(node) else { return false };
        self.gave_way = false;
        // It may have been told while it looked.
        node.state().must_ask = false;
        self.set_place(number, Place::None);
        if self.places.next() == Some(number) {
            self.set_place(number, Place::Asking);
            return true;
        }
        self.settle(None, now, effects);
        false
    }

    /// Notes that a waiter sends a request. From now on nobody joins its group.
    pub(super) fn close(&mut self, node: &Arc<WaiterNode>) {
        node.state().must_ask = false;
        if let Some((_, Place::Asking)) = self.led_by(node) {
            (self.sent, self.gave_way) = (true, false);
        }
    }

    /// Notes the answer. Returns `false` where the group must ask again, for a place that it shares with no other: the
    /// one directly before it has ended meanwhile.
    pub(super) fn answered(
        &mut self,
        node: &Arc<WaiterNode>,
        answer: Placed,
        now: Moment,
        effects: &mut Effects,
    ) -> bool {
        // In one step with the answer: a group without a place is closed while its head asks.
        node.state().asking = false;
        // A waiter that was skipped meanwhile speaks for nobody. It joins again when it looks.
        let Some((number, place)) = self.led_by(node) else { return true };
        if matches!(place, Place::Held(_) | Place::Ended(_) | Place::Succeeds { .. }) {
            return true;
        }
        match answer {
            Placed::Queued(owner) if place == Place::Queued(owner) => return true,
            Placed::Queued(owner) => self.set_place(number, Place::Queued(owner)),
            Placed::Nowhere => {
                self.set_place(number, Place::None);
                // It asks again by itself, after a pause, and nobody who came later asks before that.
                self.settle(Some(number), now, effects);
                return true;
            }
            Placed::Behind(owner) => {
                let shares = |group: &Group| {
                    group.place != Place::Ended(owner)
                        && self.groups.get(&number).is_some_and(|own| own.ttl == group.ttl)
                };
                let to = self.places.of(owner).filter(|to| *to != number);
                let to = to.filter(|to| self.groups.get(to).is_some_and(shares));
                let Some(to) = to.filter(|_| place == Place::Asking) else {
                    // What is kept was for this answer. The next one cannot be that it stands behind it.
                    self.end_kept(effects);
                    return false;
                };
                self.merge(number, to, now, effects);
            }
        }
        self.settle(None, now, effects);
        true
    }

    /// Adds the waiters of the group `from` to the group `to`.
    fn merge(&mut self, from: u64, to: u64, now: Moment, effects: &mut Effects) {
        let Some(joins) = self.forget(from) else { return };
        let Some(group) = self.groups.get_mut(&to) else { return };
        group.append_all(to, joins);
        let Some((handoff, _)) = group.kept.take() else { return };
        if let Place::Held(owner) = group.place
            && handoff.is_over(now)
        {
            effects.ended.push(handoff);
            // Those who joined it ask for another place when it is released, in their order.
            return self.ends(to, owner, now, effects);
        }
        match group.give(handoff, now) {
            Ok(node) => {
                self.waiting -= 1;
                effects.notify.push(node);
                self.given.insert(to);
            }
            Err(handoff) => effects.ended.push(handoff),
        }
    }

    /// Releases the grants that are kept.
    pub(super) fn end_kept(&mut self, effects: &mut Effects) {
        let groups = &mut self.groups;
        let ended = |number: &u64| groups.get_mut(number)?.kept.take().map(|(handoff, _)| (*number, handoff));
        let ended: Vec<_> = self.given.iter().filter_map(ended).collect();
        for (number, handoff) in ended {
            effects.ended.push(handoff);
            self.forget(number);
        }
    }

    /// Lets the next group ask, if none does, and ends what is kept for no request any more. The head of the group
    /// `quiet` need not be told.
    pub(super) fn settle(&mut self, quiet: Option<u64>, now: Moment, effects: &mut Effects) {
        if self.places.asking().is_none() {
            self.end_kept(effects);
        }
        let Some(number) = self.places.next() else { return };
        self.set_place(number, Place::Asking);
        (self.sent, self.gave_way, self.asked) = (false, false, None);
        self.tell(number, quiet, now, effects);
    }

    /// Tells the head of the group that asks to send its request, unless one is under way, or the group is `quiet`.
    fn tell(&mut self, number: u64, quiet: Option<u64>, now: Moment, effects: &mut Effects) {
        let Some(group) = self.groups.get(&number) else { return };
        // The entry of this head is gone, and its release was answered before its request for another one.
        (self.sent, self.gave_way) = (group.is_asking(), false);
        if !self.sent && quiet != Some(number) {
            self.asked = group.tell(now, effects);
        }
    }

    /// Returns the group that asks, if its request was sent.
    pub(super) fn awaits(&self) -> Option<u64> {
        self.places.asking().filter(|_| self.sent)
    }

    /// The head of a group is gone, which had `entry` in the store's queue. Returns the entry where nobody takes it.
    pub(super) fn succeed(
        &mut self,
        number: u64,
        entry: Option<LeftEntry>,
        now: Moment,
        effects: &mut Effects,
    ) -> Option<LeftEntry> {
        let Some(group) = self.groups.get(&number) else { return entry };
        let mut left = entry;
        match (group.place, left.take()) {
            // The place goes with the entry, and without it there is none any more.
            (Place::Queued(owner), Some(entry)) if entry.claim.owner == owner => {
                left = group.leave_entry(entry, effects);
            }
            (Place::Queued(_), entry) => {
                left = entry;
                self.set_place(number, Place::None);
            }
            (Place::Asking, entry) => {
                left = entry;
                self.tell(number, None, now, effects);
            }
            (Place::Succeeds { next, .. }, Some(entry)) if entry.claim.owner == next => {
                left = group.leave_entry(entry, effects);
            }
            (Place::Succeeds { ended, .. }, entry) => {
                left = entry;
                self.set_place(number, Place::Ended(ended));
                self.ends_since(number, now);
            }
            (Place::None | Place::Held(_) | Place::Ended(_), entry) => left = entry,
        }
        self.tidy(number);
        left
    }
}
