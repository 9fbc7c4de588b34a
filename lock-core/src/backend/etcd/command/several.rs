//! Acquires several keys at once: all of them or none, in one transaction.

use crate::backend::etcd::entries::{Id, Lease, Since, Told};
use crate::backend::etcd::error::{Failure, Reaction};
use crate::backend::etcd::fence;
use crate::backend::etcd::keyspace;
use crate::backend::etcd::line::{self, Entry, Line};
use crate::backend::etcd::proto::{Compare, PutRequest, RequestOp, TxnRequest};
use crate::backend::etcd::session::{UnderWay, now};
use crate::backend::etcd::store::{OPS, Store};
use crate::backend::{Attempt, Claim};
use crate::clock;
use crate::error::LockErrorKind;
use crate::key::Key;

impl Store {
    /// Makes one attempt at a claim of several keys. The claim is not queued, because a queued claim would wait for one
    /// key while it holds another.
    pub(in super::super) async fn acquire_all(&self, claim: &Claim) -> Result<Attempt, Failure> {
        if claim.keys().count() > OPS {
            let text = format!("a claim has {OPS} keys at most: one transaction takes them");
            return Err(Failure::new(LockErrorKind::InvalidRequest, text));
        }
        let ids = Self::ids(claim);
        loop {
            let began = now();
            let lines = self.read_all(claim.keys()).await?;
            let conflict = |(line, key): (&Line, _)| Some((line.conflict(claim.mode)?, key));
            if let Some((text, key)) = lines.iter().zip(claim.keys()).find_map(conflict) {
                return Err(Failure::new(LockErrorKind::InvalidRequest, text).on_key(key));
            }
            let own = match own_entries(claim, &lines) {
                Ok(own) => own,
                Err(at) => {
                    let held = lines[at].held(claim, None, None);
                    let key = claim.keys().nth(at).unwrap_or(&claim.key);
                    return Ok(Attempt::Held(held.on_key(claim, key)));
                }
            };
            claim.mark_sent();
            let lease = match self.common_lease(claim, &ids).await? {
                Some(lease) if own.iter().all(Option::is_some) => lease,
                _ => match self.take_all(claim, &ids, &own).await? {
                    Some(lease) => lease,
                    None => continue,
                },
            };
            let since = ids.first().and_then(|id| self.entries.get(id)).and_then(|mine| mine.since);
            let token = since.and_then(|since| fence::token(claim, since));
            return Ok(Attempt::Granted(self.grant_on(&lease, claim, began)?.with_fence(token)));
        }
    }

    /// Returns the common lease of the entries, if they hold all keys and share a fencing token and a lease on which
    /// the claim can rely. Otherwise returns `None`.
    async fn common_lease(&self, claim: &Claim, ids: &[Id]) -> Result<Option<Lease>, Failure> {
        let Some(mine) = self.entries.known(ids) else { return Ok(None) };
        let Some(first) = mine.first() else { return Ok(None) };
        let alike = mine.iter().all(|mine| {
            mine.holds
                && mine.is_certain()
                && mine.lease.id() == first.lease.id()
                && mine.since == first.since
        });
        let fits = match &first.lease {
            Lease::Shared(session) => claim.renews && !session.is_retired() && session.ttl >= claim.ttl,
            Lease::Own { ttl, .. } => !claim.renews && *ttl >= claim.ttl,
        };
        if !alike || !fits || first.since.is_none() {
            return Ok(None);
        }
        Ok(self.lives(&first.lease).await?.then(|| first.lease.clone()))
    }

