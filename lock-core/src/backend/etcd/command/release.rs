//! Releases a grant, or removes a waiting claim from the queue.

use std::time::Duration;

use crate::backend::etcd::entries::Mine;
use crate::backend::etcd::error::{Failure, Reaction};
use crate::backend::etcd::keyspace;
use crate::backend::etcd::line::{self, Entry, Line};
use crate::backend::etcd::proto::{Compare, DeleteRangeRequest, PutRequest, RequestOp, TxnRequest};
use crate::backend::etcd::session::UnderWay;
use crate::backend::etcd::store::{self, Store, reads};
use crate::backend::{Claim, Released};

impl Store {
    /// Releases the grant of the owner, or removes its entry from the queue. If a late request of the owner still
    /// creates an entry, the entry does not last: its session is retired, or this call revokes its separate lease.
    pub(in super::super) async fn release(
        &self,
        claim: &Claim,
        keep_for: Option<Duration>,
    ) -> Result<Released, Failure> {
        let ids = Self::ids(claim);
        let known: Vec<Option<Mine>> = ids.iter().map(|id| self.entries.get(id)).collect();
        let sessions = known.iter().flatten().filter_map(|mine| mine.lease.session());
        let under_way: Vec<UnderWay<'_>> =
            sessions.map(|session| UnderWay::begin(Some(session.as_ref()))).collect();
        let released = match (known.iter().cloned().collect::<Option<Vec<Mine>>>(), keep_for) {
            (Some(mine), None) if mine.iter().all(|mine| mine.created.is_some()) => {
                match self.delete_known(claim, &mine).await? {
                    Some(released) => released,
                    None => self.release_seen(claim, &known, keep_for).await?,
                }
            }
            _ => self.release_seen(claim, &known, keep_for).await?,
        };
        self.revoke_own_leases(&known).await?;
        under_way.into_iter().for_each(UnderWay::answered);
        ids.iter().for_each(|id| drop(self.entries.remove(id)));
        self.end_retired();
        Ok(released)
    }

    async fn revoke_own_leases(&self, known: &[Option<Mine>]) -> Result<(), Failure> {
        let mut leases: Vec<i64> = known.iter().flatten().flat_map(|mine| mine.own_leases.clone()).collect();
        leases.sort_unstable();
        leases.dedup();
        for lease in leases {
            self.revoke(lease).await?;
        }
        Ok(())
    }

    /// Deletes recorded entries in one request. Returns `None` if one of them no longer exists.
    async fn delete_known(&self, claim: &Claim, mine: &[Mine]) -> Result<Option<Released>, Failure> {
        let mut txn = TxnRequest::default();
        let holds = mine.iter().all(|mine| mine.holds);
        if !holds {
            txn.success.extend(claim.keys().map(reads));
        }
        for mine in mine {
            txn.compare.push(Compare::created_at(mine.stored.clone(), mine.created.unwrap_or_default()));
            txn.success.push(RequestOp::from(DeleteRangeRequest { key: mine.stored.clone() }));
        }
        let answer = self.txn(txn).await?;
        if !answer.succeeded {
            return Ok(None);
        }
        if holds {
            return Ok(Some(Released::Released));
        }
        let (revision, mut ranges) = (answer.revision(), answer.ranges());
        let lines = mine.iter().map(|_| store::line(&mut ranges, revision));
        let lines = lines.collect::<Result<Vec<Line>, Failure>>()?;
        Ok(Some(if is_held(claim, &lines) { Released::Released } else { missing(claim, &lines) }))
    }

    /// Reads the entries of the owner. Deletes them, or keeps them for the time `keep_for`.
    async fn release_seen(
        &self,
        claim: &Claim,
        known: &[Option<Mine>],
        keep_for: Option<Duration>,
    ) -> Result<Released, Failure> {
        loop {
            let lines = self.read_all(claim.keys()).await?;
            let all = lines.iter().zip(known).flat_map(|(line, mine)| {
                line.queue.entries().iter().filter(move |entry| is_of(entry, claim, mine.as_ref()))
            });
            let (kept, own): (Vec<&Entry>, Vec<&Entry>) = all.partition(|entry| entry.kept);
            let had = is_held(claim, &lines);
            let keep = keep_for.filter(|keep| had && !keep.is_zero());
            let done = match keep {
                Some(keep) => self.keep_key(claim, &own, keep).await?,
                None if own.is_empty() => true,
                None => self.delete(&own).await?,
            };
            if !done {
                continue;
            }
            if keep_for.is_some() && own.is_empty() && kept.is_empty() {
                // The entries no longer exist, so none can be bound to the lease that was meant to keep the key locked.
                self.revoke(keyspace::keeping_lease(claim.owner)).await?;
            }
            // A repeated release finds the entries that the first release has kept.
            let is_released = had || kept.len() == lines.len();
            return Ok(if is_released { Released::Released } else { missing(claim, &lines) });
        }
    }

    /// Keeps the keys locked for `keep`: binds the entries to a separate lease that is not renewed. Returns `false` if
    /// an entry has changed.
    async fn keep_key(&self, claim: &Claim, own: &[&Entry], keep: Duration) -> Result<bool, Failure> {
        // All tries use the same lease, so that unanswered tries leave no further leases. If the lease already exists,
        // an earlier try has requested it. That lease is longer, because more of the `min_hold` was left then.
        let id = keyspace::keeping_lease(claim.owner);
        match self.grant_as(id, keep).await {
            Err(failure) if failure.reaction != Reaction::LeaseExists => return Err(failure),
            _ => {}
        }
        let mut txn = TxnRequest::default();
        for entry in own {
            txn.compare.push(entry.unchanged());
            let value = line::value(claim, entry.mode, entry.granted, true);
            let put = PutRequest { key: entry.stored.clone(), value, lease: id, ..PutRequest::default() };
            txn.success.push(RequestOp::from(put));
        }
        Ok(self.txn(txn).await?.succeeded)
    }

    /// Deletes entries. Returns whether they still existed.
    pub(in super::super) async fn delete(&self, entries: &[&Entry]) -> Result<bool, Failure> {
        let mut txn = TxnRequest::default();
        for entry in entries {
            txn.compare.push(Compare::created_at(entry.stored.clone(), entry.created));
            txn.success.push(RequestOp::from(DeleteRangeRequest { key: entry.stored.clone() }));
        }
        Ok(self.txn(txn).await?.succeeded)
    }
}

/// Returns whether an entry belongs to the claim, even if another program has overwritten its value.
fn is_of(entry: &Entry, claim: &Claim, mine: Option<&Mine>) -> bool {
    let overwritten = |mine: &Mine| mine.stored == entry.stored && mine.created == Some(entry.created);
    entry.owner == Some(claim.owner) || entry.owner.is_none() && mine.is_some_and(overwritten)
}

fn is_held(claim: &Claim, lines: &[Line]) -> bool {
    lines.iter().all(|line| line.held_by(claim.owner).is_some())
}

/// Returns the answer for a missing grant: `Taken` if another owner has one of the keys, otherwise `Expired`.
fn missing(claim: &Claim, lines: &[Line]) -> Released {
    let taken = |line: &Line| {
        let mut others = line.queue.clone();
        others.entries_mut().retain(|entry| entry.owner != Some(claim.owner) || entry.kept);
        !others.admits(claim.mode)
    };
    if lines.iter().any(taken) { Released::Taken } else { Released::Expired }
}
