//! The requests that leave in batches.
//!
//! They have no `Debug`, because they contain the secret token of their owner.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::Claim;
use crate::key::Key;
use crate::owner::Owner;

/// A claim of one lock that needs nothing but a free key.
pub(super) struct Plain {
    pub(super) key: Key,
    pub(super) value: Arc<str>,
    pub(super) ttl: Duration,
}

impl Plain {
    pub(super) fn of(claim: &Claim) -> Self {
        Self { key: claim.key.clone(), value: claim.value(), ttl: claim.ttl }
    }
}

/// The release of one exclusive lock.
pub(super) struct Free {
    pub(super) key: Key,
    pub(super) owner: Owner,
}

impl Free {
    pub(super) fn of(claim: &Claim) -> Self {
        Self { key: claim.key.clone(), owner: claim.owner }
    }
}
