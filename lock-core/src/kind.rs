//! Defines the kinds of locks, and what each kind requires from a store.
//!
//! A kind is translated into a [`Mode`] and a [`Queue`], which are fields of a claim. So a kind needs neither a trait
//! nor its own code in the stores. A store declares in its [`Capability`] which modes it supports.

use std::fmt;

use crate::backend::{Capability, Mode, Queue};
use crate::error::{LockError, LockErrorKind, Result};

/// The kind of a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Kind {
    /// One holder, which may acquire the lock again inside the same task. This is the default.
    #[default]
    Reentrant,
    /// One holder. Waiters of all processes are served in strict order of arrival.
    Fair,
    /// Any number of readers at the same time, but no writer.
    Read,
    /// One writer, and no readers at the same time.
    Write,
    /// At most `permits` holders.
    Semaphore {
        /// The maximum number of holders. Every request for the key must set the same number.
        permits: u32,
    },
}

impl Kind {
    /// Returns how a lock of this kind excludes other locks.
    pub(crate) fn mode(self) -> Mode {
        match self {
            Self::Reentrant | Self::Fair | Self::Write => Mode::Exclusive,
            Self::Read => Mode::Shared,
            Self::Semaphore { permits } => Mode::Permit { of: permits },
        }
    }

    /// Returns the order in which waiters are served.
    pub(crate) fn queue(self) -> Queue {
        match self {
            Self::Reentrant => Queue::Barging,
            Self::Fair | Self::Read | Self::Write | Self::Semaphore { .. } => Queue::Fifo,
        }
    }

    /// Returns whether a grant may be handed off inside a process, without a request to the store.
    pub(crate) fn hands_off(self) -> bool {
        self == Self::Reentrant
    }

    /// Returns an error if the kind can never be granted, or if the store does not support it.
    pub(crate) fn check(self, store: &Capability) -> Result<()> {
        let able = match self {
            Self::Reentrant => true,
            Self::Fair => store.waiting.in_order(),
            Self::Read | Self::Write => store.shared,
            Self::Semaphore { permits: 0 } => {
                return Err(LockError::new(
                    LockErrorKind::InvalidRequest,
                    "a semaphore with 0 permits admits nobody: ask for at least 1",
                ));
            }
            Self::Semaphore { .. } => store.permits,
        };
        if able {
            return Ok(());
        }
        let others = [
            (store.waiting.in_order(), "`fair`"),
            (store.shared, "`read` and `write`"),
            (store.permits, "`semaphore`"),
        ];
        let has: String =
            others.iter().filter(|(has, _)| *has).map(|(_, name)| format!(", {name}")).collect();
        let detail = format!("the {} store has no {self} locks; it has `lock`{has}", store.store);
        Err(LockError::new(LockErrorKind::Unsupported, detail))
    }

    /// Returns an error if a task that holds a key as `self` must not enter it again as `inner`.
    pub(crate) fn admits(self, inner: Self) -> Result<()> {
        match (self, inner) {
            (Self::Read, Self::Read) => Ok(()),
            (Self::Semaphore { permits: outer }, Self::Semaphore { permits: inner }) if outer == inner => {
                Ok(())
            }
            (Self::Read, _) => Err(LockError::new(
                LockErrorKind::Upgrade,
                "this task holds the key for reading; release that first, or take the write lock outside",
            )),
            (Self::Semaphore { .. }, _) | (_, Self::Semaphore { .. }) => {
                let detail = format!(
                    "this task holds the key as {self} and asks for {inner}: use one kind for one key"
                );
                Err(LockError::new(LockErrorKind::InvalidRequest, detail))
            }
            (Self::Reentrant | Self::Fair | Self::Write, _) => Ok(()),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reentrant => f.write_str("reentrant"),
            Self::Fair => f.write_str("fair"),
            Self::Read => f.write_str("read"),
            Self::Write => f.write_str("write"),
            Self::Semaphore { permits } => write!(f, "semaphore({permits})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entering_again() {
        let semaphore = Kind::Semaphore { permits: 2 };
        let cases = [
            (Kind::Reentrant, Kind::Reentrant, None),
            (Kind::Reentrant, Kind::Read, None),
            (Kind::Write, Kind::Read, None),
            (Kind::Fair, Kind::Write, None),
            (Kind::Read, Kind::Read, None),
            (Kind::Read, Kind::Write, Some(LockErrorKind::Upgrade)),
            (Kind::Read, Kind::Reentrant, Some(LockErrorKind::Upgrade)),
            (Kind::Read, semaphore, Some(LockErrorKind::Upgrade)),
            (semaphore, semaphore, None),
            (semaphore, Kind::Write, Some(LockErrorKind::InvalidRequest)),
            (Kind::Write, semaphore, Some(LockErrorKind::InvalidRequest)),
        ];
        for (outer, inner, refused) in cases {
            assert_eq!(outer.admits(inner).err().map(|e| e.kind()), refused, "{inner} inside {outer}");
        }
    }

    #[test]
    fn a_store_is_asked_only_for_what_it_can_do() {
        let store = Capability::exclusive("test");
        assert!(Kind::Reentrant.check(&store).is_ok());
        for kind in [Kind::Fair, Kind::Read, Kind::Write, Kind::Semaphore { permits: 1 }] {
            assert_eq!(kind.check(&store).unwrap_err().kind(), LockErrorKind::Unsupported, "{kind}");
        }
        let readers = Capability { shared: true, ..store };
        let error = Kind::Fair.check(&readers).unwrap_err().to_string();
        assert!(error.contains("no fair locks; it has `lock`, `read` and `write`"), "{error}");
        let none = Kind::Semaphore { permits: 0 }.check(&store).unwrap_err();
        assert_eq!(none.kind(), LockErrorKind::InvalidRequest);
    }
}
