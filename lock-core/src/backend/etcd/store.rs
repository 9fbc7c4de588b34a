//! Sends the requests of the store's calls.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;

use super::entering::Entering;
use super::entries::Entries;
use super::error::{Failure, Reaction, unexpected};
use super::keyspace;
use super::line::{Entry, Line};
use super::link::{Members, linearizable_read};
use super::proto::{
    Compare, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseRevokeRequest, LeaseRevokeResponse, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, PutRequest,
    RangeRequest, RangeResponse, RequestOp, TxnRequest, TxnResponse,
};
use super::session::Sessions;
use super::ttl;
use crate::backend::remote::PerRuntime;
use crate::backend::remote::queue_copy::QueueCopies;
use crate::key::Key;
use crate::sync::Mutex;

/// The largest number of requests in one transaction. The default of `--max-txn-ops` is 128.
pub(super) const OPS: usize = 120;

/// The state that all commands of one cluster share.
pub(super) struct Store {
    pub(super) connections: PerRuntime<Members>,
    pub(super) sessions: Sessions,
    pub(super) entries: Entries,
    pub(super) entering: Arc<Entering>,
    pub(super) copies: QueueCopies<Entry>,
    /// The runtimes on which queues are watched, one for each process.
    pub(super) runtimes: Mutex<Vec<(u128, Handle)>>,
    /// This store, for the tasks that it spawns.
    pub(super) own: Weak<Self>,
    /// The shortest lease that the cluster grants.
    pub(super) min_ttl: Duration,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("members", self.connections.connector()).finish_non_exhaustive()
    }
}

/// Returns the request that reads the queue of a key.
pub(super) fn reads(key: &Key) -> RequestOp {
    let (from, to) = keyspace::line(key);
    RangeRequest { key: from, range_end: to, ..RangeRequest::default() }.into()
}

/// Returns the request that counts the entries of a key.
pub(super) fn counts(key: &Key) -> RequestOp {
    let (from, to) = keyspace::line(key);
    RangeRequest { key: from, range_end: to, count_only: true, ..RangeRequest::default() }.into()
}

/// Converts the next answer of a transaction to a queue. The answer must belong to a request of [`reads`].
pub(super) fn line(
    answers: &mut impl Iterator<Item = RangeResponse>,
    revision: i64,
) -> Result<Line, Failure> {
    let answer = answers.next().ok_or_else(|| unexpected("an answer"))?;
    Ok(Line::new(answer, revision))
}

/// The key of pings, which is never written.
const PING_KEY: &[u8] = b"lock:ping";

impl Store {
    pub(super) fn timeout(&self) -> Duration {
        self.connections.connector().config.timeout
    }

    /// Returns how long a holder that requested `asked` may rely on a lease of `given`. If ttls are rounded up, that is
    /// at most `asked`.
    pub(super) fn relied_on(&self, given: Duration, asked: Duration) -> Duration {
        if self.connections.connector().config.rounds_ttl { given.min(asked) } else { given }
    }

