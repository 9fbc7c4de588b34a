//! Turning an exclusive lock into a shared one.

use super::secure::{Longer, Secured};
use crate::backend::etcd::error::Failure;
use crate::backend::etcd::keyspace;
use crate::backend::etcd::line::value;
use crate::backend::etcd::proto::{PutRequest, RequestOp, TxnRequest};
use crate::backend::etcd::store::{Store, now};
use crate::backend::{Claim, Mode, Renewal};
use crate::error::LockErrorKind;

impl Store {
    /// Changes the entry in its place: the readers behind it hold the key with it from then on, and are told, because
    /// they watch it.
    pub(in super::super) async fn downgrade(&self, claim: &Claim) -> Result<Renewal, Failure> {
        let own = keyspace::page(&claim.key, claim.owner);
        let mut was_over = false;
        loop {
            let sent = now();
            let line = self.read(&claim.key).await?;
            let Some(entry) = line.held_by(&own) else { return Ok(Renewal::NotOwned) };
            if matches!(entry.mode, Mode::Permit { .. }) {
                let text = line.conflict(Mode::Shared).unwrap_or_default();
                return Err(Failure::new(LockErrorKind::InvalidRequest, text));
            }
            claim.mark_shared();
            if entry.mode == Mode::Exclusive {
                let shared = value(claim, Mode::Shared, false);
                let put = PutRequest {
                    key: entry.stored.clone(),
                    value: shared,
                    ignore_lease: true,
                    ..PutRequest::default()
                };
                let txn = TxnRequest {
                    compare: vec![entry.unchanged()],
                    success: vec![RequestOp::from(put)],
                    failure: Vec::new(),
                };
                // Whether that was done, the next look says.
                self.txn(txn).await?;
                continue;
            }
            match self.secure(&[entry], claim.ttl, sent, Longer::Fresh).await? {
                Secured::Held { lease, .. } => {
                    let length = self.relied_on(lease.ttl, claim.ttl);
                    return Ok(Renewal::Renewed { sent: lease.sent, lease: length, waiters: None });
                }
                Secured::Changed => {}
                Secured::Over if was_over => return Ok(Renewal::NotOwned),
                Secured::Over => was_over = true,
            }
        }
    }
}
