//! Giving entries that hold their keys a lease of the whole ttl.

use std::time::Duration;

use crate::backend::etcd::error::{Failure, Reaction};
use crate::backend::etcd::ledger::{Held, Lease};
use crate::backend::etcd::line::{Entry, NO_LEASE};
use crate::backend::etcd::proto::{PutRequest, RequestOp, TxnRequest};
use crate::backend::etcd::spare;
use crate::backend::etcd::store::{Store, now};
use crate::clock::Moment;

/// Where a longer lease comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Longer {
    /// It is asked for, and has its whole time.
    Fresh,
    /// One that a released lock has left, if there is one, of which some time may be over; and the lease before it is left
    /// to others. For a claim that is about to be granted, and renewed.
    Spare,
}

/// What came of an attempt to give entries a lease.
pub(in super::super) enum Secured {
    /// They hold their keys since the revision `granted`, and all have this lease.
    Held { granted: i64, lease: Lease },
    /// One of them was written or deleted since it was read: it must be read again.
    Changed,
    /// Their lease is over.
    Over,
}

impl Store {
    /// Makes the lease of the entries of one claim at least `ttl` long from now on, never shorter than before, and makes
    /// them the holders if nobody has noted yet that their turn has come. The entries were read after `sent`.
    /// A [spare](Longer::Spare) lease may have up to a quarter less.
    ///
    /// A lease of etcd has one length for life. A longer one is another lease, to which the entries are bound instead.
    /// A request for that which was not answered may yet arrive, and bind them to a lease that is nearly over. So where
    /// the ledger knows another lease of theirs, the entries are written again: what was sent before is void from then
    /// on, because it names an earlier revision, and the other leases can be revoked.
    pub(in super::super) async fn secure(
        &self,
        entries: &[&Entry],
        ttl: Duration,
        sent: Moment,
        longer: Longer,
    ) -> Result<Secured, Failure> {
        // Before the first request, so that none of them belongs to a call that reads what is written here.
        let (strays, known) = (self.strays(entries), self.known(entries));
        let (lease, written) = match (self.keep_long_enough(entries, ttl, sent).await?, known) {
            (Kept::Over, _) => return Ok(Secured::Over),
            (Kept::For(lease), Some(granted)) if strays.is_empty() => {
                return Ok(self.settled(entries, granted, lease));
            }
            (Kept::For(lease), _) => (lease, self.touch(entries).await?),
            (Kept::TooShort, _) => self.bind(entries, ttl, longer).await?,
        };
        let Some(revision) = written else { return Ok(Secured::Changed) };
        let granted = known.unwrap_or(revision);
        // First what they are bound to now: between the two steps, another call finds what it needs to know.
        self.holds(entries, granted, lease);
        for entry in entries.iter().filter(|entry| entry.lease != lease.id) {
            // Nothing is bound to it any more.
            match longer {
                Longer::Spare => self.ledger.leave_former(&entry.page, entry.lease, now()),
                // It ends by itself.
                Longer::Fresh => self.ledger.revoked(&entry.page, entry.lease),
            }
        }
        let own = pages(entries);
        for stray in strays {
            // One that is left stays in the ledger, for the next renewal.
            let _ = self.revoke(&own, stray).await;
        }
        Ok(Secured::Held { granted, lease })
    }

    /// Notes a sign of life of entries that nothing had to be written for, unless another call has got a lease meanwhile
    /// to which it binds them.
    fn settled(&self, entries: &[&Entry], granted: i64, lease: Lease) -> Secured {
        self.holds(entries, granted, lease);
        match entries.iter().all(|entry| self.ledger.is_settled(&entry.page, lease.id)) {
            true => Secured::Held { granted, lease },
            false => Secured::Changed,
        }
    }

    fn holds(&self, entries: &[&Entry], granted: i64, lease: Lease) {
        for entry in entries {
            self.ledger.hold(&entry.page, &entry.stored, Held { created: entry.created, granted, lease });
        }
    }

    /// Keeps the lease of entries alive, if they have one in common that is long enough.
    async fn keep_long_enough(
        &self,
        entries: &[&Entry],
        ttl: Duration,
        sent: Moment,
    ) -> Result<Kept, Failure> {
        let Some(id) = common_lease(entries) else { return Ok(Kept::TooShort) };
        if id == NO_LEASE {
            return Ok(Kept::Over);
        }
        let known = entries.first().and_then(|entry| self.ledger.lease(&entry.page, id));
        if known.is_some_and(|lease| lease.ttl < ttl) {
            return Ok(Kept::TooShort);
        }
        Ok(match self.keep_one_alive(id).await? {
            None => Kept::Over,
            Some(given) if given >= ttl => Kept::For(Lease { id, ttl: given, sent }),
            Some(_) => Kept::TooShort,
        })
    }

    /// Binds entries to a new lease. Returns it, and the revision at which that was done, `None` when one of them has
    /// changed.
    async fn bind(
        &self,
        entries: &[&Entry],
        ttl: Duration,
        longer: Longer,
    ) -> Result<(Lease, Option<i64>), Failure> {
        let own = pages(entries);
        let spare = if longer == Longer::Spare { self.take_instead(&own, ttl) } else { None };
        let longer = match spare {
            Some(spare) => spare,
            None => self.grant(&own, ttl).await?,
        };
        let longer = self.outlasting(entries, longer).await?;
        let put = |entry: &Entry| PutRequest {
            lease: longer.id,
            ignore_value: true,
            ..PutRequest::of(&entry.stored)
        };
        for entry in entries {
            self.ledger.begin_bind(&entry.page, &entry.stored, longer.id);
        }
        let answer = match self.txn(rewriting(entries, put)).await {
            Err(failure) if failure.reaction == Reaction::NoLease && spare.is_some() => {
                own.iter().for_each(|own| self.ledger.lapsed(own, longer.id));
                return Ok((longer, None));
            }
            answer => answer?,
        };
        own.iter().for_each(|own| self.ledger.bound(own, longer.id));
        if !answer.succeeded {
            self.revoke(&own, longer.id).await?;
            return Ok((longer, None));
        }
        Ok((longer, Some(answer.revision())))
    }

