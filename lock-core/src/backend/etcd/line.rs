//! The line of one key: who holds it, who waits, and who is next. Pure: what was read comes in as an argument.
//!
//! The entries stand in the order in which they were created, by etcd's revisions. Whether an entry holds the key
//! follows from those before it alone, and those only become fewer: an entry that holds goes on holding until it is
//! gone, and nobody grants anything.

use super::keyspace;
use super::proto::{Compare, KeyValue, RangeResponse};
use crate::backend::conflict::{self, Use};
use crate::backend::{Claim, GrantId, Held, Mode};
use crate::clock::Moment;
use crate::owner::{Owner, OwnerRecord};

/// What marks the value of an entry whose owner has released it, and which keeps the key for a while.
const KEPT: &str = " kept=1";
/// What marks the value of an entry whose lease has several keys.
const SEVERAL: &str = " several=1";

/// The lease of an entry that is bound to none. Only other programs write such entries.
pub(super) const NO_LEASE: i64 = 0;

/// One entry of a line.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The stored key.
    pub(super) stored: Vec<u8>,
    /// What it is known by in the process of its owner. For an entry of another program: the stored key.
    pub(super) page: Vec<u8>,
    /// The revision at which it was created: its place in the line, and its fencing token.
    pub(super) created: i64,
    /// The revision at which it was last written.
    pub(super) modified: i64,
    /// The lease that it is bound to, or [`NO_LEASE`].
    pub(super) lease: i64,
    pub(super) mode: Mode,
    /// `None` for an entry of another program.
    pub(super) owner: Option<Owner>,
    pub(super) record: Option<OwnerRecord>,
    /// Whether its owner has released it.
    pub(super) kept: bool,
    /// Whether its lease has further keys.
    pub(super) several: bool,
}

/// The entry of an owner in a line, whether it is there or not.
#[derive(Clone, Debug)]
pub(super) struct Own {
    /// What it is known by in this process.
    pub(super) page: Vec<u8>,
    /// Its stored key, if a request that writes it was sent.
    pub(super) stored: Option<Vec<u8>>,
}

impl Own {
    /// Returns whether an entry is this one. Another program may have written a value of its own to it.
    pub(super) fn is(&self, entry: &Entry) -> bool {
        entry.page == self.page || entry.owner.is_none() && self.stored.as_ref() == Some(&entry.stored)
    }
}

/// Returns the value of an entry of `claim`.
pub(super) fn value(claim: &Claim, mode: Mode, kept: bool) -> Vec<u8> {
    let mut value = claim.record.to_value(&claim.owner.token());
    match mode {
        Mode::Exclusive => {}
        Mode::Shared => value.push_str(" mode=s"),
        Mode::Permit { of } => value.push_str(&format!(" mode=p{of}")),
    }
    value.push_str(if claim.more.is_empty() { "" } else { SEVERAL });
    value.push_str(if kept { KEPT } else { "" });
    value.into_bytes()
}

impl Entry {
    fn new(kv: KeyValue) -> Self {
        let text = std::str::from_utf8(&kv.value).unwrap_or_default();
        let record = OwnerRecord::from_value(text);
        let owner = text.get(..Owner::TOKEN_LEN).and_then(Owner::from_token).filter(|_| record.is_some());
        let mode = text.rsplit(' ').find_map(|part| part.strip_prefix("mode=")).and_then(mode_of);
        Self {
            created: kv.create_revision,
            modified: kv.mod_revision,
            lease: kv.lease,
            mode: mode.filter(|_| owner.is_some()).unwrap_or(Mode::Exclusive),
            owner,
            kept: owner.is_some() && text.ends_with(KEPT),
            several: owner.is_some() && text.trim_end_matches(KEPT).ends_with(SEVERAL),
            page: owner.map_or_else(|| kv.key.clone(), |owner| keyspace::page_of(&kv.key, owner)),
            record,
            stored: kv.key,
        }
    }

    /// Returns the condition that nobody has written or deleted it since it was read.
    pub(super) fn unchanged(&self) -> Compare {
        Compare::modified_at(self.stored.clone(), self.modified)
    }

    /// Returns the name of its grant.
    pub(super) fn id(&self) -> Option<GrantId> {
        match self.owner {
            Some(owner) => keyspace::grant_id(&owner.token()),
            None => keyspace::foreign_id(&self.stored, self.created),
        }
    }
}

fn mode_of(code: &str) -> Option<Mode> {
    match code {
        "s" => Some(Mode::Shared),
        _ => code.strip_prefix('p')?.parse().ok().map(|of| Mode::Permit { of }),
    }
}

/// The entries of a key at one revision of the store, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub(super) entries: Vec<Entry>,
    /// The revision of the store.
    pub(super) revision: i64,
}

impl Line {
    pub(super) fn new(answer: RangeResponse, revision: i64) -> Self {
        let mut entries: Vec<_> = answer.kvs.into_iter().map(Entry::new).collect();
        entries.sort_by_key(|entry| entry.created);
        Self { entries, revision }
    }

