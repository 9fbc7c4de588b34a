//! The end of the grant of a group that waits: it goes back to the store, and the group has the place that its release names, or none.

use super::groups::Groups;
use super::key_queue::Effects;
use super::places::Place;
use crate::clock::Moment;
use crate::owner::Owner;
use crate::pending::LeftEntry;

impl Groups {
    /// The grant of a group is released to the store, whoever waits in it.
    pub(super) fn ends(&mut self, number: u64, owner: Owner, now: Moment) {
        self.set_place(number, Place::Ended(owner));
        self.ends_since(number, now);
        // Who has given way to the last of this group waits for the answer, although nobody is left in the group.
        if !self.has_given_way(number) {
            self.tidy(number);
        }
    }

    /// Returns whether somebody who was to ask has let those of this group, which others wait for, run first.
    fn has_given_way(&self, number: u64) -> bool {
        let contended = self.groups.get(&number).is_some_and(|group| group.contended);
        contended && self.places.asking().is_some() && self.awaits().is_none()
    }

    /// Notes when the release of the grant of a group began.
    pub(super) fn ends_since(&mut self, number: u64, now: Moment) {
        if let Some(group) = self.groups.get_mut(&number) {
            group.ended = Some(now);
        }
    }

    /// The grant of a group is released to the store, which gives those who wait in the group the place of `entry`.
    pub(super) fn is_succeeded(
        &mut self,
        number: u64,
        ended: Owner,
        entry: LeftEntry,
        now: Moment,
        effects: &mut Effects,
    ) {
        self.set_place(number, Place::Succeeds { ended, next: entry.claim.owner });
        self.ends_since(number, now);
        let left = match self.groups.get(&number) {
            Some(group) => group.leave_entry(entry, effects),
            None => Some(entry),
        };
        effects.unused.extend(left);
    }

    /// The release of the grant of a group is answered, or is late.
    pub(super) fn follows(&mut self, number: u64, effects: &mut Effects) {
        let Some(group) = self.groups.get(&number) else { return };
        if let Place::Succeeds { next, .. } = group.place {
            // From now on its head sends heartbeats.
            effects.notify.extend(group.head().cloned());
            self.set_place(number, Place::Queued(next));
        } else {
            self.set_place(number, Place::None);
        }
        self.tidy(number);
    }
}
