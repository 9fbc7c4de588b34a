//! Who leads, made from what the store says.

use std::fmt;
use std::time::Duration;

use super::candidate::{Term, Terms};
use crate::backend::{FencingToken, GrantId, LockInfo, Mode};
use crate::error::{LockError, LockErrorKind, Result};
use crate::owner::OwnerRecord;

/// Who leads, as the store said. It may have changed since.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Leader {
    /// The name of its grant, with which [`force_release`](crate::LockManager::force_release) deposes it. Every new
    /// leader has another, except where a store without an order of arrival lets candidates of one process follow each
    /// other.
    pub id: GrantId,
    /// The process that leads, its [label](super::LeaderElection::label), and since when it has been a candidate; `None`
    /// where another library holds the key.
    pub record: Option<OwnerRecord>,
    /// What is left of its lease; `None` without an expiry. A live leader renews it.
    pub remaining: Option<Duration>,
    /// Its fencing token, if it is known here: that of this candidate. No store shows the token of another.
    pub fencing_token: Option<FencingToken>,
    /// Whether it is this candidate: the election that was asked, or a clone of it.
    pub is_self: bool,
}

impl fmt::Display for Leader {
    /// `web-3 pid 811 (shop, pay)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.record {
            Some(record) => record.fmt(f),
            None => f.write_str("a client of another library"),
        }
    }
}

/// Returns the leader where the store shows `found` for the key, and this candidate has had `terms`.
///
/// A key that is kept after its release has no leader.
pub(super) fn leader_of(found: Option<LockInfo>, terms: &Terms) -> Result<Option<Leader>> {
    let Some(found) = found else { return Ok(None) };
    if found.mode != Mode::Exclusive {
        let detail =
            format!("the key is in use as {}, and a leader needs a key of its own", found.mode.name());
        return Err(LockError::new(LockErrorKind::InvalidRequest, detail));
    }
    let holder = found.holders.into_iter().next().filter(|holder| !holder.kept);
    Ok(holder.map(|holder| {
        let own = terms.held().filter(|term| holder.record.as_ref().is_some_and(|record| term.is_of(record)));
        Leader {
            is_self: own.is_some(),
            fencing_token: own.map(|term: &Term| term.token),
            id: holder.id,
            record: holder.record,
            remaining: holder.remaining,
        }
    }))
}
