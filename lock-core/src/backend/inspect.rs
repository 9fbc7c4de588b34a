//! Defines what operators see of the locks in a store: the held keys, their holders and their waiters.

mod display;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::Mode;
use crate::error::{LockError, LockErrorKind};
use crate::owner::OwnerRecord;

/// The largest number of holders in [`LockInfo::holders`].
pub const HOLDERS_TOLD: usize = 100;
/// The largest number of waiters in [`LockInfo::waiters`].
pub const WAITERS_TOLD: usize = 16;

/// The name of a grant for operators: 40 hexadecimal digits. No other grant has the same digits. The digits reveal
/// nothing about the owner's token.
///
/// # Examples
/// ```
/// use lock_core::GrantId;
///
/// let id: GrantId = "0123456789abcdef0123456789abcdef01234567".parse()?;
/// assert_eq!(id.to_string(), "0123456789abcdef0123456789abcdef01234567");
/// assert!("0123".parse::<GrantId>().is_err());
/// # Ok::<(), lock_core::LockError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GrantId(Box<str>);

impl GrantId {
    /// Returns the digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first 20 bytes of the SHA-256 digest of `text`, as an id that does not reveal `text`.
    pub(crate) fn digest(text: impl AsRef<[u8]>) -> Self {
        let digest = Sha256::digest(text);
        Self(digest.iter().take(20).map(|byte| format!("{byte:02x}")).collect::<String>().into())
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

/// Parses the output of [`Display`](fmt::Display).
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

/// A key that is held.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LockInfo {
    /// The key. A backend returns the key as the store has it. A manager returns the key without the namespace, as
    /// requests and [`force_release`](crate::LockManager::force_release) expect it.
    pub key: String,
    /// The mode in which the key is held. A fair lock and a writer are shown as exclusive.
    pub mode: Mode,
    /// The holders whose leases end first; at most [`HOLDERS_TOLD`].
    pub holders: Vec<HolderInfo>,
    /// The number of holders. For a semaphore, the number of permits of all holders.
    pub holding: usize,
    /// The number of claims that wait for the key in the store's queue. If a process hands the lock off between its own
    /// waiters, it has only one claim in the queue. On Redis, dead waiters beyond the first 1,000 also count, until a
    /// live waiter near them in the queue removes them.
    pub waiting: usize,
    /// The first waiters, in their order; at most [`WAITERS_TOLD`].
    pub waiters: Vec<WaiterInfo>,
}

/// A holder of a key.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct HolderInfo {
    /// The name of the grant.
    pub id: GrantId,
    /// Describes the holder; `None` for a client of another library.
    pub record: Option<OwnerRecord>,
    /// The time when the holder's process was granted the lock, since the Unix epoch, by the store's clock. On Redis
    /// this time is correct to about a second. On etcd and ZooKeeper, and on Redis if the grant did not come from the
    /// queue, the time is by the holder's clock. On etcd, a lock that had to wait has this time only after its first
    /// renewal. On ZooKeeper, every lock has this time only after its first renewal, except a lock that had to wait and
    /// has a fencing token.
    ///
    /// The field is `None` for a client of another library, and if the store does not keep this time. Such stores are
    /// `redlock://`, Postgres with `mode=advisory`, and Redis for shared locks and semaphores. The
    /// [record](Self::record) then contains the time when the holder requested the lock. The holder may have waited
    /// after that time.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "held_since_ms", serialize_with = "crate::serialize::millis_if_any")
    )]
    pub held_since: Option<Duration>,
    /// The remaining time of the lease, which a live holder renews. `None` if the lock does not expire.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "remaining_ms", serialize_with = "crate::serialize::millis_if_any")
    )]
    pub remaining: Option<Duration>,
    /// Whether the holder has released the key, and the store keeps it locked for the rest of the lease.
    pub kept: bool,
}

/// A waiter for a key.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct WaiterInfo {
    /// Describes the waiter.
    pub record: Option<OwnerRecord>,
    /// The mode that the waiter requests.
    pub mode: Mode,
}

/// The result of listing a store.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Listed {
    /// The keys that are held, sorted.
    pub locks: Vec<LockInfo>,
    /// Whether there are more keys than the limit.
    pub truncated: bool,
}

impl Listed {
    /// Makes a list of the first `limit` of `locks`, which may be in any order.
    #[must_use]
    pub fn new(mut locks: Vec<LockInfo>, limit: usize) -> Self {
        locks.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let truncated = locks.len() > limit;
        locks.truncate(limit);
        Self { locks, truncated }
    }
}

impl LockInfo {
    /// Describes a key that is held, for authors of backends.
    #[must_use]
    pub fn new(key: impl Into<String>, mode: Mode, holders: Vec<HolderInfo>) -> Self {
        let holding = holders.len();
        Self { key: key.into(), mode, holders, holding, waiting: 0, waiters: Vec::new() }
    }

    /// Sets the number of all holders. `holders` contains the first of them.
    #[must_use]
    pub fn with_holding(mut self, holding: usize) -> Self {
        self.holding = holding;
        self
    }

    /// Sets the number of waiters, and the first waiters.
    #[must_use]
    pub fn with_waiters(mut self, waiting: usize, waiters: Vec<WaiterInfo>) -> Self {
        (self.waiting, self.waiters) = (waiting, waiters);
        self
    }
}

impl HolderInfo {
    /// Describes a holder, for authors of backends.
    #[must_use]
    pub fn new(id: GrantId, record: Option<OwnerRecord>, remaining: Option<Duration>, kept: bool) -> Self {
        Self { id, record, held_since: None, remaining, kept }
    }

    /// Sets the time when the lock was granted, if the store keeps that time.
    #[must_use]
    pub fn with_held_since(mut self, held_since: Option<Duration>) -> Self {
        self.held_since = held_since;
        self
    }

    /// Returns the time when the lock was granted, since the Unix epoch. If the store does not keep that time, returns
    /// the time when the holder requested the lock. Returns `None` for a client of another library.
    #[must_use]
    pub fn since(&self) -> Option<Duration> {
        self.held_since.or_else(|| self.record.as_ref().map(OwnerRecord::since_epoch))
    }
}

impl WaiterInfo {
    /// Describes a waiter, for authors of backends.
    #[must_use]
    pub fn new(record: Option<OwnerRecord>, mode: Mode) -> Self {
        Self { record, mode }
    }
}
