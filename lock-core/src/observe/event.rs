//! Defines the events of a lock.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Claim, FencingToken};
use crate::error::{LockErrorKind, LossReason};
use crate::key::Key;
use crate::kind::Kind;
use crate::owner::OwnerRecord;
#[cfg(feature = "serde")]
use crate::serialize::millis;

/// The lock that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LockName {
    /// The key, with its namespace, or the first key of a lock of several keys.
    /// [`redact_keys`](crate::ManagerBuilder::redact_keys) does not hide the key, because that option applies only to
    /// spans and the log.
    pub key: Key,
    /// The other keys, if the request was for several.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serialize::keys"))]
    pub more: Arc<[Key]>,
    /// The template from which the key was rendered.
    pub template: Option<Cow<'static, str>>,
    /// A text that describes the purpose of the lock.
    pub label: Option<Cow<'static, str>>,
    /// The kind of the lock.
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
        /// The lock that was granted.
        lock: LockName,
        /// The time from the request to the grant.
        #[cfg_attr(feature = "serde", serde(rename = "waited_ms", serialize_with = "millis"))]
        waited: Duration,
        /// The fencing token, if it came with the grant.
        fencing_token: Option<FencingToken>,
    },
    /// A request ended with an error, or was skipped, before the lock was granted.
    #[non_exhaustive]
    Refused {
        /// The lock that was requested.
        lock: LockName,
        /// The kind of the error, such as another holder, a timeout, or a failure of the store.
        why: LockErrorKind,
        /// Whether the strategy skipped the call.
        skipped: bool,
        /// The time from the request to the refusal.
        #[cfg_attr(feature = "serde", serde(rename = "waited_ms", serialize_with = "millis"))]
        waited: Duration,
        /// The holder, if the store knows it.
        holder: Option<OwnerRecord>,
    },
    /// The request was cancelled, because its future was dropped.
    #[non_exhaustive]
    Cancelled {
        /// The lock that was requested.
        lock: LockName,
        /// The time from the request to its cancellation.
        #[cfg_attr(feature = "serde", serde(rename = "waited_ms", serialize_with = "millis"))]
        waited: Duration,
    },
    /// The last guard was released or dropped. The release at the store may still be pending.
    #[non_exhaustive]
    Released {
        /// The lock that was released.
        lock: LockName,
        /// The time since the grant.
        #[cfg_attr(feature = "serde", serde(rename = "held_ms", serialize_with = "millis"))]
        held: Duration,
        /// The fencing token, if it was requested.
        fencing_token: Option<FencingToken>,
    },
    /// A renewal was not answered. The lock is still held. It will be lost after `left` if no further renewal succeeds.
    #[non_exhaustive]
    Endangered {
        /// The lock that is in danger.
        lock: LockName,
        /// The rest of the lease.
        #[cfg_attr(feature = "serde", serde(rename = "left_ms", serialize_with = "millis"))]
        left: Duration,
    },
    /// The holder has lost the lock. If an operator caused this, the reason is [`LossReason::Forced`].
    #[non_exhaustive]
    Lost {
        /// The lock that was lost.
        lock: LockName,
        /// The reason of the loss.
        reason: LossReason,
        /// The time since the grant.
        #[cfg_attr(feature = "serde", serde(rename = "held_ms", serialize_with = "millis"))]
        held: Duration,
        /// The fencing token, if it was requested.
        fencing_token: Option<FencingToken>,
    },
    /// The lock is held for longer than [`warn_held_after`](crate::ManagerBuilder::warn_held_after). This event is
    /// emitted once per grant.
    #[non_exhaustive]
    HeldLong {
        /// The lock that is held for long.
        lock: LockName,
        /// The time since the grant.
        #[cfg_attr(feature = "serde", serde(rename = "held_ms", serialize_with = "millis"))]
        held: Duration,
    },
    /// A release failed: the store did not answer, or the answer shows that the lock was lost before. An unanswered
    /// release continues in the background.
    #[non_exhaustive]
    ReleaseFailed {
        /// The lock whose release failed.
        lock: LockName,
    },
    /// A command to the store for a lock request failed. The lock request keeps waiting.
    #[non_exhaustive]
    StoreFailed {
        /// The lock that is requested.
        lock: LockName,
        /// The error of the store, or of the connection to it.
        error: String,
    },
    /// A body ran without its lock, because the store failed and the program is configured to continue.
    #[non_exhaustive]
    Bypassed {
        /// The template of the key.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serialize::text"))]
        template: Arc<str>,
    },
    /// The store has evicted keys because its memory was full, and these may include locks. If a lock was evicted, its
    /// holder loses it at the next renewal.
    #[non_exhaustive]
    StoreEvicted {
        /// The number of keys that were evicted since the last check. Some of them may not be locks.
        keys: u64,
    },
    /// The subscriber lagged too far, so this number of earlier events was dropped.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serialize::missed"))]
    Missed(u64),
}