    /// Sends requests for which no caller waits. All of them together have the time limit of one call.
    pub(super) fn spawn<F: Future<Output = ()> + Send + 'static>(
        &self,
        requests: impl FnOnce(Arc<Self>) -> F,
    ) {
        if let (Some(store), Ok(runtime)) = (self.own.upgrade(), Handle::try_current()) {
            runtime.spawn(timeout(self.timeout(), requests(store)));
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

    /// Performs a linearizable read. A keep-alive that is sent after this read may be counted from a time before the
    /// read, whichever member leads.
    pub(super) async fn linearizable_read(&self) -> Result<(), Failure> {
        linearizable_read(&*self.connections.get().await?).await.map_err(Failure::before_any_request)
    }

    /// Sends a write whose condition is never met. Like any other write, this write is refused by a cluster with a full
    /// database or without a majority. If the database has become full, this write raises the alarm.
    pub(super) async fn write_nothing(&self) -> Result<(), Failure> {
        let key = || PING_KEY.to_vec();
        let never = Compare::created_at(key(), -1);
        let put = PutRequest::new(&key());
        let txn = TxnRequest { compare: vec![never], success: vec![put.into()], ..TxnRequest::default() };
        self.txn(txn).await.map(drop)
    }

    pub(super) async fn read(&self, key: &Key) -> Result<Line, Failure> {
        let mut lines = self.read_all(std::iter::once(key)).await?;
        lines.pop().ok_or_else(|| unexpected("an answer"))
    }

    /// Reads the queues of several keys, in the order of the keys.
    pub(super) async fn read_all<'k>(
        &self,
        keys: impl Iterator<Item = &'k Key>,
    ) -> Result<Vec<Line>, Failure> {
        let ops: Vec<RequestOp> = keys.map(reads).collect();
        let mut lines = Vec::with_capacity(ops.len());
        for part in ops.chunks(OPS) {
            let answer = self.txn(TxnRequest { success: part.to_vec(), ..TxnRequest::default() }).await;
            // A read changes nothing in the store, so its failure is not ambiguous.
            let answer = answer.map_err(Failure::before_any_request)?;
            let revision = answer.revision();
            let mut ranges = answer.ranges();
            for _ in part {
                lines.push(line(&mut ranges, revision)?);
            }
        }
        Ok(lines)
    }

    /// Requests a lease of at least `ttl` with the id `id`. Returns its length.
    pub(super) async fn grant_as(&self, id: i64, ttl: Duration) -> Result<Duration, Failure> {
        let seconds = ttl::seconds(ttl);
        let request = LeaseGrantRequest { ttl: seconds, id };
        let given: LeaseGrantResponse = self.call("/etcdserverpb.Lease/LeaseGrant", request).await?;
        if given.ttl < seconds {
            return Err(unexpected("a lease of the time that was asked for"));
        }
        Ok(ttl::lease(given.ttl))
    }

    /// Ends a lease, and deletes the keys that are bound to it. After that, no request in flight can bind a key to the
    /// lease.
    pub(super) async fn revoke(&self, id: i64) -> Result<(), Failure> {
        let request = LeaseRevokeRequest { id };
        let answer: Result<LeaseRevokeResponse, Failure> =
            self.call("/etcdserverpb.Lease/LeaseRevoke", request).await;
        match answer {
            Err(failure) if failure.reaction != Reaction::NoLease => Err(failure),
            _ => Ok(()),
        }
    }

    /// Returns the stored keys that are bound to a lease; `None` if there is no such lease.
    pub(super) async fn keys_of(&self, id: i64) -> Result<Option<HashSet<Vec<u8>>>, Failure> {
        let told = self.time_to_live(id, true).await?;
        Ok((told.ttl >= 0).then(|| told.keys.into_iter().collect()))
    }

    pub(super) async fn time_to_live(&self, id: i64, keys: bool) -> Result<LeaseTimeToLiveResponse, Failure> {
        self.call("/etcdserverpb.Lease/LeaseTimeToLive", LeaseTimeToLiveRequest { id, keys }).await
    }

    /// Keeps a lease alive. Returns its new length; `None` if it has expired.
    pub(super) async fn keep_alive(&self, id: i64) -> Result<Option<Duration>, Failure> {
        let connection = self.connections.get().await?;
        let mut has_logged_in = false;
        loop {
            let token = connection.token();
            let request = LeaseKeepAliveRequest { id };
            let opened = connection.stream("/etcdserverpb.Lease/LeaseKeepAlive", request, token.clone());
            let answer = match opened.await {
                Ok(mut answers) => answers.message().await.map_err(|status| super::error::of_status(&status)),
                Err(failure) => Err(failure),
            };
            match answer {
                Err(failure) if failure.reaction == Reaction::LogIn && !has_logged_in => {
                    has_logged_in = true;
                    connection.log_in_after(token).await?;
                }
                answer => {
                    let is_it = |answer: &LeaseKeepAliveResponse| answer.id == id;
                    let answer =
                        answer?.filter(is_it).ok_or_else(|| unexpected("the answer to a sign of life"))?;
                    return Ok(Some(answer.ttl).filter(|ttl| *ttl > 0).map(ttl::lease));
                }
            }
        }
    }
}
