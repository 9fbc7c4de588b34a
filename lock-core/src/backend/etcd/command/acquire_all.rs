//! Acquiring several keys at once: all of them or none, in one transaction.

use super::secure::{Longer, Secured};
use crate::backend::etcd::error::Failure;
use crate::backend::etcd::fence;
use crate::backend::etcd::keyspace;
use crate::backend::etcd::ledger::{Held, Lease};
use crate::backend::etcd::line::{self, Entry, Line, NO_LEASE, Own};
use crate::backend::etcd::proto::{Compare, PutRequest, RequestOp, TxnRequest};
use crate::backend::etcd::store::{OPS, Store, now};
use crate::backend::{Attempt, Claim, Grant};
use crate::error::LockErrorKind;
use crate::key::Key;

/// What the lines of the keys say about a claim for all of them.
enum Found<'s> {
    /// Another owner has this one, or waits for it: its place among the keys of the claim.
    Held(usize, &'s Line),
    /// The owner has them all, bound to one lease.
    Ours(Vec<&'s Entry>),
    /// They can be taken. Where the owner has a key already, its entry.
    Free(Vec<Option<&'s Entry>>),
}

impl Store {
    /// Attempts a claim of several keys once. It is not queued: it would wait for one key while it holds another.
    pub(in super::super) async fn acquire_all(&self, claim: &Claim) -> Result<Attempt, Failure> {
        if claim.keys().count() > OPS {
            let text = format!("a claim has {OPS} keys at most: one transaction takes them");
            return Err(Failure::new(LockErrorKind::InvalidRequest, text));
        }
        loop {
            let own = self.own(claim);
            let sent = now();
            let lines = self.read_all(claim.keys()).await?;
            if let Some(text) = lines.iter().find_map(|line| line.conflict(claim.mode)) {
                return Err(Failure::new(LockErrorKind::InvalidRequest, text));
            }
            let granted = match find(&own, &lines) {
                Found::Held(at, line) => {
                    let held = line.held(claim, None, None);
                    let key = claim.keys().nth(at).unwrap_or(&claim.key);
                    return Ok(Attempt::Held(held.on_key(claim, key)));
                }
                Found::Ours(entries) => {
                    claim.mark_sent();
                    match self.secure(&entries, claim.ttl, sent, Longer::Fresh).await? {
                        Secured::Held { granted, lease } => Some((granted, lease)),
                        Secured::Changed | Secured::Over => None,
                    }
                }
                Found::Free(entries) => self.take_all(claim, &own, &entries).await?,
            };
            if let Some((granted, lease)) = granted {
                let token = fence::token(claim, granted);
                let length = self.relied_on(lease.ttl, claim.ttl);
                return Ok(Attempt::Granted(Grant::new(lease.sent, length).with_fence(token)));
            }
        }
    }

    /// Binds all keys to one lease. Returns the revision at which that was done, and the lease; `None` when something has
    /// changed meanwhile.
    async fn take_all(
        &self,
        claim: &Claim,
        own: &[Own],
        entries: &[Option<&Entry>],
    ) -> Result<Option<(i64, Lease)>, Failure> {
        claim.mark_sent();
        let pages: Vec<Vec<u8>> = own.iter().map(|own| own.page.clone()).collect();
        let lease = self.grant(&pages, claim.ttl).await?;
        let name = |(page, entry): (&Vec<u8>, &Option<&Entry>)| match entry {
            Some(entry) => entry.stored.clone(),
            None => self.ledger.stored(page).unwrap_or_else(|| keyspace::new_entry(keyspace::line_of(page))),
        };
        let stored: Vec<Vec<u8>> = pages.iter().zip(entries).map(name).collect();
        let mut txn = TxnRequest::default();
        for ((key, stored), entry) in claim.keys().zip(&stored).zip(entries) {
            txn.compare.push(unchanged(key, *entry));
            let value = line::value(claim, claim.mode, false);
            let put = PutRequest { key: stored.clone(), value, lease: lease.id, ..PutRequest::default() };
            txn.success.push(RequestOp::from(put));
        }
        for (page, stored) in pages.iter().zip(&stored) {
            self.ledger.begin_bind(page, stored, lease.id);
        }
        let answer = match self.txn(txn).await {
            Ok(answer) => {
                pages.iter().for_each(|page| self.ledger.bound(page, lease.id));
                answer
            }
            Err(failure) => {
                // It may have been executed. The end of the lease takes back what it would have taken, but a key that
                // the owner had before may be bound to that lease too: then both leases stay in the ledger, until the
                // next renewal or the release.
                if entries.iter().all(Option::is_none) {
                    let _ = self.revoke(&pages, lease.id).await;
                }
                return Err(failure);
            }
        };
        if !answer.succeeded {
            self.revoke(&pages, lease.id).await?;
            return Ok(None);
        }
        let granted = answer.revision();
        for ((page, stored), entry) in pages.iter().zip(&stored).zip(entries) {
            if let Some(entry) = entry {
                // The key is bound to the new lease; the old one ends by itself.
                self.ledger.revoked(page, entry.lease);
            }
            let created = entry.map_or(granted, |entry| entry.created);
            self.ledger.hold(page, stored, Held { created, granted, lease });
        }
        Ok(Some((granted, lease)))
    }
}

/// The condition that nobody else has come for a key, or that its entry is as it was.
fn unchanged(key: &Key, entry: Option<&Entry>) -> Compare {
    match entry {
        Some(entry) => entry.unchanged(),
        None => {
            let (from, to) = keyspace::line(key);
            Compare::none_created_since(from, to, 1)
        }
    }
}

/// Returns whether the entry is one of several keys that were taken with a lease.
fn is_of(entry: &Entry, lease: i64) -> bool {
    entry.several && entry.lease == lease && lease != NO_LEASE
}

fn find<'s>(claimed: &[Own], lines: &'s [Line]) -> Found<'s> {
    let mut own = Vec::with_capacity(claimed.len());
    for (at, (claimed, line)) in claimed.iter().zip(lines).enumerate() {
        let holder = line.place(claimed).and_then(|place| line.holder(place));
        if holder.is_none() && !line.entries.is_empty() {
            return Found::Held(at, line);
        }
        own.push(holder);
    }
    let all: Option<Vec<&Entry>> = own.iter().copied().collect();
    match all {
        Some(all) if all.iter().all(|entry| is_of(entry, all[0].lease)) => Found::Ours(all),
        _ => Found::Free(own),
    }
}
