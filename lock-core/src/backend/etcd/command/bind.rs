//! Binds the entries of a claim to a lease.

use crate::backend::Claim;
use crate::backend::etcd::entries::{Id, Lease, Mine, Told};
use crate::backend::etcd::error::{Failure, Reaction};
use crate::backend::etcd::line::{self, Line};
use crate::backend::etcd::proto::{Compare, PutRequest, RequestOp, TxnRequest};
use crate::backend::etcd::session::now;
use crate::backend::etcd::store::Store;
use crate::key::Key;
use std::time::Duration;

impl Store {
    /// Returns the ids of the entries of a claim, one for each of its keys.
    pub(in super::super) fn ids(claim: &Claim) -> Vec<Id> {
        claim.keys().map(|key: &Key| Id::new(key, claim.owner)).collect()
    }

    /// Returns a lease for a lock of `ttl`: the lease of the session, or a separate lease if the lock is not renewed.
    pub(in super::super) async fn lease_for(&self, claim: &Claim, ttl: Duration) -> Result<Lease, Failure> {
        if claim.renews {
            return self.session(ttl).await.map(Lease::Shared);
        }
        let (id, ttl, sent) = self.grant(ttl).await?;
        Ok(Lease::Own { id, ttl, sent })
    }

    /// Binds entries to a lease in one transaction. If the `claim` is given, also writes the time of the grant into the
    /// values that do not contain it. Returns the revision of the transaction, or `None` if an entry was written or
    /// deleted since it was read, or the lease is over.
    ///
    /// If the answer is lost, the entries may be bound to the old or to the new lease, so both leases stay in use. The
    /// entries are written again before the claim relies on either lease. After that write, the late request has no
    /// effect.
    pub(in super::super) async fn bind(
        &self,
        ids: &[Id],
        mine: &[Mine],
        lease: &Lease,
        claim: Option<&Claim>,
    ) -> Result<Option<i64>, Failure> {
        for id in ids {
            self.entries.change(id, |mine| {
                mine.maybe.push(lease.id());
                mine.own_leases.extend(lease.session().is_none().then(|| lease.id()));
            });
        }
        // From here on, this process does not end the session, because the entries record its lease. If the session is
        // already over, binding the entries to it would delete them together with the session.
        if lease.session().is_some_and(|session| session.is_over()) {
            self.not_moved(ids, lease);
            return Ok(None);
        }
        let put = |mine: &Mine| {
            let value = claim.filter(|_| mine.told != Told::Done);
            let value = value.map(|claim| line::value(claim, claim.mode, mine.told.due(), false));
            PutRequest {
                lease: lease.id(),
                ignore_value: value.is_none(),
                value: value.unwrap_or_default(),
                ..PutRequest::new(&mine.stored)
            }
        };
        let answer = match self.txn(rewriting(mine, put)).await {
            Err(failure) if failure.is_in_doubt() => return Err(failure),
            answer => answer,
        };
        if !answer.as_ref().is_ok_and(|answer| answer.succeeded) {
            self.not_moved(ids, lease);
        }
        match answer {
            Ok(answer) if answer.succeeded => {
                let revision = answer.revision();
                for (id, written) in ids.iter().zip(mine) {
                    self.entries.change(id, |mine| {
                        (mine.lease, mine.modified, mine.bound) = (lease.clone(), revision, now());
                        mine.maybe.clear();
                        if claim.is_some() && written.told.due().is_some() {
                            mine.told = Told::Done;
                        }
                    });
                }
                self.end_retired();
                // If the session was ended during the request, the entries were deleted with it.
                let is_over = lease.session().is_some_and(|session| session.is_over());
                return Ok((!is_over).then_some(revision));
            }
            Ok(_) => {}
            Err(failure) if failure.reaction == Reaction::NoLease => {
                if let Some(session) = lease.session() {
                    self.session_lost(session);
                }
            }
            Err(failure) => return Err(failure),
        }
        Ok(None)
    }

    /// Records that a request has not bound the entries to `lease`.
    pub(in super::super) fn not_moved(&self, ids: &[Id], lease: &Lease) {
        ids.iter().for_each(|id| self.entries.change(id, |mine| mine.is_not_on(lease.id())));
    }

    /// Writes entries again, unchanged. Returns the revision of the write, or `None` if an entry has changed.
    pub(in super::super) async fn touch(&self, ids: &[Id], mine: &[Mine]) -> Result<Option<i64>, Failure> {
        let put = |mine: &Mine| PutRequest {
            ignore_value: true,
            ignore_lease: true,
            ..PutRequest::new(&mine.stored)
        };
        let answer = self.txn(rewriting(mine, put)).await?;
        let revision = answer.succeeded.then(|| answer.revision());
        for (id, revision) in ids.iter().zip(std::iter::repeat(revision)) {
            self.entries.change(id, |mine| mine.modified = revision.unwrap_or(mine.modified));
        }
        Ok(revision)
    }

    /// Writes the time of the grant into entries, in the background. A renewal that keeps the entries on their lease
    /// does not wait for this write, and succeeds even if the write fails.
    pub(in super::super) fn tell(&self, claim: &Claim, mine: &[Mine]) {
        let all = Self::ids(claim).into_iter().zip(mine.iter().cloned());
        let (ids, due): (Vec<Id>, Vec<Mine>) = all.filter(|(_, mine)| mine.told.due().is_some()).unzip();
        if due.is_empty() {
            return;
        }
        ids.iter().for_each(|id| self.entries.change(id, |mine| mine.told = Told::Done));
        let txn = rewriting(&due, |mine| PutRequest {
            value: line::value(claim, claim.mode, mine.told.due(), false),
            ignore_lease: true,
            ..PutRequest::new(&mine.stored)
        });
        self.spawn(|store| async move {
            let Ok(answer) = store.txn(txn).await else { return };
            let revision = if answer.succeeded { answer.revision() } else { 0 };
            // A later write may have been answered first, so the larger revision is kept.
            ids.iter().for_each(|id| {
                store.entries.change(id, |mine| mine.modified = mine.modified.max(revision));
            });
        });
    }

    /// Records the entries of a claim, as they were read in `lines`, and returns their states. Returns `None` if the
    /// claim does not hold all its keys.
    pub(in super::super) fn held_in(&self, claim: &Claim, ids: &[Id], lines: &[Line]) -> Option<Vec<Mine>> {
        let held = ids.iter().zip(lines).map(|(id, line)| {
            let entry = line.held_by(claim.owner)?;
            Some(self.entries.note(id, entry))
        });
        held.collect()
    }
}

/// Returns a transaction that writes entries if they have not changed since they were read. The transaction compares
/// the revision of the last change, not the revision of the creation, because a late transaction must not undo a later
/// write.
fn rewriting(mine: &[Mine], put: impl Fn(&Mine) -> PutRequest) -> TxnRequest {
    TxnRequest {
        compare: mine.iter().map(|mine| Compare::modified_at(mine.stored.clone(), mine.modified)).collect(),
        success: mine.iter().map(|mine| RequestOp::from(put(mine))).collect(),
        failure: Vec::new(),
    }
}