    /// Binds the existing entries of all keys to one lease, and creates the missing entries. Returns the lease, or
    /// `None` if an entry has changed or the lease is over.
    async fn take_all(
        &self,
        claim: &Claim,
        ids: &[Id],
        own: &[Option<&Entry>],
    ) -> Result<Option<Lease>, Failure> {
        let lease = self.lease_for(claim, claim.ttl).await?;
        let (mut txn, granted) = (TxnRequest::default(), Some(clock::wall()));
        for ((key, id), entry) in claim.keys().zip(ids).zip(own) {
            let stored = match entry {
                Some(entry) => {
                    self.entries.note(id, entry);
                    self.entries.change(id, |mine| mine.maybe.push(lease.id()));
                    entry.stored.clone()
                }
                None => self.entries.begin(id, &lease, Told::Done, &[], now()),
            };
            if lease.session().is_none() {
                self.entries.change(id, |mine| mine.own_leases.push(lease.id()));
            }
            txn.compare.push(unchanged(key, *entry));
            let value = line::value(claim, claim.mode, granted, false);
            let put = PutRequest { key: stored, value, lease: lease.id(), ..PutRequest::default() };
            txn.success.push(RequestOp::from(put));
        }
        // From here on this process does not end the session, because the entries are recorded. If the process has
        // ended the session before, the revocation deletes the entries.
        if lease.session().is_some_and(|session| session.is_over()) {
            self.not_taken(ids, own, &lease);
            return Ok(None);
        }
        let under_way = UnderWay::begin(lease.session().map(AsRef::as_ref));
        let (answer, kept) = tokio::join!(self.txn(txn), self.lives(&lease));
        let answer = match answer {
            Err(failure) if failure.is_in_doubt() => return Err(failure),
            answer => answer,
        };
        under_way.answered();
        if let Ok(answer) = &answer
            && answer.succeeded
        {
            let is_sure = self.taken(ids, own, &lease, answer.revision());
            // If the session was ended during the request, the entries were deleted with it.
            let is_over = lease.session().is_some_and(|session| session.is_over());
            return Ok((kept.unwrap_or(true) && is_sure && !is_over).then_some(lease));
        }
        self.not_taken(ids, own, &lease);
        match lease.session() {
            // If this fails, the lease expires.
            None => drop(self.revoke(lease.id()).await),
            Some(session) if answer.as_ref().is_err_and(|failure| failure.reaction == Reaction::NoLease) => {
                self.session_lost(session);
                return Ok(None);
            }
            Some(_) => {}
        }
        answer.map(|_| None)
    }

    /// Records that the entries were not bound to `lease`, and that the missing entries were not created.
    fn not_taken(&self, ids: &[Id], own: &[Option<&Entry>], lease: &Lease) {
        self.not_moved(ids, lease);
        for (id, _) in ids.iter().zip(own).filter(|(_, entry)| entry.is_none()) {
            self.entries.remove(id);
        }
    }

    /// Records that the entries hold their keys. Returns `false` if an entry is gone, or was [marked as
    /// uncertain][doubted] after its creation was requested. An uncertain entry may be about to be deleted, so it must
    /// be written before the claim relies on it.
    ///
    /// [doubted]: crate::backend::etcd::entries::Entries::doubt_unasked
    fn taken(&self, ids: &[Id], own: &[Option<&Entry>], lease: &Lease, revision: i64) -> bool {
        let mut sure = 0;
        for (id, entry) in ids.iter().zip(own) {
            self.entries.change(id, |mine| {
                mine.created = mine.created.or(Some(revision));
                (mine.modified, mine.bound) = (revision, now());
                if entry.is_some() || mine.is_certain() {
                    mine.lease = lease.clone();
                    (mine.holds, mine.told) = (true, Told::Done);
                    mine.maybe.clear();
                    mine.since = Some(Since { revision, handoffs: 0 });
                    sure += 1;
                }
            });
        }
        sure == ids.len()
    }
}

/// Returns the condition for one key: the entry of the claim is unchanged or, if the claim has none, the key has no
/// entry.
fn unchanged(key: &Key, entry: Option<&Entry>) -> Compare {
    match entry {
        Some(entry) => entry.unchanged(),
        None => {
            let (from, to) = keyspace::line(key);
            Compare::none_created_since(from, to, 1)
        }
    }
}

/// Returns the claim's entry for each key that it holds, if the other keys are free. Otherwise returns the index of the
/// first key that is not free.
fn own_entries<'l>(claim: &Claim, lines: &'l [Line]) -> Result<Vec<Option<&'l Entry>>, usize> {
    let own = lines.iter().enumerate().map(|(at, line)| match line.held_by(claim.owner) {
        None if !line.queue.entries().is_empty() => Err(at),
        own => Ok(own),
    });
    own.collect()
}
