//! Records the locks that one session holds. This module does no I/O.
//!
//! If a session already has an advisory lock, the server grants the lock to the same session again. So the server only
//! makes different sessions exclude each other. This table makes the owners of one process exclude each other.

use std::collections::HashMap;

use crate::owner::Owner;

/// The advisory locks of one session. The map is indexed by the number of the lock.
#[derive(Debug, Default)]
pub(super) struct Grants(HashMap<i64, Entry>);

#[derive(Debug)]
struct Entry {
    owner: Owner,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The lock was requested from the server, and the answer is pending.
    Asked,
    /// The lock was requested from the server, but the owner has released the lock before the answer.
    Abandoned,
    Held,
    /// The lock is being freed on the server.
    Leaving,
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// The lock must be requested from the server.
    Ask,
    /// The owner holds the lock.
    Held,
    /// Another owner of this process holds the lock, or may hold it. If that owner certainly holds the lock, the value
    /// is that owner.
    Busy(Option<Owner>),
    /// An earlier request of this owner is in progress.
    Wait,
}

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// The server must free the lock.
    Free,
    /// A request of this owner is in progress.
    Wait,
    /// Another owner of this process holds the lock.
    Taken,
    /// No owner of this process holds the lock.
    Nothing,
}

impl Grants {
    pub(super) fn begin(&mut self, id: i64, owner: Owner) -> Begin {
        match self.0.get(&id) {
            None => {
                self.0.insert(id, Entry { owner, state: State::Asked });
                Begin::Ask
            }
            Some(entry) if entry.owner != owner => {
                Begin::Busy((entry.state == State::Held).then_some(entry.owner))
            }
            Some(Entry { state: State::Held, .. }) => Begin::Held,
            Some(_) => Begin::Wait,
        }
    }

    /// Records the answer to a request; `None` stands for an error. Returns whether the lock must be freed on the
    /// server: after an error, or if the owner has released the lock before the grant. Such a lock stays in the table
    /// until [`freed`](Self::freed).
    pub(super) fn answered(&mut self, id: i64, granted: Option<bool>) -> bool {
        let Some(entry) = self.0.get_mut(&id) else { return false };
        match (granted, entry.state) {
            (Some(true), State::Asked) => {
                entry.state = State::Held;
                false
            }
            (Some(false), _) => {
                self.0.remove(&id);
                false
            }
            // After an error, the server may have granted the lock: a session keeps an advisory lock even if the
            // statement then fails.
            (Some(true) | None, _) => {
                entry.state = State::Leaving;
                true
            }
        }
    }

    pub(super) fn leave(&mut self, id: i64, owner: Owner) -> Leave {
        let Some(entry) = self.0.get_mut(&id) else { return Leave::Nothing };
        match entry.state {
            State::Held if entry.owner != owner => Leave::Taken,
            _ if entry.owner != owner => Leave::Nothing,
            State::Held => {
                entry.state = State::Leaving;
                Leave::Free
            }
            State::Asked | State::Abandoned => {
                entry.state = State::Abandoned;
                Leave::Wait
            }
            State::Leaving => Leave::Wait,
        }
    }

    /// Records that the server has freed the lock.
    pub(super) fn freed(&mut self, id: i64) {
        self.0.remove(&id);
    }

    pub(super) fn is_held(&self, id: i64, owner: Owner) -> bool {
        self.0.get(&id).is_some_and(|entry| entry.owner == owner && entry.state == State::Held)
    }

    /// Returns the owners that hold locks.
    pub(super) fn into_held(self) -> Vec<Owner> {
        self.0.into_values().filter(|entry| entry.state == State::Held).map(|entry| entry.owner).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::OwnerSource;

    const ID: i64 = 7;

    fn owners() -> (Owner, Owner) {
        let source = OwnerSource::new().expect("random bytes");
        (source.mint(), source.mint())
    }

    #[test]
    fn one_owner_of_a_process_at_a_time() {
        let (one, other) = owners();
        let mut grants = Grants::default();
        assert_eq!(grants.begin(ID, one), Begin::Ask);
        assert_eq!((grants.begin(ID, one), grants.begin(ID, other)), (Begin::Wait, Begin::Busy(None)));
        assert!(!grants.answered(ID, Some(true)) && grants.is_held(ID, one) && !grants.is_held(ID, other));
        assert_eq!((grants.begin(ID, one), grants.begin(ID, other)), (Begin::Held, Begin::Busy(Some(one))));
        assert_eq!((grants.leave(ID, other), grants.leave(8, other)), (Leave::Taken, Leave::Nothing));
        assert_eq!((grants.leave(ID, one), grants.leave(ID, one)), (Leave::Free, Leave::Wait));
        assert_eq!((grants.begin(ID, other), grants.is_held(ID, one)), (Begin::Busy(None), false));
        grants.freed(ID);
        assert_eq!(grants.begin(ID, other), Begin::Ask);
        assert!(!grants.answered(ID, Some(false)));
        assert_eq!((grants.leave(ID, other), grants.begin(ID, one)), (Leave::Nothing, Begin::Ask));
    }

    #[test]
    fn what_was_given_for_nothing_is_freed() {
        let (one, other) = owners();
        for (granted, abandoned, frees) in [
            (Some(true), false, false),
            (Some(true), true, true),
            (Some(false), true, false),
            (None, false, true),
            (None, true, true),
        ] {
            let mut grants = Grants::default();
            assert_eq!(grants.begin(ID, one), Begin::Ask);
            if abandoned {
                assert_eq!(grants.leave(ID, one), Leave::Wait);
            }
            assert_eq!(grants.answered(ID, granted), frees, "{granted:?} {abandoned}");
            if frees {
                assert_eq!(grants.begin(ID, other), Begin::Busy(None), "until it is freed");
                assert!(grants.into_held().is_empty());
            }
        }
    }
}
