//! The requests that everything here consists of.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;

use super::busy::Busy;
use super::error::{Failure, Reaction, unexpected};
use super::keyspace;
use super::ledger::{Lease, Ledger};
use super::line::{Line, Own};
use super::link::{Events, Members, linearizable_read};
use super::proto::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest,
    LeaseRevokeResponse, RangeRequest, RangeResponse, RequestOp, TxnRequest, TxnResponse,
};
use super::ttl;
use crate::backend::Claim;
use crate::backend::remote::{PerRuntime, join_all};
use crate::clock::{Clock, Moment};
use crate::key::Key;

/// How many requests one transaction may have: the default of `--max-txn-ops` is 128.
pub(super) const OPS: usize = 120;

/// How many leases are kept alive over one stream. A member answers them one after another, and a follower asks the
/// leader for each.
const KEPT_ALIVE_TOGETHER: usize = 128;

/// A cluster, as the commands see it.
pub(super) struct Store {
    pub(super) connections: PerRuntime<Members>,
    pub(super) ledger: Ledger,
    pub(super) busy: Busy,
    /// The shortest lease that the cluster gives.
    pub(super) min_ttl: Duration,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("members", self.connections.connector()).finish_non_exhaustive()
    }
}

/// Returns the time by which leases are counted.
pub(super) fn now() -> Moment {
    Clock::Suspend.now()
}

/// Draws the id of a lease from the operating system: two children of one process must not draw the same.
pub(super) fn lease_id() -> i64 {
    getrandom::u64().map_or_else(|_| fastrand::i64(1..), |random| (random >> 1).cast_signed().max(1))
}

/// Returns the request for the line of a key.
pub(super) fn reads(key: &Key) -> RequestOp {
    let (from, to) = keyspace::line(key);
    RangeRequest { key: from, range_end: to, ..RangeRequest::default() }.into()
}

/// Reads the answer to [`reads`], the next of a transaction.
pub(super) fn line(
    answers: &mut impl Iterator<Item = RangeResponse>,
    revision: i64,
) -> Result<Line, Failure> {
    let answer = answers.next().ok_or_else(|| unexpected("an answer"))?;
    Ok(Line::new(answer, revision))
}

impl Store {
    /// Returns the longest time of a call.
    pub(super) fn timeout(&self) -> Duration {
        self.connections.connector().config.timeout
    }

    /// Returns the entries of a claim, one for each of its keys.
    pub(super) fn own(&self, claim: &Claim) -> Vec<Own> {
        let pages = claim.keys().map(|key| keyspace::page(key, claim.owner));
        pages.map(|page| Own { stored: self.ledger.written(&page), page }).collect()
    }

    /// Returns the length that the cluster gives to a lease of `ttl`.
    pub(super) fn given(&self, ttl: Duration) -> Duration {
        ttl::rounded_up(ttl).max(self.min_ttl)
    }

    /// Returns how long a holder that asked for `asked` may rely on a lease of `given`. Where ttls are rounded up, its own
    /// deadline stays what it asked for.
    pub(super) fn relied_on(&self, given: Duration, asked: Duration) -> Duration {
        if self.connections.connector().config.rounds_ttl { given.min(asked) } else { given }
    }

    /// Runs a call within its deadline.
    pub(super) async fn within<T>(
        &self,
        deadline: Duration,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        timeout(deadline, call).await.unwrap_or_else(|_| Err(self.elapsed(deadline)))
    }

    /// Returns the failure of a call that ran out of time: why there is no connection, if there is none.
    pub(super) fn elapsed(&self, deadline: Duration) -> Failure {
        match self.connections.failure() {
            Some(failure) => failure.in_doubt(),
            None => Failure::no_answer(deadline),
        }
    }