    /// Takes a lease of `ttl` that a released lock has left, for the entry of one key.
    fn take_instead(&self, own: &[Vec<u8>], ttl: Duration) -> Option<Lease> {
        let [own] = own else { return None };
        self.ledger.take_instead(own, self.given(ttl), spare::oldest(ttl), now())
    }

    /// Keeps `longer` alive once more if it would end before the lease that the entries have. A renewal on another
    /// thread may have confirmed that one while the answer to the request for `longer` took long; one that comes later
    /// finds `longer` in the ledger, and does not rely on the lease before.
    async fn outlasting(&self, entries: &[&Entry], longer: Lease) -> Result<Lease, Failure> {
        let sent = now();
        let outlives = |entry: &&Entry| self.ledger.outlives(&entry.page, entry.created, longer, sent);
        if !entries.iter().any(outlives) {
            return Ok(longer);
        }
        self.linearizable_read().await?;
        let given = self.keep_one_alive(longer.id).await?;
        Ok(given.map_or(longer, |ttl| Lease { ttl, sent, ..longer }))
    }

    /// Writes entries again, as they are. Returns the revision at which that was done, `None` when one of them has
    /// changed.
    pub(in super::super) async fn touch(&self, entries: &[&Entry]) -> Result<Option<i64>, Failure> {
        let put = |entry: &Entry| PutRequest {
            ignore_value: true,
            ignore_lease: true,
            ..PutRequest::of(&entry.stored)
        };
        let answer = self.txn(rewriting(entries, put)).await?;
        Ok(answer.succeeded.then(|| answer.revision()))
    }

    /// Returns the leases, other than its own, that an entry may yet be bound to by a request that was sent.
    fn strays(&self, entries: &[&Entry]) -> Vec<i64> {
        let of = |entry: &&Entry| self.ledger.strays(&entry.page, entry.lease);
        let mut strays: Vec<i64> = entries.iter().flat_map(of).collect();
        strays.sort_unstable();
        strays.dedup();
        strays
    }

    /// Returns the revision since which the entries hold their keys, if that is known and the same for all.
    fn known(&self, entries: &[&Entry]) -> Option<i64> {
        let held = |entry: &&Entry| Some(self.ledger.held(&entry.page, entry.created)?.granted);
        let granted: Option<Vec<i64>> = entries.iter().map(held).collect();
        let (first, rest) = granted.as_ref()?.split_first()?;
        rest.iter().all(|granted| granted == first).then_some(*first)
    }
}

/// What came of a sign of life.
enum Kept {
    /// The lease is long enough.
    For(Lease),
    TooShort,
    Over,
}

fn pages(entries: &[&Entry]) -> Vec<Vec<u8>> {
    entries.iter().map(|entry| entry.page.clone()).collect()
}

/// Returns the lease of all entries; `None` if they have different ones.
fn common_lease(entries: &[&Entry]) -> Option<i64> {
    let (first, rest) = entries.split_first()?;
    rest.iter().all(|entry| entry.lease == first.lease).then_some(first.lease)
}

/// Returns a transaction that writes entries if they are what they were when they were read. The revision of the last
/// change, not that of the creation: a transaction that arrives late must not undo what was written since.
fn rewriting(entries: &[&Entry], put: impl Fn(&Entry) -> PutRequest) -> TxnRequest {
    TxnRequest {
        compare: entries.iter().map(|entry| entry.unchanged()).collect(),
        success: entries.iter().map(|entry| RequestOp::from(put(entry))).collect(),
        failure: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::etcd::line::Line;
    use crate::backend::etcd::proto::{Compare, KeyValue, RangeResponse};

    /// Two entries of which the second is bound to `lease`, and was written after its creation.
    fn line(lease: i64) -> Line {
        let kv = |name: &[u8], created, modified, lease| KeyValue {
            key: name.to_vec(),
            create_revision: created,
            mod_revision: modified,
            lease,
            ..KeyValue::default()
        };
        let kvs = vec![kv(b"a/1", 7, 7, 1), kv(b"a/2", 8, 12, lease)];
        Line::new(RangeResponse { kvs, ..RangeResponse::default() }, 20)
    }

    #[test]
    fn what_is_written_names_the_last_change_of_each_entry() {
        let line = line(1);
        let entries: Vec<&Entry> = line.entries.iter().collect();
        let txn = rewriting(&entries, |entry| PutRequest::of(&entry.stored));
        let last = [Compare::modified_at(b"a/1".to_vec(), 7), Compare::modified_at(b"a/2".to_vec(), 12)];
        assert_eq!((&txn.compare[..], txn.success.len(), txn.failure.len()), (&last[..], 2, 0));
    }

    #[test]
    fn entries_have_one_lease_in_common_or_none() {
        for (second, expected) in [(1, Some(1)), (2, None), (0, None)] {
            let line = line(second);
            let entries: Vec<&Entry> = line.entries.iter().collect();
            assert_eq!(common_lease(&entries), expected);
        }
        assert_eq!(common_lease(&[]), None);
    }
}
