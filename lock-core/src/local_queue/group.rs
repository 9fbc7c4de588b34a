//! One group of waiters of a fair lock: they share a place in the store's queue.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::handoff::Handoff;
use super::key_queue::{Effects, Given};
use super::places::Place;
use super::waiter_node::WaiterNode;
use crate::backend::Held;
use crate::clock::Moment;
use crate::pending::LeftEntry;

/// Waiters that share a place.
#[derive(Debug)]
pub(super) struct Group {
    /// In order of arrival; the first is the head, which asks for all of them.
    members: VecDeque<Arc<WaiterNode>>,
    /// What all of its waiters ask for: the grant of one is none of another lease.
    pub(super) ttl: Duration,
    /// Changed by [`Groups`](super::groups::Groups) alone, which has an index of it.
    pub(super) place: Place,
    /// Others waited in the store when it was granted.
    pub(super) contended: bool,
    /// The group whose request was under way when it was granted. The store may have answered that before those others
    /// came.
    pub(super) overtaken: Option<u64>,
    /// Since when its grant is being released.
    pub(super) ended: Option<Moment>,
    /// What the store has said last to a waiter that asked for it.
    pub(super) heard: Option<Held>,
    /// The waiter that was handed its grant last.
    pub(super) handed: Given,
    /// A grant that nobody uses, and since when.
    pub(super) kept: Option<(Handoff, Moment)>,
}

impl Group {
    pub(super) fn new(ttl: Duration, place: Place) -> Self {
        Self {
            members: VecDeque::new(),
            ttl,
            place,
            contended: false,
            overtaken: None,
            ended: None,
            heard: None,
            handed: None,
            kept: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn head(&self) -> Option<&Arc<WaiterNode>> {
        self.members.front()
    }

    pub(super) fn is_head(&self, node: &Arc<WaiterNode>) -> bool {
        self.head().is_some_and(|head| Arc::ptr_eq(head, node))
    }

    /// Returns how many of it stand before this waiter.
    pub(super) fn before(&self, node: &Arc<WaiterNode>) -> Option<usize> {
        self.members.iter().position(|other| Arc::ptr_eq(other, node))
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &Arc<WaiterNode>> {
        self.members.iter()
    }

    /// Returns whether its head awaits an answer of the store.
    pub(super) fn is_asking(&self) -> bool {
        self.head().is_some_and(|head| head.state().asking)
    }

    /// Returns whether its head should have looked long ago.
    pub(super) fn is_stalled(&self, now: Moment) -> bool {
        self.head().is_some_and(|head| head.state().is_stalled(now))
    }

    /// Adds a waiter at the end.
    pub(super) fn append(&mut self, number: u64, node: Arc<WaiterNode>) {
        node.state().group = Some(number);
        self.members.push_back(node);
    }

    /// Adds the members of another group at the end. `number` is that of this one.
    pub(super) fn append_all(&mut self, number: u64, mut other: Self) {
        other.members.drain(..).for_each(|node| self.append(number, node));
    }

    pub(super) fn remove(&mut self, node: &Arc<WaiterNode>) {
        if self.is_head(node) {
            self.members.pop_front();
        } else {
            self.members.retain(|other| !Arc::ptr_eq(other, node));
        }
        node.state().group = None;
    }

    pub(super) fn take_head(&mut self) -> Option<Arc<WaiterNode>> {
        let head = self.members.pop_front()?;
        head.state().group = None;
        Some(head)
    }

    /// Gives its grant to the head, which is out of the group then. Returns the grant where nobody waits.
    pub(super) fn give(&mut self, handoff: Handoff, now: Moment) -> Result<Arc<WaiterNode>, Handoff> {
        let Some(head) = self.take_head() else { return Err(handoff) };
        head.state().handoff = Some(handoff);
        self.handed = Some((Arc::downgrade(&head), now));
        Ok(head)
    }

    /// Leaves the entry in the store's queue to the head. Returns it where nobody waits.
    pub(super) fn leave_entry(&self, entry: LeftEntry, effects: &mut Effects) -> Option<LeftEntry> {
        let Some(head) = self.head() else { return Some(entry) };
        // Of an entry that is replaced nobody knows, so it is released; outside of the lock of the groups.
        effects.unused.extend(head.state().entry.replace(entry));
        effects.notify.push(Arc::clone(head));
        None
    }

    /// Tells the head to ask. Returns it.
    pub(super) fn tell(&self, now: Moment, effects: &mut Effects) -> Given {
        let head = self.head()?;
        head.state().must_ask = true;
        effects.notify.push(Arc::clone(head));
        Some((Arc::downgrade(head), now))
    }

    /// Returns whether it has handed its grant to a waiter that has not taken it. One that has taken it has dropped its
    /// node.
    pub(super) fn is_handing_off(&self) -> bool {
        self.handed.as_ref().is_some_and(|(node, _): &(Weak<_>, _)| node.strong_count() > 0)
    }

    /// Returns whether something was given to a waiter, or kept, that may not be taken.
    pub(super) fn has_given(&self) -> bool {
        self.is_handing_off() || self.kept.is_some()
    }
}
