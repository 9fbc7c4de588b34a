//! Turns an exclusive lock into a shared one.

use crate::backend::etcd::entries::{Id, Told};
use crate::backend::etcd::error::Failure;
use crate::backend::etcd::line::value;
use crate::backend::etcd::proto::{PutRequest, RequestOp, TxnRequest};
use crate::backend::etcd::store::Store;
use crate::backend::{Claim, Mode, Renew, Renewal};
use crate::error::LockErrorKind;

impl Store {
    /// Changes the mode of the claim's entry, which keeps its place in the queue. The next readers then hold the key
    /// too, and notice this by their watch.
    pub(in super::super) async fn downgrade(&self, claim: &Claim) -> Result<Renewal, Failure> {
        let id = Id::new(&claim.key, claim.owner);
        loop {
            let line = self.read(&claim.key).await?;
            let Some(entry) = line.held_by(claim.owner) else { return Ok(Renewal::NotOwned) };
            if matches!(entry.mode, Mode::Permit { .. }) {
                let text = line.conflict(Mode::Shared).unwrap_or_default();
                return Err(Failure::new(LockErrorKind::InvalidRequest, text));
            }
            claim.mark_shared();
            if entry.mode == Mode::Shared {
                return self.renew_one(Renew { claim, ttl: claim.ttl }).await;
            }
            let due = self.entries.get(&id).and_then(|mine| mine.told.due());
            let granted = due.or(entry.granted);
            let put = PutRequest {
                value: value(claim, Mode::Shared, granted, false),
                ignore_lease: true,
                ..PutRequest::new(&entry.stored)
            };
            let txn = TxnRequest {
                compare: vec![entry.unchanged()],
                success: vec![RequestOp::from(put)],
                failure: Vec::new(),
            };
            // The next iteration reads whether the change was made.
            let answer = self.txn(txn).await?;
            if answer.succeeded {
                self.entries.change(&id, |mine| (mine.modified, mine.told) = (answer.revision(), Told::Done));
            }
        }
    }
}
