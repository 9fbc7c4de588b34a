//! The end of the grant of a group: it goes back to the store. Those who wait in the group have the place that its release
//! names, or none.

use std::time::Duration;

use super::groups::Groups;
use super::key_queue::Effects;
use super::places::Place;
use crate::clock::Moment;
use crate::owner::Owner;
use crate::pending::LeftEntry;

impl Groups {
    /// The grant of a group is released to the store, whoever waits in it.
    pub(super) fn ends(&mut self, number: u64, owner: Owner, now: Moment, effects: &mut Effects) {
        self.set_place(number, Place::Ended(owner));
        self.ends_since(number, now);
        if self.gave_way && self.groups.get(&number).is_some_and(|group| group.contended) {
            // Who has given way waits for the answer, also where nobody is left in the group, but not for long.
            self.given.insert(number);
            effects.reclaims = true;
        } else {
            self.tidy(number);
        }
    }

    /// Waits no longer for the release of the grant of a group that nobody is left in, if it began `patience` ago: its
    /// future is not polled, or the store does not answer. Returns whether it still waits.
    pub(super) fn waits_for_release(
        &mut self,
        number: u64,
        patience: Duration,
        now: Moment,
        effects: &mut Effects,
    ) -> bool {
        let Some(group) = self.groups.get(&number).filter(|group| group.is_empty()) else { return false };
        let Some(ended) = group.ended else { return false };
        if now.since(ended) < patience {
            return true;
        }
        self.forget(number);
        self.settle(None, now, effects);
        false
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
