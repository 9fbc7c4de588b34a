//! The queue of one key as etcd stores it: the entries in the order of the revisions at which they were created.
//! Entries that one transaction has created are ordered by the numbers in their names.

use std::time::Duration;

use super::keyspace;
use super::proto::{Compare, Event, KeyValue, RangeResponse};
use crate::backend::conflict::{self, Use};
use crate::backend::remote::queue_copy::{self, Seen};
use crate::backend::remote::wait_queue::{self, WaitQueue};
use crate::backend::{Claim, GrantId, Held, Mode};
use crate::clock::Moment;
use crate::owner::{Owner, OwnerRecord};

/// The end of the value of an entry that was released, but keeps the key locked for the rest of its `min_hold`.
const KEPT: &str = " kept=1";

/// The lease id of an entry that has no lease. Only other programs write such entries.
pub(super) const NO_LEASE: i64 = 0;

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) stored: Vec<u8>,
    /// The revision at which the entry was created.
    pub(super) created: i64,
    /// The revision at which the entry was last written.
    pub(super) modified: i64,
    /// The lease that the entry is bound to, or [`NO_LEASE`].
    pub(super) lease: i64,
    pub(super) mode: Mode,
    /// `None` for an entry of another program.
    pub(super) owner: Option<Owner>,
    pub(super) record: Option<OwnerRecord>,
    /// When the entry was granted, by the wall clock of its holder; `None` if its value does not contain this time.
    pub(super) granted: Option<Duration>,
    /// Whether the owner has released the entry.
    pub(super) kept: bool,
}

/// The queue of a key at one revision of the store.
pub(super) type Line = Seen<Entry>;

/// Returns the value of an entry of `claim`. If `granted` is given, the value contains this time of the grant.
pub(super) fn value(claim: &Claim, mode: Mode, granted: Option<Duration>, kept: bool) -> Vec<u8> {
    let mut value = claim.record.to_value(&claim.owner.token());
    if mode != Mode::Exclusive {
        value.push_str(" mode=");
        value.push_str(&mode.code());
    }
    if let Some(granted) = granted {
        OwnerRecord::add_granted(&mut value, granted);
    }
    value.push_str(if kept { KEPT } else { "" });
    value.into_bytes()
}

impl Entry {
    pub(super) fn new(kv: KeyValue) -> Self {
        let text = std::str::from_utf8(&kv.value).unwrap_or_default();
        let record = OwnerRecord::from_value(text);
        let owner = text.get(..Owner::TOKEN_LEN).and_then(Owner::from_token).filter(|_| record.is_some());
        let mode = text.rsplit(' ').find_map(|part| part.strip_prefix("mode=")).and_then(Mode::from_code);
        Self {
            created: kv.create_revision,
            modified: kv.mod_revision,
            lease: kv.lease,
            mode: mode.filter(|_| owner.is_some()).unwrap_or(Mode::Exclusive),
            owner,
            kept: owner.is_some() && text.ends_with(KEPT),
            granted: owner.and_then(|_| OwnerRecord::granted(text)),
            record,
            stored: kv.key,
        }
    }

    /// Returns the condition that the entry was not written or deleted since it was read.
    pub(super) fn unchanged(&self) -> Compare {
        Compare::modified_at(self.stored.clone(), self.modified)
    }

    /// Returns the sort key of the entry in its queue.
    fn order(&self) -> (i64, (usize, &[u8])) {
        (self.created, keyspace::order(&self.stored))
    }

    /// Returns the id of the grant of this entry.
    pub(super) fn id(&self) -> GrantId {
        match self.owner {
            Some(owner) => GrantId::digest(owner.token().as_str()),
            None => GrantId::digest([&self.stored[..], &self.created.to_be_bytes()].concat()),
        }
    }
}

impl queue_copy::Entry for Entry {
    fn name(&self) -> &[u8] {
        &self.stored
    }
}

impl wait_queue::Entry for Entry {
    fn mode(&self) -> Mode {
        self.mode
    }
}

impl Line {
    pub(super) fn new(answer: RangeResponse, revision: i64) -> Self {
        let mut entries: Vec<_> = answer.kvs.into_iter().map(Entry::new).collect();
        entries.sort_by(|one, other| one.order().cmp(&other.order()));
        Self { queue: WaitQueue::new(entries), revision }
    }

    /// Applies the changes that a watch reports. Returns the stored keys of the deleted entries.
    pub(super) fn apply(&mut self, events: Vec<Event>) -> Vec<Vec<u8>> {
        let (mut gone, read) = (Vec::new(), self.revision);
        for event in events {
            let is_put = event.kind == 0;
            // A late report of the watch may be older than the last read. One report contains all changes of a
            // revision, so it is enough to compare with the revision of that read.
            let Some(kv) = event.kv.filter(|kv| kv.mod_revision > read) else { continue };
            self.revision = kv.mod_revision;
            let entries = self.queue.entries_mut();
            let at = entries.iter().position(|entry| entry.stored == kv.key);
            match (is_put, at) {
                (true, Some(at)) if entries[at].created == kv.create_revision => entries[at] = Entry::new(kv),
                (true, at) => {
                    // If a name was deleted and created again, it is a new entry.
                    at.map(|at| entries.remove(at));
                    let new = Entry::new(kv);
                    let at = entries.partition_point(|entry| entry.order() < new.order());
                    entries.insert(at, new);
                }
                (false, Some(at)) => gone.push(entries.remove(at).stored),
                (false, None) => {}
            }
        }
        gone
    }

    /// Returns the place of an owner's entry; `None` if there is none, or if the owner has released it.
    pub(super) fn place_of(&self, owner: Owner) -> Option<usize> {
        self.queue.place(|entry| entry.owner == Some(owner) && !entry.kept)
    }

    /// Returns the entry of an owner if that owner holds the key.
    pub(super) fn held_by(&self, owner: Owner) -> Option<&Entry> {
        let place = self.place_of(owner).filter(|place| self.queue.holds(*place))?;
        self.queue.entries().get(place)
    }

    pub(super) fn has(&self, stored: &[u8]) -> bool {
        self.queue.entries().iter().any(|entry| entry.stored == stored)
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.waiters().len()
    }

    /// Returns an error text if a claim of this mode conflicts with the kind of lock for which the key is in use.
    pub(super) fn conflict(&self, mode: Mode) -> Option<String> {
        let holds = self.queue.clash(mode)?;
        Some(conflict::in_use("the key", Use::Lock(holds), Use::Lock(mode)))
    }

    /// Returns the answer for a `claim` that is not granted. If the claim waits, its entry is at `place` and was queued
    /// at `queued_at`.
    pub(super) fn held(&self, claim: &Claim, place: Option<usize>, queued_at: Option<Moment>) -> Held {
        let holding = self.queue.holders().len();
        let place = place.filter(|place| *place >= holding);
        let first = self.queue.entries().first();
        Held {
            holder: first.and_then(|entry| entry.record.clone()),
            waiters: Some(self.waiting() - usize::from(place.is_some())),
            position: place.map(|place| place - holding).filter(|_| queued_at.is_some()),
            // A key that is kept locked after its release is not handed off.
            own: first
                .filter(|entry| !entry.kept)
                .and_then(|entry| entry.owner)
                .is_some_and(|owner| owner.may_hand_off_to(&claim.owner)),
            queued_at,
            kept: first.is_some_and(|entry| entry.kept),
            ..Held::default()
        }
    }
}

#[cfg(test)]
mod tests;
