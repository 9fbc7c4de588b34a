//! Renewals: one look at all entries, then one sign of life for each lease.

use std::time::Duration;

use super::secure::{Longer, Secured};
use crate::backend::etcd::error::{Failure, unexpected};
use crate::backend::etcd::keyspace;
use crate::backend::etcd::ledger::Lease;
use crate::backend::etcd::line::{Entry, Own};
use crate::backend::etcd::proto::{RangeRequest, RangeResponse, RequestOp, TxnRequest};
use crate::backend::etcd::store::{OPS, Store, now};
use crate::backend::remote::join_all;
use crate::backend::{BoxFuture, Claim, Mode, Renew, Renewal};
use crate::clock::Moment;

/// What the look said about one grant.
enum Seen {
    Gone,
    /// It is there, bound to the lease that is known to be long enough, and to no other later.
    Known {
        id: i64,
        waiters: Option<usize>,
    },
    /// It is there, and must be looked at more closely.
    Unknown,
}

/// How many grants that need a closer look get it at once.
const CLOSELY_TOGETHER: usize = 32;

impl Store {
    /// Renews a batch. Returns one answer for each part, in the same order.
    pub(in super::super) async fn renew(&self, batch: &[Renew<'_>]) -> Vec<Result<Renewal, Failure>> {
        // A lease counts from before the look. A leader that stands still does not know that it was replaced, and answers a
        // sign of life although the lease counts elsewhere by then; a look it does not answer. Whoever was elected since
        // the look has begun every lease anew.
        let sent = now();
        let seen = match self.look(batch).await {
            Ok(seen) => seen,
            Err(failure) => return batch.iter().map(|_| Err(failure.clone())).collect(),
        };
        let ids: Vec<i64> = seen
            .iter()
            .filter_map(|seen| if let Seen::Known { id, .. } = seen { Some(*id) } else { None })
            .collect();
        let kept = if ids.is_empty() { Vec::new() } else { self.keep_alive(&ids).await };
        let mut kept = kept.into_iter();
        let answer = |(seen, renew): (&Seen, &Renew<'_>)| match seen {
            Seen::Gone => Some(Ok(Renewal::NotOwned)),
            Seen::Known { id, waiters } => {
                match kept.next().unwrap_or_else(|| Err(unexpected("an answer"))) {
                    Ok(given) => self.kept(renew, *id, given, sent, *waiters).map(Ok),
                    Err(failure) => Some(Err(failure)),
                }
            }
            Seen::Unknown => None,
        };
        let mut answers: Vec<_> = seen.iter().zip(batch).map(answer).collect();
        let mut open: Vec<_> = answers.iter_mut().zip(batch).filter(|(answer, _)| answer.is_none()).collect();
        for part in open.chunks_mut(CLOSELY_TOGETHER) {
            let looks = part.iter().map(|(_, renew)| **renew);
            let looks = looks.map(|renew| -> BoxFuture<'_, _> { Box::pin(self.renew_closely(renew)) });
            let looked = join_all(looks.collect()).await;
            for ((answer, _), looked) in part.iter_mut().zip(looked) {
                **answer = Some(looked);
            }
        }
        let missing = || Err(unexpected("an answer"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect()
    }

    /// Notes a sign of life that was answered. `None` where another call may have bound the entries to another lease
    /// meanwhile: they must be looked at more closely.
    fn kept(
        &self,
        renew: &Renew<'_>,
        id: i64,
        given: Option<Duration>,
        sent: Moment,
        waiters: Option<usize>,
    ) -> Option<Renewal> {
        for key in renew.claim.keys() {
            let own = keyspace::page(key, renew.claim.owner);
            if let Some(ttl) = given {
                self.ledger.kept(&own, Lease { id, ttl, sent });
            }
            // After the note: a call that binds them to a lease that is longer looks how long this one is.
            if !self.ledger.is_settled(&own, id) {
                return None;
            }
        }
        let renewed = |given| Renewal::Renewed { sent, lease: self.relied_on(given, renew.ttl), waiters };
        Some(given.map_or(Renewal::NotOwned, renewed))
    }

    /// Looks whether the entries are there, and how long their lines are.
    async fn look(&self, batch: &[Renew<'_>]) -> Result<Vec<Seen>, Failure> {
        // What is known before the look: a name that becomes known later was not looked for.
        let own: Vec<Vec<Own>> = batch.iter().map(|renew| self.own(renew.claim)).collect();
        let mut ops = Vec::new();
        for (claim, own) in batch.iter().map(|renew| renew.claim).zip(&own) {
            for (key, own) in claim.keys().zip(own) {
                let nothing = || keyspace::new_entry(keyspace::line_of(&own.page));
                let stored = own.stored.clone().unwrap_or_else(nothing);
                let own = RangeRequest { key: stored, ..RangeRequest::default() };
                let (from, to) = keyspace::line(key);
                let count =
                    RangeRequest { key: from, range_end: to, count_only: true, ..RangeRequest::default() };
                ops.extend([RequestOp::from(own), RequestOp::from(count)]);
            }
        }
        let parts = ops.chunks(OPS).map(|part| -> BoxFuture<'_, _> {
            Box::pin(self.txn(TxnRequest { success: part.to_vec(), ..TxnRequest::default() }))
        });
        let mut answers = Vec::with_capacity(ops.len());
        for part in join_all(parts.collect()).await {
            answers.extend(part.map_err(Failure::before_any_request)?.ranges());
        }
        if answers.len() != ops.len() {
            return Err(unexpected("an answer"));
        }
        let mut answers = answers.into_iter();
        Ok(batch.iter().zip(&own).map(|(renew, own)| self.seen(renew, own, &mut answers)).collect())
    }

    /// Reads what the look said about one grant.
    fn seen(
        &self,
        renew: &Renew<'_>,
        own: &[Own],
        answers: &mut impl Iterator<Item = RangeResponse>,
    ) -> Seen {
        let claim = renew.claim;
        let (mut gone, mut known, mut id, mut count) = (false, true, None, 0);
        for own in own {
            let (entry, line) = (answers.next().unwrap_or_default(), answers.next().unwrap_or_default());
            count = line.count;
            let Some(entry) = entry.kvs.first() else {
                // Of any other, its owner in the line decides.
                gone |= own.stored.is_some() && self.ledger.holds(&own.page);
                known = false;
                continue;
            };
            let held = self.ledger.held(&own.page, entry.create_revision);
            let held = held.filter(|held| held.lease.id == entry.lease && held.lease.ttl >= renew.ttl);
            let held = held.filter(|held| self.ledger.is_settled(&own.page, held.lease.id));
            // All keys of a claim have one lease.
            known &= held.is_some() && id.is_none_or(|id| id == entry.lease);
            id = Some(entry.lease);
        }
        match id {
            _ if gone => Seen::Gone,
            Some(id) if known => Seen::Known { id, waiters: waiters(claim, count) },
            _ => Seen::Unknown,
        }
    }

    /// Renews one grant, of which this process knows nothing, whose lease is too short, or which a request that was not
    /// answered may bind to another lease.
    async fn renew_closely(&self, renew: Renew<'_>) -> Result<Renewal, Failure> {
        let claim = renew.claim;
        let own: Vec<Vec<u8>> = claim.keys().map(|key| keyspace::page(key, claim.owner)).collect();
        let mut was_over = false;
        loop {
            let sent = now();
            let lines = self.read_all(claim.keys()).await?;
            let entries: Option<Vec<&Entry>> =
                own.iter().zip(&lines).map(|(own, line)| line.held_by(own)).collect();
            let Some(entries) = entries else { return Ok(Renewal::NotOwned) };
            let secured = match self.secure(&entries, renew.ttl, sent, Longer::Fresh).await {
                // A hold that began on the lease of its wait goes on with that where there is no room for a longer one.
                Err(failure) if failure.is_permanent() && claim.renews && renew.ttl <= claim.ttl => {
                    return self.renew_as_it_is(&entries, renew, sent, failure).await;
                }
                secured => secured?,
            };
            match secured {
                Secured::Held { lease, .. } => {
                    let waiters = match &lines[..] {
                        [line] => Some(line.entries.len() - line.holding()),
                        _ => None,
                    };
                    let length = self.relied_on(lease.ttl, renew.ttl);
                    return Ok(Renewal::Renewed { sent: lease.sent, lease: length, waiters });
                }
                Secured::Changed => {}
                // Its entries have gone with it, unless another lease came in between: they are looked for once more.
                Secured::Over if was_over => return Ok(Renewal::NotOwned),
                Secured::Over => was_over = true,
            }
        }
    }

    /// Renews the lease that the entry of a grant has, which is shorter than its ttl. Without one, the failure stands.
    async fn renew_as_it_is(
        &self,
        entries: &[&Entry],
        renew: Renew<'_>,
        sent: Moment,
        failure: Failure,
    ) -> Result<Renewal, Failure> {
        let [entry] = entries else { return Err(failure) };
        let Some(held) = self.ledger.held(&entry.page, entry.created) else { return Err(failure) };
        if held.lease.id != entry.lease || held.lease.ttl >= renew.ttl {
            return Err(failure);
        }
        let Some(ttl) = self.keep_one_alive(entry.lease).await? else { return Err(failure) };
        self.ledger.kept(&entry.page, Lease { id: entry.lease, ttl, sent });
        // Not where an earlier request may yet bind it to another one.
        if !self.ledger.is_settled(&entry.page, entry.lease) {
            return Err(failure);
        }
        Ok(Renewal::Renewed { sent, lease: self.relied_on(ttl, renew.ttl), waiters: None })
    }
}

/// Returns how many wait in a line of `count` entries that the claim holds; `None` where the number alone does not
/// tell.
fn waiters(claim: &Claim, count: i64) -> Option<usize> {
    let count = usize::try_from(count).unwrap_or(0);
    match claim.mode {
        _ if !claim.more.is_empty() => None,
        Mode::Exclusive if claim.may_be_shared() => None,
        Mode::Exclusive => Some(count.saturating_sub(1)),
        Mode::Permit { of } => Some(count.saturating_sub(usize::try_from(of).unwrap_or(usize::MAX))),
        Mode::Shared => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use crate::owner::{Identity, OwnerRecord, OwnerSource};

    #[test]
    fn a_count_tells_who_waits_where_it_tells_who_holds() {
        let owner = OwnerSource::new().expect("random bytes").mint();
        let record = OwnerRecord::new(Identity::of_this_process("").into(), None);
        let ttl = std::time::Duration::from_secs(5);
        let claim = Claim::new(Key::new("k").expect("a key"), owner, ttl, record);
        for (mode, count, expected) in [
            (Mode::Exclusive, 1, Some(0)),
            (Mode::Exclusive, 4, Some(3)),
            (Mode::Permit { of: 3 }, 2, Some(0)),
            (Mode::Permit { of: 3 }, 5, Some(2)),
            (Mode::Shared, 5, None),
        ] {
            assert_eq!(waiters(&Claim { mode, ..claim.clone() }, count), expected, "{mode:?} of {count}");
        }
    }
}
