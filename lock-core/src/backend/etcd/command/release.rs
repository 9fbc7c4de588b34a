//! Releases: of a grant, and of a place in the line.

use std::time::Duration;

use crate::backend::etcd::error::{Failure, Reaction};
use crate::backend::etcd::keyspace;
use crate::backend::etcd::ledger::Lease;
use crate::backend::etcd::line::{self, Entry, Line, NO_LEASE};
use crate::backend::etcd::proto::{Compare, DeleteRangeRequest, PutRequest, RequestOp, TxnRequest};
use crate::backend::etcd::store::{Store, now};
use crate::backend::remote::join_all;
use crate::backend::{BoxFuture, Claim, Released};

impl Store {
    /// Frees what the owner has, and whatever a request of it that is still under way could get: the leases that it
    /// asked for are revoked, and nothing can be bound to them any more.
    pub(in super::super) async fn release(
        &self,
        claim: &Claim,
        keep_for: Option<Duration>,
    ) -> Result<Released, Failure> {
        let stored: Vec<Vec<u8>> = claim.keys().map(|key| keyspace::entry(key, claim.owner)).collect();
        loop {
            let lines = self.read_all(claim.keys()).await?;
            let entry = |at: usize| lines[at].place(&stored[at]).map(|place| &lines[at].entries[place]);
            let (kept, own): (Vec<&Entry>, Vec<&Entry>) =
                (0..stored.len()).filter_map(entry).partition(|entry| entry.kept);
            let had = is_held(&stored, &lines);
            let keep = keep_for.filter(|keep| had && !keep.is_zero());
            let is_part = claim.more.is_empty() && own.iter().any(|entry| entry.several);
            let done = match keep {
                Some(keep) => self.keep(claim, &own, keep).await?,
                None if is_part => self.delete(&own).await?,
                None => self.delete_unbound(&own).await?,
            };
            if !done {
                continue;
            }
            let bound = own.iter().map(|entry| entry.lease).filter(|_| keep.is_none() && !is_part);
            self.revoke_all(&stored, bound, is_part).await?;
            if keep_for.is_some() && own.is_empty() && kept.is_empty() {
                // Its entries have gone, so nothing can be bound any more to the lease that was to keep them.
                self.revoke(&[], keyspace::keeping_lease(claim.owner)).await?;
            }
            // A release that is repeated finds what the first one has kept.
            let is_released = had || kept.len() == stored.len();
            return Ok(if is_released { Released::Released } else { missing(claim, &stored, &lines) });
        }
    }

    /// Revokes the leases that entries are bound to, and all others that were asked for.
    async fn revoke_all(
        &self,
        stored: &[Vec<u8>],
        bound: impl Iterator<Item = i64>,
        is_part: bool,
    ) -> Result<(), Failure> {
        let mut ids: Vec<i64> = bound.filter(|id| *id != NO_LEASE).collect();
        if !is_part {
            ids.extend(stored.iter().flat_map(|stored| self.ledger.ids(stored)));
        }
        ids.sort_unstable();
        ids.dedup();
        let revoked = ids.into_iter().map(|id| -> BoxFuture<'_, _> { Box::pin(self.revoke(stored, id)) });
        for revoked in join_all(revoked.collect()).await {
            revoked?;
        }
        stored.iter().for_each(|stored| self.ledger.forget(stored));
        Ok(())
    }

    /// Binds the entries to a lease of their own that nobody renews. Returns whether they were still there.
    async fn keep(&self, claim: &Claim, own: &[&Entry], keep: Duration) -> Result<bool, Failure> {
        // Not in the ledger: no release may end it. One for all tries, so that those without an answer leave no leases
        // behind. Where it exists already, it was asked for earlier, and for so much longer.
        let id = keyspace::keeping_lease(claim.owner);
        match self.grant_as(Lease { id, ttl: keep, sent: now() }).await {
            Err(failure) if failure.reaction != Reaction::LeaseExists => return Err(failure),
            _ => {}
        }
        let mut txn = TxnRequest::default();
        for entry in own {
            txn.compare.push(entry.unchanged());
            let value = line::value(claim, entry.mode, true);
            let put = PutRequest { key: entry.stored.clone(), value, lease: id, ..PutRequest::default() };
            txn.success.push(RequestOp::from(put));
        }
        Ok(self.txn(txn).await?.succeeded)
    }

    /// Deletes entries that no lease ends: another program has written them. Returns whether they were still there.
    async fn delete_unbound(&self, own: &[&Entry]) -> Result<bool, Failure> {
        let unbound: Vec<&Entry> = own.iter().copied().filter(|entry| entry.lease == NO_LEASE).collect();
        if unbound.is_empty() { Ok(true) } else { self.delete(&unbound).await }
    }

    /// Deletes entries, and leaves their lease to the other keys that it has. Returns whether they were still there.
    pub(in super::super) async fn delete(&self, entries: &[&Entry]) -> Result<bool, Failure> {
        let mut txn = TxnRequest::default();
        for entry in entries {
            txn.compare.push(Compare::created_at(entry.stored.clone(), entry.created));
            txn.success.push(RequestOp::from(DeleteRangeRequest { key: entry.stored.clone() }));
        }
        Ok(self.txn(txn).await?.succeeded)
    }
}

/// Returns whether the owner holds all its keys.
fn is_held(stored: &[Vec<u8>], lines: &[Line]) -> bool {
    let holds = |(stored, line): (&Vec<u8>, &Line)| {
        line.place(stored).is_some_and(|place| line.holder(place).is_some())
    };
    stored.iter().zip(lines).all(holds)
}

/// Returns what to say of a grant that is not there: whether somebody else has a key by now.
fn missing(claim: &Claim, stored: &[Vec<u8>], lines: &[Line]) -> Released {
    let taken = |(stored, line): (&Vec<u8>, &Line)| {
        let mut others = line.clone();
        others.entries.retain(|entry| entry.stored != *stored || entry.kept);
        !others.admits(claim.mode)
    };
    if stored.iter().zip(lines).any(taken) { Released::Taken } else { Released::Expired }
}
