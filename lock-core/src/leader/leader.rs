//! Defines [`Leader`], the current leader according to the store.

use std::fmt;
use std::time::Duration;

use super::candidate::{Term, Terms};
use crate::backend::{FencingToken, GrantId, LockInfo, Mode};
use crate::error::{LockError, LockErrorKind, Result};
use crate::owner::OwnerRecord;

/// The leader according to an answer of the store. The leader may have changed since then.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Leader {
    /// The id of the leader's grant. [`force_release`](crate::LockManager::force_release) with this id deposes the
    /// leader. Every new leader has a new id, except on a store without an order of arrival: there, candidates of one
    /// process may share an id.
    pub id: GrantId,
    /// The record of the leader: its process, its [label](super::LeaderElection::label), and the time at which it
    /// became a candidate. This is `None` if a client of another library holds the key.
    pub record: Option<OwnerRecord>,
    /// The rest of the leader's lease, or `None` if it does not expire. A live leader renews its lease.
    pub remaining: Option<Duration>,
    /// The fencing token, if this candidate leads. No store shows the token of another leader.
    pub fencing_token: Option<FencingToken>,
    /// Whether the leader is this candidate: the election whose method was called, or a clone of it.
    pub is_self: bool,
}

impl fmt::Display for Leader {
    /// Writes a text such as `web-3 pid 811 (shop, pay)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.record {
            Some(record) => record.fmt(f),
            None => f.write_str("a client of another library"),
        }
    }
}

/// Returns the leader, if there is one. `found` is the state of the key in the store, and `terms` are the terms of this
/// candidate.
///
/// A key that stays locked after its release has no leader.
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
