//! The events of a lock.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Claim, FencingToken};
use crate::error::{LockErrorKind, LossReason};
use crate::key::Key;
use crate::kind::Kind;
use crate::owner::OwnerRecord;

/// The lock that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LockName {
    /// The key, with its namespace; of several keys the first. It is there even with
    /// [`redact_keys`](crate::ManagerBuilder::redact_keys), which only applies to spans and the log.
    pub key: Key,
    /// The other keys of a request for several.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serialize::keys"))]
    pub more: Arc<[Key]>,
    /// The template that the key was rendered from.
    pub template: Option<Cow<'static, str>>,
    /// The purpose of the lock, in words for people.
    pub label: Option<Cow<'static, str>>,
    /// Its kind.
    pub kind: Kind,
}

impl LockName {
    pub(crate) fn of_claim(claim: &Claim, kind: Kind, template: Option<Cow<'static, str>>) -> Self {
        Self {
            key: claim.key.clone(),
            more: claim.more.to_arc(),
            template,
            label: claim.record.label().map(|label| Cow::Owned(label.to_owned())),
            kind,
        }
    }
}

/// An event of a lock. A nested call that enters a lock again is not an event.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(tag = "event", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum LockEvent {
    /// The lock was granted.
    #[non_exhaustive]
    Granted {
        /// Which lock.
        lock: LockName,
        /// The time from the request to the grant.
        #[cfg_attr(
            feature = "serde",
            serde(rename = "waited_ms", serialize_with = "crate::serialize::millis")
        )]
        waited: Duration,
        /// The fencing token, if it came with the grant.
        fencing_token: Option<FencingToken>,
    },
    /// A request for the lock ended without it.
    #[non_exhaustive]
    Refused {
        /// Which lock.
        lock: LockName,
        /// The reason: another holder, the end of the wait, a failure of the store.
        why: LockErrorKind,
        /// Whether the strategy skipped the call.
        skipped: bool,
        /// The time from the request to the refusal.
        #[cfg_attr(
            feature = "serde",
            serde(rename = "waited_ms", serialize_with = "crate::serialize::millis")
        )]
        waited: Duration,
        /// The holder, if the store knows it.
        holder: Option<OwnerRecord>,
    },
    /// The request was cancelled: its future was dropped.
    #[non_exhaustive]
    Cancelled {
        /// Which lock.
        lock: LockName,
        /// The time from the request to its end.
        #[cfg_attr(
            feature = "serde",
            serde(rename = "waited_ms", serialize_with = "crate::serialize::millis")
        )]
        waited: Duration,
    },
    /// The last guard was released or dropped. The release was sent to the store, or will be.
    #[non_exhaustive]
    Released {
        /// Which lock.
        lock: LockName,
        /// The time since the grant.
        #[cfg_attr(
            feature = "serde",
            serde(rename = "held_ms", serialize_with = "crate::serialize::millis")
        )]
        held: Duration,
        /// The fencing token, if it was requested.
        fencing_token: Option<FencingToken>,
    },
    /// A renewal was not answered. The lock is still held, and will be lost after `left` unless one is answered.
    #[non_exhaustive]
    Endangered {
        /// Which lock.
        lock: LockName,
        /// The rest of the lease.
        #[cfg_attr(
            feature = "serde",
            serde(rename = "left_ms", serialize_with = "crate::serialize::millis")
        )]
        left: Duration,
    },
    /// The holder has lost the lock, by force ([`LossReason::Forced`]) or otherwise.
    #[non_exhaustive]
    Lost {
        /// Which lock.
        lock: LockName,
        /// The reason.
        reason: LossReason,
        /// The time since the grant.
        #[cfg_attr(
            feature = "serde",
            serde(rename = "held_ms", serialize_with = "crate::serialize::millis")
        )]
        held: Duration,
        /// The fencing token, if it was requested.
        fencing_token: Option<FencingToken>,
    },
    /// The lock is held for longer than
    /// [`warn_held_after`](crate::ManagerBuilder::warn_held_after). Emitted once for each grant.
    #[non_exhaustive]
    HeldLong {
        /// Which lock.
        lock: LockName,
        /// The time since the grant.
        #[cfg_attr(
            feature = "serde",
            serde(rename = "held_ms", serialize_with = "crate::serialize::millis")
        )]
        held: Duration,
    },
    /// A release failed: the store did not answer, or the lock belonged to another holder by then. An unanswered
    /// release continues in the background.
    #[non_exhaustive]
    ReleaseFailed {
        /// Which lock.
        lock: LockName,
    },
    /// The store failed a request for the lock, which continues to wait.
    #[non_exhaustive]
    StoreFailed {
        /// Which lock.
        lock: LockName,
        /// The error of the store, or of the connection to it.
        error: String,
    },
    /// A piece of work ran without its lock, as configured for a failure of the store.
    #[non_exhaustive]
    Bypassed {
        /// The template of the key.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serialize::text"))]
        template: Arc<str>,
    },
    /// The store has evicted keys because its memory was full, and locks may be among them. A holder whose lock is gone
    /// loses it at its next renewal.
    #[non_exhaustive]
    StoreEvicted {
        /// The number of evicted keys since the last check, which need not be locks.
        keys: u64,
    },
    /// The number of events before this one that were dropped, because the subscriber lagged too far.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serialize::missed"))]
    Missed(u64),
}