    pub(super) async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Failure>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        self.connections.get().await?.call(path, request).await
    }

    pub(super) async fn txn(&self, txn: TxnRequest) -> Result<TxnResponse, Failure> {
        self.call("/etcdserverpb.KV/Txn", txn).await
    }

    /// Makes a linearizable read. A sign of life that is sent after this may be counted from before
    /// this call, whichever member leads.
    pub(super) async fn linearizable_read(&self) -> Result<(), Failure> {
        linearizable_read(&*self.connections.get().await?).await.map_err(Failure::before_any_request)
    }

    /// Reads one key.
    pub(super) async fn read(&self, key: &Key) -> Result<Line, Failure> {
        let mut lines = self.read_all(std::iter::once(key)).await?;
        lines.pop().ok_or_else(|| unexpected("an answer"))
    }

    /// Reads several keys, in their order.
    pub(super) async fn read_all<'k>(
        &self,
        keys: impl Iterator<Item = &'k Key>,
    ) -> Result<Vec<Line>, Failure> {
        let ops: Vec<RequestOp> = keys.map(reads).collect();
        let mut lines = Vec::with_capacity(ops.len());
        for part in ops.chunks(OPS) {
            let answer = self.txn(TxnRequest { success: part.to_vec(), ..TxnRequest::default() }).await;
            // A read leaves nothing behind.
            let answer = answer.map_err(Failure::before_any_request)?;
            let revision = answer.revision();
            let mut ranges = answer.ranges();
            for _ in part {
                lines.push(line(&mut ranges, revision)?);
            }
        }
        Ok(lines)
    }

    /// Asks for a lease of at least `ttl`, for each of the entries. The id is chosen here, so that a release
    /// finds the lease although its answer was lost.
    pub(super) async fn grant(&self, own: &[Vec<u8>], ttl: Duration) -> Result<Lease, Failure> {
        let mut tries = 0;
        loop {
            let lease = Lease { id: lease_id(), ttl, sent: now() };
            own.iter().for_each(|own| self.ledger.ask(own, lease));
            if own.len() > 1 {
                own.iter().for_each(|own| self.ledger.doubt(own));
            }
            match self.grant_as(lease).await {
                // Another client has chosen the same number, of 2^63.
                Err(failure) if failure.reaction == Reaction::LeaseExists && tries == 0 => {
                    tries += 1;
                    own.iter().for_each(|own| self.ledger.revoked(own, lease.id));
                }
                Ok(given) => {
                    own.iter().for_each(|own| self.ledger.given(own, given));
                    return Ok(given);
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Asks for the lease `lease.id`, of which the ledger knows nothing.
    pub(super) async fn grant_as(&self, lease: Lease) -> Result<Lease, Failure> {
        let seconds = ttl::seconds(lease.ttl);
        let request = LeaseGrantRequest { ttl: seconds, id: lease.id };
        let given: LeaseGrantResponse = self.call("/etcdserverpb.Lease/LeaseGrant", request).await?;
        if given.ttl < seconds {
            return Err(unexpected("a lease of the time that was asked for"));
        }
        Ok(Lease { ttl: ttl::lease(given.ttl), ..lease })
    }

    /// Ends a lease, and deletes what is bound to it. From then on no request that is still under way can bind a key to
    /// it.
    pub(super) async fn revoke(&self, own: &[Vec<u8>], id: i64) -> Result<(), Failure> {
        // Before the request: a future that is dropped there leaves one that may arrive late.
        if !self.ledger.begin_revoke(own, id) {
            // A call that was overtaken by another one of these entries: none of them is bound to it any more.
            return Ok(());
        }
        let request = LeaseRevokeRequest { id };
        let answer: Result<LeaseRevokeResponse, Failure> =
            self.call("/etcdserverpb.Lease/LeaseRevoke", request).await;
        match answer {
            Ok(_) => own.iter().for_each(|own| self.ledger.revoked(own, id)),
            Err(failure) if failure.reaction == Reaction::NoLease => {
                own.iter().for_each(|own| self.ledger.missing(own, id));
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// Revokes the leases that nobody has taken. Those whose revocation is not answered end by themselves.
    pub(super) async fn revoke_spares(&self) {
        let spares = self.ledger.drain_spares();
        let revoked = spares
            .into_iter()
            .map(|lease| -> crate::backend::BoxFuture<'_, _> { Box::pin(self.revoke(&[], lease.id)) });
        drop(join_all(revoked.collect()).await);
    }

    /// Keeps leases alive. Returns the time that each has from now on, in their order; `None` for one that is over.
    pub(super) async fn keep_alive(&self, ids: &[i64]) -> Vec<Result<Option<Duration>, Failure>> {
        let parts = ids.chunks(KEPT_ALIVE_TOGETHER);
        let answers = join_all(
            parts
                .map(|part| -> crate::backend::BoxFuture<'_, _> {
                    Box::pin(async move {
                        match self.keep_part_alive(part).await {
                            Ok(answers) => answers.into_iter().map(Ok).collect(),
                            Err(failure) => vec![Err(failure); part.len()],
                        }
                    })
                })
                .collect(),
        );
        answers.await.into_iter().flat_map(|part: Vec<_>| part).collect()
    }

    /// Keeps one lease alive.
    pub(super) async fn keep_one_alive(&self, id: i64) -> Result<Option<Duration>, Failure> {
        self.keep_alive(&[id]).await.pop().unwrap_or_else(|| Err(unexpected("an answer")))
    }

    /// Keeps the lease of an entry that waits alive, and its page in the ledger. The entry was last read at `looked`:
    /// from there on the lease counts. Returns when that was asked, `None` when the lease is over.
    pub(super) async fn keep_place(
        &self,
        own: &[u8],
        id: i64,
        looked: Moment,
    ) -> Result<Option<Moment>, Failure> {
        let sent = now();
        let Some(ttl) = self.keep_one_alive(id).await? else { return Ok(None) };
        self.ledger.kept(own, Lease { id, ttl, sent: looked });
        Ok(Some(sent))
    }

    async fn keep_part_alive(&self, ids: &[i64]) -> Result<Vec<Option<Duration>>, Failure> {
        let connection = self.connections.get().await?;
        let mut has_logged_in = false;
        loop {
            let token = connection.token();
            let requests = ids.iter().map(|id| LeaseKeepAliveRequest { id: *id }).collect();
            let opened = connection.exchange("/etcdserverpb.Lease/LeaseKeepAlive", requests, token.clone());
            let answer = match opened.await {
                Ok(answers) => read_kept(answers, ids).await,
                Err(failure) => Err(failure),
            };
            match answer {
                Err(failure) if failure.reaction == Reaction::LogIn && !has_logged_in => {
                    has_logged_in = true;
                    connection.log_in_after(token).await?;
                }
                answer => return answer,
            }
        }
    }
}

/// Reads the answers to signs of life, one for each lease. A member gives them in the order of the leases, a proxy in any.
async fn read_kept(
    mut answers: Events<LeaseKeepAliveResponse>,
    ids: &[i64],
) -> Result<Vec<Option<Duration>>, Failure> {
    let mut kept = vec![None; ids.len()];
    for _ in ids {
        let answer = answers.message().await.map_err(|status| super::error::of_status(&status))?;
        let answer = answer.ok_or_else(|| unexpected("the answer to a sign of life"))?;
        let mut of_it = ids.iter().zip(&mut kept).filter(|(id, kept)| **id == answer.id && kept.is_none());
        let (_, kept) = of_it.next().ok_or_else(|| unexpected("the answer to a sign of life"))?;
        *kept = Some(Some(answer.ttl).filter(|ttl| *ttl > 0).map(ttl::lease));
    }
    Ok(kept.into_iter().map(Option::flatten).collect())
}
