//! Lists holders, and releases a grant by force.

use super::entry::Entry;
use super::events::Event;
use super::holders::Holder;
use super::store::Memory;
use crate::backend::{GrantId, HOLDERS_TOLD, HolderInfo, Listed, LockInfo, WAITERS_TOLD, WaiterInfo};
use crate::clock::{self, Clock, Moment};
use crate::key::Key;

impl Memory {
    /// Lists the held keys that begin with `prefix`. Only one shard is locked at a time, so that no other call waits
    /// long if the store is large.
    pub(super) fn list_locks(&self, prefix: &str, limit: usize) -> Listed {
        let now = Clock::Tokio.now();
        let mut locks = Vec::new();
        for place in 0..self.shard_count() {
            let mut shard = self.shard(place);
            let held = shard.entries.iter_mut().filter(|(key, _)| key.as_str().starts_with(prefix));
            locks.extend(held.filter_map(|(key, entry)| entry.info(key, now)));
        }
        Listed::new(locks, limit)
    }

    pub(super) fn inspect_key(&self, key: &Key) -> Option<LockInfo> {
        let now = Clock::Tokio.now();
        self.with(key, now, |entry| entry.info(key, now)).flatten()
    }

    pub(super) fn take_grant(&self, key: &Key, id: &GrantId) -> bool {
        let now = Clock::Tokio.now();
        self.with(key, now, |entry| entry.take_grant(id, now)).unwrap_or(false)
    }
}

impl Entry {
    fn info(&mut self, key: &Key, now: Moment) -> Option<LockInfo> {
        self.expire(now);
        let mode = self.holders.first()?.mode;
        let mut holders: Vec<_> = self.holders.iter().collect();
        holders.sort_by_key(|holder| holder.deadline.remaining(now));
        let holders = holders.into_iter().take(HOLDERS_TOLD).map(|holder| holder.info(now)).collect();
        let first = self.tickets.iter().take(WAITERS_TOLD);
        let waiters =
            first.map(|ticket| WaiterInfo::new(Some(ticket.record.clone()), ticket.share.mode)).collect();
        let waiting = self.tickets.len() + self.waiters.len();
        let info = LockInfo::new(key.as_str(), mode, holders).with_holding(self.holders.usage().count());
        Some(info.with_waiters(waiting, waiters))
    }

    fn take_grant(&mut self, id: &GrantId, now: Moment) -> bool {
        self.expire(now);
        let Some((owner, kept)) =
            self.holders.iter().find(|holder| holder.id() == *id).map(|holder| (holder.owner, holder.kept))
        else {
            return false;
        };
        self.holders.remove(owner, kept);
        if !kept {
            self.events.push(Event::Forced(owner));
        }
        self.settle(now, None);
        true
    }
}

impl Holder {
    fn info(&self, now: Moment) -> HolderInfo {
        let remaining = Some(self.deadline.remaining(now));
        let holder = HolderInfo::new(self.id(), Some(self.record.clone()), remaining, self.kept);
        holder.with_held_since(clock::wall().checked_sub(now.since(self.granted)))
    }

    /// Returns a digest of the owner token. The token itself must not be shown, because half of the token is the secret
    /// of its process.
    fn id(&self) -> GrantId {
        GrantId::digest(self.owner.token().as_str())
    }
}