    /// Returns the place of the entry of an owner.
    pub(super) fn place(&self, own: &Own) -> Option<usize> {
        self.entries.iter().position(|entry| own.is(entry))
    }

    /// Returns the entry at a place if it holds the key for its owner.
    pub(super) fn holder(&self, place: usize) -> Option<&Entry> {
        self.entries.get(place).filter(|entry| !entry.kept && self.is_served(place, entry.mode))
    }

    /// Returns the entry of an owner if it holds the key for it.
    pub(super) fn held_by(&self, page: &[u8]) -> Option<&Entry> {
        self.holder(self.entries.iter().position(|entry| entry.page == page)?)
    }

    /// Returns whether an entry of `mode` at `place` holds the key. At the length of the line: whether a further one
    /// would. An entry of a kind that cannot be beside those before it waits for them: the lock of another program may
    /// stand between permits.
    pub(super) fn is_served(&self, place: usize, mode: Mode) -> bool {
        let alike = || self.entries[..place].iter().all(|entry| entry.mode == mode);
        match mode {
            Mode::Exclusive => place == 0,
            Mode::Shared => alike(),
            Mode::Permit { of } => u32::try_from(place).is_ok_and(|before| before < of) && alike(),
        }
    }

    /// Returns whether a further entry of `mode` would hold the key at once.
    pub(super) fn admits(&self, mode: Mode) -> bool {
        self.is_served(self.entries.len(), mode)
    }

    /// Returns how many entries hold the key. They stand at the front.
    pub(super) fn holding(&self) -> usize {
        let alike = |mode| self.entries.iter().take_while(|entry| entry.mode == mode).count();
        match self.entries.first().map(|first| first.mode) {
            None => 0,
            Some(Mode::Exclusive) => 1,
            Some(Mode::Shared) => alike(Mode::Shared),
            Some(permit @ Mode::Permit { of }) => {
                alike(permit).min(usize::try_from(of).unwrap_or(usize::MAX))
            }
        }
    }

    /// Returns the text about another kind of use, if an entry of the line, whether it holds the key or waits, excludes
    /// `mode` for good.
    pub(super) fn conflict(&self, mode: Mode) -> Option<String> {
        let fits = |other: &Mode| match (*other, mode) {
            (Mode::Permit { of }, Mode::Permit { of: asked }) => of == asked,
            (Mode::Permit { .. }, _) | (_, Mode::Permit { .. }) => false,
            _ => true,
        };
        let other = self.entries.iter().map(|entry| entry.mode).find(|other| !fits(other))?;
        Some(conflict::in_use("the key", Use::Lock(other), Use::Lock(mode)))
    }

    /// Returns the refusal of `claim`, whose entry is at `place` if it waits since `queued_at`.
    pub(super) fn held(&self, claim: &Claim, place: Option<usize>, queued_at: Option<Moment>) -> Held {
        let holding = self.holding();
        let waiting = self.entries.len() - holding;
        let place = place.filter(|place| *place >= holding);
        let first = self.entries.first();
        Held {
            remaining: None,
            // Whoever waits watches the holder, or is notified of its end.
            foreign: false,
            holder: first.and_then(|entry| entry.record.clone()),
            waiters: Some(waiting - usize::from(place.is_some())),
            position: place.map(|place| place - holding).filter(|_| queued_at.is_some()),
            // Nobody hands on what is kept.
            own: first
                .filter(|entry| !entry.kept)
                .and_then(|entry| entry.owner)
                .is_some_and(|owner| owner.may_hand_off_to(&claim.owner)),
            queued_at,
            behind: None,
            key: None,
            kept: first.is_some_and(|entry| entry.kept),
        }
    }

    /// Returns the owner of the last entry, if an entry of `claim` directly behind it would share its grant.
    pub(super) fn shares_with(&self, claim: &Claim) -> Option<Owner> {
        let last = self.entries.last().filter(|last| !last.kept)?;
        last.owner.filter(|owner| owner.may_share_with(&claim.owner))
    }

    /// Returns the entries that an entry of `mode` at `place`, which does not hold the key, must wait for: as long as none
    /// of them is deleted, or changed where `mode` is shared, nothing else can make it hold the key.
    ///
    /// One entry that it cannot be beside is enough. Of those that it can be beside, a semaphore of `n` takes `n`: as long
    /// as these are there, there is no room. They are the last ones, so that no entry has more than `n` that wait for it.
    pub(super) fn blockers(&self, place: usize, mode: Mode) -> &[Entry] {
        let before = &self.entries[..place];
        let unlike = before.iter().rposition(|entry| entry.mode != mode);
        let last = |number: usize| &before[place.saturating_sub(number)..];
        match (mode, unlike) {
            (Mode::Exclusive, _) => last(1),
            (_, Some(at)) => &before[at..=at],
            (Mode::Permit { of }, None) => last(usize::try_from(of).unwrap_or(usize::MAX)),
            (Mode::Shared, None) => &[],
        }
    }
}

#[cfg(test)]
mod tests;
