//! Releases: of a grant, and of a place in the line.

use std::time::Duration;

use crate::backend::etcd::error::{Failure, Reaction};
use crate::backend::etcd::keyspace;
use crate::backend::etcd::ledger::{Lease, Leaving};
use crate::backend::etcd::line::{self, Entry, Line, NO_LEASE, Own};
use crate::backend::etcd::proto::{Compare, DeleteRangeRequest, PutRequest, RequestOp, TxnRequest};
use crate::backend::etcd::store::{self, Store, now, reads};
use crate::backend::remote::join_all;
use crate::backend::{BoxFuture, Claim, Released};

impl Store {
    /// Frees what the owner has, and whatever a request of it that is still under way could get: the leases that it
    /// asked for are revoked, and nothing can be bound to them any more. Where no request is under way, the lease is left
    /// to the next claim instead.
    pub(in super::super) async fn release(
        &self,
        claim: &Claim,
        keep_for: Option<Duration>,
    ) -> Result<Released, Failure> {
        let claimed = self.own(claim);
        if claim.renews
            && keep_for.is_none()
            && let [own] = &claimed[..]
            && let Some(released) = self.release_and_leave(claim, own).await?
        {
            return Ok(released);
        }
        claimed.iter().for_each(|own| self.ledger.doubt(&own.page));
        loop {
            let lines = self.read_all(claim.keys()).await?;
            let entry = |at: usize| lines[at].place(&claimed[at]).map(|place| &lines[at].entries[place]);
            let (kept, own): (Vec<&Entry>, Vec<&Entry>) =
                (0..claimed.len()).filter_map(entry).partition(|entry| entry.kept);
            let had = is_held(&claimed, &lines);
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
            let bound = own.iter().filter(|entry| entry.owner.is_some() && keep.is_none() && !is_part);
            let bound = bound.map(|entry| entry.lease);
            let pages: Vec<Vec<u8>> = claimed.iter().map(|own| own.page.clone()).collect();
            let names = match keep.is_none() && !is_part && kept.is_empty() {
                true => pages.iter().filter_map(|page| self.ledger.name_to_leave(page)).collect(),
                false => Vec::new(),
            };
            self.revoke_all(&pages, bound, is_part).await?;
            names.into_iter().for_each(|name| self.ledger.leave_name(name));
            if keep_for.is_some() && own.is_empty() && kept.is_empty() {
                // Its entries have gone, so nothing can be bound any more to the lease that was to keep them.
                self.revoke(&[], keyspace::keeping_lease(claim.owner)).await?;
            }
            // A release that is repeated finds what the first one has kept.
            let is_released = had || kept.len() == claimed.len();
            return Ok(if is_released { Released::Released } else { missing(claim, &claimed, &lines) });
        }
    }

    /// Deletes the entry of a claim that is certain to have one lease, and leaves the lease to the next claim. Returns
    /// `None` where nothing is certain, or the entry is not what is known of it.
    async fn release_and_leave(&self, claim: &Claim, own: &Own) -> Result<Option<Released>, Failure> {
        let Own { page, stored: Some(stored) } = own else { return Ok(None) };
        let Some(leaving) = self.ledger.begin_leave(page, now()) else { return Ok(None) };
        let answer = self.txn(deletion(claim, stored, leaving)).await?;
        if !answer.succeeded {
            return Ok(None);
        }
        let released = match leaving.created {
            Some(_) => Released::Released,
            None => {
                let revision = answer.revision();
                let lines = [store::line(&mut answer.ranges(), revision)?];
                let own = std::slice::from_ref(own);
                if is_held(own, &lines) { Released::Released } else { missing(claim, own, &lines) }
            }
        };
        if !self.ledger.end_leave(page, leaving.lease, now()) {
            let name = self.ledger.name_to_leave(page);
            self.revoke_all(std::slice::from_ref(page), std::iter::once(leaving.lease), false).await?;
            name.into_iter().for_each(|name| self.ledger.leave_name(name));
        }
        Ok(Some(released))
    }

    /// Revokes the leases that entries are bound to, and all others that were asked for.
    async fn revoke_all(
        &self,
        own: &[Vec<u8>],
        bound: impl Iterator<Item = i64>,
        is_part: bool,
    ) -> Result<(), Failure> {
        let mut ids: Vec<i64> = bound.filter(|id| *id != NO_LEASE).collect();
        if !is_part {
            ids.extend(own.iter().flat_map(|own| self.ledger.ids(own)));
        }
        ids.sort_unstable();
        ids.dedup();
        let revoked = ids.into_iter().map(|id| -> BoxFuture<'_, _> { Box::pin(self.revoke(own, id)) });
        for revoked in join_all(revoked.collect()).await {
            revoked?;
        }
        own.iter().for_each(|own| self.ledger.forget(own));
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

    /// Deletes entries that no lease of theirs ends: another program has written them. Returns whether they were still
    /// there.
    async fn delete_unbound(&self, own: &[&Entry]) -> Result<bool, Failure> {
        let is_unbound = |entry: &Entry| {
            entry.lease == NO_LEASE
                || entry.owner.is_none()
                || self.ledger.is_elsewhere(&entry.page, entry.lease)
        };
        let unbound: Vec<&Entry> = own.iter().copied().filter(|entry| is_unbound(entry)).collect();
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

/// Returns a transaction that deletes an entry if it is bound to the lease that is known. An entry that was created at the
/// known revision holds the key until it is gone; of any other, the line says what it was.
fn deletion(claim: &Claim, stored: &[u8], leaving: Leaving) -> TxnRequest {
    let mut txn = TxnRequest::default();
    txn.compare.push(Compare::bound_to(stored.to_vec(), leaving.lease));
    match leaving.created {
        Some(created) => txn.compare.push(Compare::created_at(stored.to_vec(), created)),
        None => txn.success.push(reads(&claim.key)),
    }
    txn.success.push(RequestOp::from(DeleteRangeRequest { key: stored.to_vec() }));
    txn
}

/// Returns whether the owner holds all its keys.
fn is_held(own: &[Own], lines: &[Line]) -> bool {
    let holds =
        |(own, line): (&Own, &Line)| line.place(own).is_some_and(|place| line.holder(place).is_some());
    own.iter().zip(lines).all(holds)
}

/// Returns what to say of a grant that is not there: whether somebody else has a key by now.
fn missing(claim: &Claim, own: &[Own], lines: &[Line]) -> Released {
    let taken = |(own, line): (&Own, &Line)| {
        let mut others = line.clone();
        others.entries.retain(|entry| !own.is(entry) || entry.kept);
        !others.admits(claim.mode)
    };
    if own.iter().zip(lines).any(taken) { Released::Taken } else { Released::Expired }
}
