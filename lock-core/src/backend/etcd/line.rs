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

    /// Returns the place of a stored entry.
    pub(super) fn place(&self, stored: &[u8]) -> Option<usize> {
        self.entries.iter().position(|entry| entry.stored == stored)
    }

    /// Returns the entry at a place if it holds the key for its owner.
    pub(super) fn holder(&self, place: usize) -> Option<&Entry> {
        self.entries.get(place).filter(|entry| !entry.kept && self.is_served(place, entry.mode))
    }

    /// Returns the stored entry if it holds the key for its owner.
    pub(super) fn held_by(&self, stored: &[u8]) -> Option<&Entry> {
        self.holder(self.place(stored)?)
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
        }
    }

    /// Returns what an entry at `place`, which does not hold the key, must wait for: the deletion or the change of this
    /// one. Nothing before that can make it hold the key. `None` where the change of any entry before it may.
    pub(super) fn blocker(&self, place: usize, mode: Mode) -> Option<&Entry> {
        let before = &self.entries[..place];
        match mode {
            Mode::Exclusive => before.last(),
            Mode::Shared => before.iter().rfind(|entry| entry.mode != Mode::Shared),
            Mode::Permit { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: Mode = Mode::Exclusive;
    const S: Mode = Mode::Shared;
    const P: Mode = Mode::Permit { of: 2 };
    const Q: Mode = Mode::Permit { of: 3 };

    fn is_permit(mode: Mode) -> bool {
        matches!(mode, Mode::Permit { .. })
    }

    fn line(modes: &[Mode]) -> Line {
        let entry = |(at, mode): (usize, &Mode)| Entry {
            stored: vec![u8::try_from(at).expect("a few")],
            created: i64::try_from(at).expect("a few"),
            modified: 9,
            lease: 1,
            mode: *mode,
            owner: None,
            record: None,
            kept: false,
            several: false,
        };
        Line { entries: modes.iter().enumerate().map(entry).collect(), revision: 9 }
    }

    #[test]
    fn who_holds_follows_from_those_before() {
        let table: &[(&[Mode], usize, [bool; 3], Option<Mode>)] = &[
            (&[], 0, [true, true, true], None),
            (&[X], 1, [false, false, false], Some(P)),
            (&[S], 1, [false, true, false], Some(P)),
            (&[S, S, X, S], 2, [false, false, false], Some(P)),
            (&[X, S], 1, [false, false, false], Some(P)),
            (&[P], 1, [false, false, true], Some(X)),
            (&[P, P, P], 2, [false, false, false], Some(S)),
            // The lock of another program, which knows no permits, in between, before and behind.
            (&[P, X], 1, [false, false, false], Some(P)),
            (&[X, P], 1, [false, false, false], Some(P)),
            (&[P, X, P], 1, [false, false, false], Some(P)),
            (&[P, P, X], 2, [false, false, false], Some(P)),
            // Permits of another number.
            (&[Q, P], 1, [false, false, false], Some(P)),
            (&[Q, Q, P], 2, [false, false, false], Some(Q)),
            // A reader that waits.
            (&[P, S, S], 1, [false, false, false], Some(S)),
        ];
        for (modes, holding, admitted, conflict) in table {
            let line = line(modes);
            assert_eq!(line.holding(), *holding, "{modes:?}");
            assert_eq!([X, S, P].map(|mode| line.admits(mode)), *admitted, "{modes:?}");
            if let Some(mode) = conflict {
                assert!(line.conflict(*mode).is_some(), "{modes:?} {mode:?}");
            }
            let same = modes.first().copied().unwrap_or(X);
            let mixed = modes.iter().any(|mode| *mode != same) && modes.iter().any(|mode| is_permit(*mode));
            assert_eq!(line.conflict(same).is_some(), mixed, "{modes:?}");
        }
        assert!(line(&[P]).conflict(Mode::Permit { of: 3 }).is_some());
        assert!(line(&[S]).conflict(X).is_none() && line(&[X]).conflict(S).is_none());
    }

    #[test]
    fn each_waits_for_one_before_it() {
        let table: &[(&[Mode], usize, Option<i64>)] = &[
            (&[X, X, X], 2, Some(1)),
            (&[X, X, X], 1, Some(0)),
            (&[S, X, S, S], 3, Some(1)),
            (&[X, S, S], 2, Some(0)),
            (&[S, S, X], 2, Some(1)),
            (&[P, P, P, P], 3, None),
        ];
        for (modes, place, blocker) in table {
            let line = line(modes);
            let found = line.blocker(*place, modes[*place]).map(|entry| entry.created);
            assert_eq!(found, *blocker, "{modes:?} at {place}");
        }
    }

    /// Two that exclude each other never hold together, in any line of up to six. Whoever holds stands at the front.
    #[test]
    fn no_two_holders_exclude_each_other() {
        let kinds = [X, S, P, Q];
        for number in 0..kinds.len().pow(6) {
            let modes: Vec<Mode> =
                (0..6_u32).map(|at| kinds[number / kinds.len().pow(at) % kinds.len()]).collect();
            let line = line(&modes);
            let holding: Vec<usize> = (0..6).filter(|at| line.is_served(*at, modes[*at])).collect();
            let first = modes[0];
            let room = match first {
                Mode::Exclusive => 1,
                Mode::Shared => 6,
                Mode::Permit { of } => of as usize,
            };
            let fine = holding.len() <= room && holding.iter().all(|at| modes[*at] == first);
            assert!(fine && !holding.is_empty(), "{modes:?}: {holding:?}");
            assert_eq!(holding, (0..line.holding()).collect::<Vec<_>>(), "{modes:?}");
        }
    }

    /// An entry that holds the key goes on holding it, whoever leaves and whoever joins the line.
    #[test]
    fn nobody_loses_the_key_to_the_line() {
        let modes = [X, S, S, X, S];
        for start in 0..1_u32 << modes.len() {
            let there = |set: u32| -> Vec<(usize, Mode)> {
                modes.iter().copied().enumerate().filter(|(at, _)| set & (1 << at) != 0).collect()
            };
            let served = |set: u32| -> Vec<usize> {
                let all = there(set);
                let line = line(&all.iter().map(|(_, mode)| *mode).collect::<Vec<_>>());
                (0..all.len()).filter(|at| line.is_served(*at, all[*at].1)).map(|at| all[at].0).collect()
            };
            for gone in 0..modes.len() {
                let after = served(start & !(1 << gone));
                assert!(served(start).iter().all(|at| *at == gone || after.contains(at)), "{start:b} {gone}");
            }
            // Two holders, only if both share.
            let held = served(start);
            assert!(held.len() < 2 || held.iter().all(|at| modes[*at] == S), "{start:b}: {held:?}");
        }
    }
}
