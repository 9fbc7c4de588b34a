//! Who holds what, for people who look at a store.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::Mode;
use crate::error::{LockError, LockErrorKind};
use crate::owner::OwnerRecord;

/// Of how many holders of a key [`LockInfo::holders`] tells at most.
pub const HOLDERS_TOLD: usize = 100;
/// Of how many of those who wait for a key [`LockInfo::waiters`] tells at most.
pub const WAITERS_TOLD: usize = 16;

/// Names one grant to those who look at a store: 40 hexadecimal digits that no other grant has, and that say nothing
/// about the owner's token.
///
/// # Examples
/// ```
/// use lock_core::backend::GrantId;
///
/// let id: GrantId = "0123456789abcdef0123456789abcdef01234567".parse()?;
/// assert_eq!(id.to_string(), "0123456789abcdef0123456789abcdef01234567");
/// assert!("0123".parse::<GrantId>().is_err());
/// # Ok::<(), lock_core::LockError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct GrantId(Box<str>);

impl GrantId {
    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GrantId({self})")
    }
}

/// Reads what [`Display`](fmt::Display) writes.
impl FromStr for GrantId {
    type Err = LockError;

    fn from_str(text: &str) -> Result<Self, LockError> {
        if text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        {
            return Ok(Self(text.into()));
        }
        let detail = "the id of a grant is 40 lower-case hexadecimal digits, as `locks` shows it";
        Err(LockError::new(LockErrorKind::InvalidRequest, detail))
    }
}

/// One key that somebody holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockInfo {
    /// The key: as it stands in the store where a backend tells it, and without the manager's namespace, as
    /// [`force_release`](crate::LockManager::force_release) and requests want it, where a manager does.
    pub key: String,
    /// In which mode it is held. A fair lock and a writer are exclusive as any other.
    pub mode: Mode,
    /// Who holds it: of many the first whose leases end, at most [`HOLDERS_TOLD`].
    pub holders: Vec<HolderInfo>,
    /// How many hold it.
    pub holding: usize,
    /// How many wait for it in the store's queue: of a kind whose waiters take turns in their process, one for each
    /// process. On Redis the dead behind the first 1,000 are counted too, until those before them find them.
    pub waiting: usize,
    /// The first of those who wait, in their order; at most [`WAITERS_TOLD`].
    pub waiters: Vec<WaiterInfo>,
}

/// One who holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HolderInfo {
    /// Names the grant.
    pub id: GrantId,
    /// Who it is; `None` for a client of another library.
    pub record: Option<OwnerRecord>,
    /// What is left of the lease; `None` without an expiry. A holder that is at work renews it.
    pub remaining: Option<Duration>,
    /// The holder gave it back, and asked for the key to stay taken for so long.
    pub kept: bool,
}

/// One who waits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WaiterInfo {
    /// Who it is.
    pub record: Option<OwnerRecord>,
    /// What it waits for.
    pub mode: Mode,
}

/// What a look at a store found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Listed {
    /// The keys that are held, sorted.
    pub locks: Vec<LockInfo>,
    /// There are more than were asked for.
    pub truncated: bool,
}

impl Listed {
    /// Of `locks`, in any order, the first `limit`.
    #[must_use]
    pub fn new(mut locks: Vec<LockInfo>, limit: usize) -> Self {
        locks.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let truncated = locks.len() > limit;
        locks.truncate(limit);
        Self { locks, truncated }
    }
}

impl LockInfo {
    /// A key that is held, for authors of backends.
    #[must_use]
    pub fn new(key: impl Into<String>, mode: Mode, holders: Vec<HolderInfo>) -> Self {
        let holding = holders.len();
        Self { key: key.into(), mode, holders, holding, waiting: 0, waiters: Vec::new() }
    }

    /// Says that so many hold it, of whom `holders` are the first.
    #[must_use]
    pub fn with_holding(mut self, holding: usize) -> Self {
        self.holding = holding;
        self
    }

    /// Adds those who wait, of whom `waiters` are the first.
    #[must_use]
    pub fn with_waiters(mut self, waiting: usize, waiters: Vec<WaiterInfo>) -> Self {
        (self.waiting, self.waiters) = (waiting, waiters);
        self
    }
}

impl HolderInfo {
    /// One who holds, for authors of backends.
    #[must_use]
    pub fn new(id: GrantId, record: Option<OwnerRecord>, remaining: Option<Duration>, kept: bool) -> Self {
        Self { id, record, remaining, kept }
    }
}

impl WaiterInfo {
    /// One who waits, for authors of backends.
    #[must_use]
    pub fn new(record: Option<OwnerRecord>, mode: Mode) -> Self {
        Self { record, mode }
    }
}
