//! Adds entries to the end of a queue.

use crate::backend::etcd::entries::{Id, Lease};
use crate::backend::etcd::error::{Failure, Reaction};
use crate::backend::etcd::keyspace;
use crate::backend::etcd::line::Line;
use crate::backend::etcd::plan::Behind;
use crate::backend::etcd::proto::{Compare, PutRequest, RangeResponse, RequestOp, TxnRequest};
use crate::backend::etcd::session::{UnderWay, now};
use crate::backend::etcd::store::{self, Store, reads};
use crate::key::Key;

/// New entries of one queue, which one transaction adds in their order. They have already been recorded in `Entries`.
pub(super) struct Creation<'a> {
    pub(super) key: &'a Key,
    pub(super) lease: &'a Lease,
    pub(super) entries: Vec<New>,
    /// The entries are added only if this entry still exists; `None`: only if the queue is empty. Later entries need no
    /// check: while this entry exists, the key stays in use for the same kind of lock.
    pub(super) behind: Behind,
    /// The read that the transaction makes after it has added the entries.
    pub(super) read: Option<RequestOp>,
}

pub(super) struct New {
    pub(super) id: Id,
    pub(super) stored: Vec<u8>,
    pub(super) value: Vec<u8>,
}

pub(super) enum Created {
    /// The entries were created at this revision.
    At(i64, Option<RangeResponse>),
    /// The queue has changed since it was read, or the name of an entry is in use.
    Changed(Line),
    /// The lease was over.
    Over,
}

impl Store {
    /// Adds entries to the end of a queue: all of them or none. Removes the records of entries that were not created.
    pub(super) async fn create(&self, creation: Creation<'_>) -> Result<Created, Failure> {
        let lease = creation.lease;
        let under_way = UnderWay::begin(lease.session().map(AsRef::as_ref));
        // The result of the keep-alive is ignored, because no claim is granted on a session that has ended.
        let (answer, _) = tokio::join!(self.txn(creation.request()), self.lives(lease));
        if answer.as_ref().is_err_and(Failure::is_in_doubt) {
            return answer.map(|_| Created::Over);
        }
        under_way.answered();
        match answer {
            Ok(answer) if answer.succeeded => {
                let created = answer.revision();
                for entry in &creation.entries {
                    self.entries.change(&entry.id, |mine| {
                        // The claim may have been dropped meanwhile, and may have another entry now.
                        if mine.stored == entry.stored {
                            (mine.created, mine.modified, mine.bound) = (Some(created), created, now());
                        }
                    });
                }
                Ok(Created::At(created, answer.ranges().next()))
            }
            Ok(answer) => {
                self.forget(&creation).await;
                let revision = answer.revision();
                Ok(Created::Changed(store::line(&mut answer.ranges(), revision)?))
            }
            Err(failure) if failure.reaction == Reaction::NoLease => {
                self.not_created(&creation);
                if let Some(session) = lease.session() {
                    self.session_lost(session);
                }
                Ok(Created::Over)
            }
            Err(failure) => {
                self.forget(&creation).await;
                Err(failure)
            }
        }
    }

    fn not_created(&self, creation: &Creation<'_>) {
        creation.entries.iter().for_each(|entry| self.entries.not_created(&entry.id, &entry.stored));
    }

    /// Removes the records of entries that were not created, and ends their lease if it is a separate one.
    async fn forget(&self, creation: &Creation<'_>) {
        self.not_created(creation);
        if creation.lease.session().is_none() {
            // If this fails, the lease expires.
            let _ = self.revoke(creation.lease.id()).await;
        }
    }
}

impl Creation<'_> {
    fn request(&self) -> TxnRequest {
        let unchanged = match &self.behind {
            Some((last, created)) => Compare::created_at(last.clone(), *created),
            None => {
                let (from, to) = keyspace::line(self.key);
                Compare::none_created_since(from, to, 1)
            }
        };
        let absent = self.entries.iter().map(|entry| Compare::created_at(entry.stored.clone(), 0));
        let put = |entry: &New| {
            let (key, value) = (entry.stored.clone(), entry.value.clone());
            RequestOp::from(PutRequest { key, value, lease: self.lease.id(), ..PutRequest::default() })
        };
        TxnRequest {
            compare: absent.chain([unchanged]).collect(),
            success: self.entries.iter().map(put).chain(self.read.clone()).collect(),
            failure: vec![reads(self.key)],
        }
    }
}
