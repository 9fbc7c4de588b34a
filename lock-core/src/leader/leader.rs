//! The present leader, made from an answer of the store.

use std::fmt;
use std::time::Duration;

use super::candidate::{Term, Terms};
use crate::backend::{FencingToken, GrantId, LockInfo, Mode};
use crate::error::{LockError, LockErrorKind, Result};
use crate::owner::OwnerRecord;

/// The leader by an answer of the store. It may have changed since.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Leader {
    /// The name of its grant, with which [`force_release`](crate::LockManager::force_release) deposes it. Every new
    /// leader has another name, except over a store without an order of arrival, if the candidates are of one process.
    pub id: GrantId,
    /// The process that leads, its [label](super::LeaderElection::label), and since when it has been a candidate;
    /// `None` if another library holds the key.
    pub record: Option<OwnerRecord>,
    /// The rest of its lease; `None` without an expiry. A live leader renews it.
    pub remaining: Option<Duration>,
    /// Its fencing token, if this candidate leads. No store shows the token of another leader.
    pub fencing_token: Option<FencingToken>,
    /// Whether this candidate leads: the election that was called, or a clone of it.
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

/// Returns the leader, if the store shows `found` for the key, and this candidate has had `terms`.
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
