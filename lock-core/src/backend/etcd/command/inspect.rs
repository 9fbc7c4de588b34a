//! Reads the holders of a key, and releases locks by force.

use std::time::Duration;

use crate::backend::etcd::error::Failure;
use crate::backend::etcd::line::{Entry, Line, NO_LEASE};
use crate::backend::etcd::store::Store;
use crate::backend::etcd::ttl;
use crate::backend::remote::join_all;
use crate::backend::{Claim, GrantId, HOLDERS_TOLD, HolderInfo, LockInfo, WAITERS_TOLD, WaiterInfo};
use crate::error::LossReason;
use crate::key::Key;
use crate::owner::Owner;

impl Store {
    pub(in super::super) async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>, Failure> {
        let line = self.read(key).await?;
        self.info(key.as_str(), line, true).await
    }

    /// Returns whether a claim of another process waits for the key, or `claim` does not hold it.
    pub(in super::super) async fn others_wait(&self, claim: &Claim) -> Result<bool, Failure> {
        let line = self.read(&claim.key).await?;
        let (holders, waiting) = (line.queue.holders(), line.queue.waiters());
        let is_other = |owner: Option<Owner>| !owner.is_some_and(|owner| claim.owner.may_hand_off_to(&owner));
        let holds = holders.iter().any(|holder| holder.owner == Some(claim.owner));
        Ok(!holds || waiting.iter().any(|entry| is_other(entry.owner)))
    }

    /// Removes a grant from the store, and notifies a holder in this process. Returns whether the grant existed.
    pub(in super::super) async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool, Failure> {
        loop {
            let line = self.read(key).await?;
            let Some(entry) = line.queue.holders().iter().find(|entry| entry.id() == *id) else {
                return Ok(false);
            };
            if !self.delete(&[entry]).await? {
                continue;
            }
            if let Some(owner) = entry.owner.filter(|_| !entry.kept) {
                // A holder of another process notices the loss at its next renewal.
                for listener in self.connections.connector().listeners.of_process(owner.process()) {
                    listener.lost(owner, LossReason::Forced);
                }
            }
            return Ok(true);
        }
    }

    /// Returns the description of a key, or `None` if there is no holder to show.
    pub(super) async fn info(
        &self,
        key: &str,
        line: Line,
        foreign: bool,
    ) -> Result<Option<LockInfo>, Failure> {
        let (holders, waiters) = (line.queue.holders(), line.queue.waiters());
        let Some(first) = holders.first().filter(|first| foreign || first.owner.is_some()) else {
            return Ok(None);
        };
        let told = holders.iter().take(HOLDERS_TOLD).map(|entry| self.holder(entry));
        let mut infos = Vec::new();
        for info in join_all(told).await {
            infos.push(info?);
        }
        infos.sort_by_key(|info| info.remaining);
        let waiting = waiters.iter().take(WAITERS_TOLD);
        let waiting = waiting.map(|entry| WaiterInfo::new(entry.record.clone(), entry.mode)).collect();
        let info = LockInfo::new(key, first.mode, infos).with_holding(holders.len());
        Ok(Some(info.with_waiters(waiters.len(), waiting)))
    }

    async fn holder(&self, entry: &Entry) -> Result<HolderInfo, Failure> {
        let remaining = self.remaining(entry.lease).await?;
        let holder = HolderInfo::new(entry.id(), entry.record.clone(), remaining, entry.kept);
        Ok(holder.with_held_since(entry.granted))
    }

    /// Returns the remaining time of a lease, in whole seconds. Returns `None` for an entry without a lease; only other
    /// programs write such entries.
    async fn remaining(&self, lease: i64) -> Result<Option<Duration>, Failure> {
        if lease == NO_LEASE {
            return Ok(None);
        }
        let left = self.time_to_live(lease, false).await?;
        Ok(Some(ttl::lease(left.ttl.max(0))))
    }
}
