//! What happens to a lock, as a value.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Claim, FencingToken};
use crate::error::{LockErrorKind, LossReason};
use crate::key::Key;
use crate::kind::Kind;
use crate::owner::OwnerRecord;

/// Which lock an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockName {
    /// The key, with its namespace; of several, the first. It is there also with
    /// [`redact_keys`](crate::ManagerBuilder::redact_keys), which is about what leaves the program as text.
    pub key: Key,
    /// The other keys of a request for several.
    pub more: Arc<[Key]>,
    /// What the key was rendered from.
    pub template: Option<Cow<'static, str>>,
    /// What the lock is for.
    pub label: Option<Cow<'static, str>>,
    /// Its kind.
    pub kind: Kind,
}

impl LockName {
    pub(crate) fn of_claim(claim: &Claim, kind: Kind, template: Option<Cow<'static, str>>) -> Self {
        Self {
            key: claim.key.clone(),
            more: Arc::clone(&claim.more),
            template,
            label: claim.record.label().map(|label| Cow::Owned(label.to_owned())),
            kind,
        }
    }
}

/// What happened to a lock. Nested calls that enter a lock again are no events.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LockEvent {
    /// The lock was granted.
    #[non_exhaustive]
    Granted {
        /// Which lock.
        lock: LockName,
        /// From the request to the grant.
        waited: Duration,
        /// The fencing token, where it came with the grant.
        fencing_token: Option<FencingToken>,
    },
    /// A request for the lock ended without it.
    #[non_exhaustive]
    Refused {
        /// Which lock.
        lock: LockName,
        /// Why: another holder, a wait that was over, a store that failed.
        why: LockErrorKind,
        /// Whether the strategy decided to do without.
        skipped: bool,
        /// From the request to the refusal.
        waited: Duration,
        /// Who held it, where the store knows.
        holder: Option<OwnerRecord>,
    },
    /// The caller no longer wanted the lock: the future that asked for it was dropped.
    #[non_exhaustive]
    Cancelled {
        /// Which lock.
        lock: LockName,
        /// From the request to its end.
        waited: Duration,
    },
    /// The last guard is gone; the store is told, or was.
    #[non_exhaustive]
    Released {
        /// Which lock.
        lock: LockName,
        /// From the grant to here.
        held: Duration,
        /// The fencing token, if it was ever asked for.
        fencing_token: Option<FencingToken>,
    },
    /// A renewal was not answered; the lock is held yet, and lost after `left` unless one is.
    #[non_exhaustive]
    Endangered {
        /// Which lock.
        lock: LockName,
        /// What is left of the lease.
        left: Duration,
    },
    /// The lock is lost to its holder, by force ([`LossReason::Forced`]) or otherwise.
    #[non_exhaustive]
    Lost {
        /// Which lock.
        lock: LockName,
        /// Why.
        reason: LossReason,
        /// From the grant to here.
        held: Duration,
        /// The fencing token, if it was ever asked for.
        fencing_token: Option<FencingToken>,
    },
    /// The lock is held for longer than
    /// [`warn_held_after`](crate::ManagerBuilder::warn_held_after). Told once for each grant.
    #[non_exhaustive]
    HeldLong {
        /// Which lock.
        lock: LockName,
        /// From the grant to here.
        held: Duration,
    },
    /// A release did not go well: the store did not answer, or the lock was another's by then. An unanswered one goes on
    /// in the background.
    #[non_exhaustive]
    ReleaseFailed {
        /// Which lock.
        lock: LockName,
    },
    /// The store failed a request for the lock, which goes on waiting.
    #[non_exhaustive]
    StoreFailed {
        /// Which lock.
        lock: LockName,
        /// What the store, or the way to it, said.
        error: String,
    },
    /// Something ran without its lock, as it was told to do when the store fails.
    #[non_exhaustive]
    Bypassed {
        /// What the key is rendered from.
        template: Arc<str>,
    },
    /// The store has thrown keys away for lack of memory, and locks may be among them; a holder whose lock is gone is told
    /// by its next renewal.
    #[non_exhaustive]
    StoreEvicted {
        /// How many since it was last looked at. Locks need not be among them.
        keys: u64,
    },
    /// So many events were told before this one and are gone: the listener was too far behind.
    Missed(u64),
}
