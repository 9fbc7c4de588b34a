//! A turn that begins on the lease of the wait.
//!
//! A lease of the whole ttl would be another one: two requests that the members must agree on, and a third for the end of
//! the old one. A hold that is over before its first renewal pays for none of them. The renewal makes the lease longer.

use crate::backend::etcd::error::Failure;
use crate::backend::etcd::ledger::{Held, Lease};
use crate::backend::etcd::look::Turn;
use crate::backend::etcd::store::Store;
use crate::backend::{Claim, Mode, Queue};

impl Store {
    /// Makes an entry whose turn has come the holder on the lease that it has waited on, of which two thirds are left at
    /// least. Returns `None` where it needs another one.
    ///
    /// A barging claim needs one: its grant is handed on in its process, and each holder must have the lease that it has
    /// asked for. So does one that is not renewed.
    ///
    /// Nothing is written, so the revision at which it was read to be the holder is that since which it is: whoever held
    /// the key before was gone by then, and whoever holds it later reads that after the deletion of this entry, which is
    /// a further revision. Two readers or two permits could be read at one revision, and must not have one fencing token.
    pub(in super::super) async fn as_it_waited(
        &self,
        claim: &Claim,
        turn: &Turn,
    ) -> Result<Option<Held>, Failure> {
        let Turn { entry, revision, read_at, .. } = turn;
        if !claim.renews || claim.queue != Queue::Fifo || claim.mode != Mode::Exclusive {
            return Ok(None);
        }
        let Some(known) = self.ledger.waits_on(&entry.page, entry.lease) else { return Ok(None) };
        let lease = if known.left(*read_at) >= known.ttl * 2 / 3 {
            known
        } else {
            // After the entry was read, so the lease counts from before that.
            match self.keep_one_alive(known.id).await? {
                Some(ttl) => Lease { id: known.id, ttl, sent: *read_at },
                None => return Ok(None),
            }
        };
        let held = Held { created: entry.created, granted: *revision, lease };
        self.ledger.hold(&entry.page, &entry.stored, held);
        Ok(Some(held))
    }
}
