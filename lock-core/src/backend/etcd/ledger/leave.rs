//! Leaving the lease of an entry to another claim of the process.
//!
//! A lease is left to others once no entry is bound to it, and nothing that was sent can bind one to it or end it:
//!
//! - It is the only lease of its page, which is known from the start: the server has given it, for this entry alone.
//! - Every request that binds the entry to it was answered, so none is under way.
//! - No request that ends it was sent and is not answered.
//! - The entry was never created, or the deletion that names this lease was executed. A transaction that arrives later
//!   names a revision at which the entry was written, and no entry has that again.
//!
//! In doubt it is revoked, as it always was before it could be left. A sign of life that arrives late makes it longer and
//! does no harm. What a call of the former owner still notes or asks for finds that the lease is [elsewhere](Spares).

use std::time::Duration;

use super::{Ledger, Page};
use crate::backend::etcd::ledger::Lease;
use crate::backend::etcd::spare;
use crate::clock::Moment;

#[cfg(doc)]
use super::Spares;

/// An entry that is about to be deleted, and its lease left to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Leaving {
    pub(in super::super) lease: i64,
    /// The revision at which the entry was created, if it is known to hold the key.
    pub(in super::super) created: Option<i64>,
}

impl Ledger {
    /// Notes a reason not to leave the lease of an entry to others.
    pub(in super::super) fn doubt(&self, own: &[u8]) {
        if let Some(page) = self.0.lock().pages.get_mut(own) {
            page.doubts = page.doubts.saturating_add(1);
        }
    }

    /// Notes that a request that writes the entry, and binds it to the lease `id`, is about to be sent. Returns whether one
    /// that writes it was sent before.
    pub(in super::super) fn begin_bind(&self, own: &[u8], stored: &[u8], id: i64) -> bool {
        let pages = &mut *self.0.lock();
        let Some(page) = pages.pages.get_mut(own) else { return false };
        page.binding.push(id);
        let before = page.written;
        pages.names.extend(page.writes(stored));
        before
    }

    /// Notes that such a request was answered, and has written nothing. `before` is what `begin_bind` has returned.
    pub(in super::super) fn not_written(&self, own: &[u8], id: i64, before: bool) {
        self.bound(own, id);
        if let Some(page) = self.0.lock().pages.get_mut(own) {
            page.written = before;
        }
    }

    /// Notes that such a request was answered.
    pub(in super::super) fn bound(&self, own: &[u8], id: i64) {
        let mut pages = self.0.lock();
        let Some(page) = pages.pages.get_mut(own) else { return };
        if let Some(at) = page.binding.iter().position(|binding| *binding == id) {
            page.binding.swap_remove(at);
        }
    }

    /// Takes a lease of the length `ttl`, of which at most `age` is over, for an entry of which nothing is known.
    pub(in super::super) fn take_spare(
        &self,
        own: &[u8],
        ttl: Duration,
        age: Duration,
        now: Moment,
    ) -> Option<Lease> {
        let pages = &mut *self.0.lock();
        pages.sweep(now);
        if pages.pages.contains_key(own) {
            return None;
        }
        let lease = pages.spares.take(own, ttl, age, now)?;
        let stored = pages.names.choose(own);
        pages.pages.insert(own.to_vec(), Page { stored, asked: vec![lease], ..Page::default() });
        Some(lease)
    }

    /// Takes a lease as [`take_spare`](Self::take_spare), for an entry that is to be bound to it instead of another one.
    pub(in super::super) fn take_instead(
        &self,
        own: &[u8],
        ttl: Duration,
        age: Duration,
        now: Moment,
    ) -> Option<Lease> {
        let pages = &mut *self.0.lock();
        let page = pages.pages.get_mut(own)?;
        let lease = pages.spares.take(own, ttl, age, now)?;
        page.asked.push(lease);
        Some(lease)
    }

    /// Leaves the lease `id` to others, instead of which the entry is bound to another one by now, if it is certain that
    /// nothing else is under way. Otherwise it ends by itself.
    pub(in super::super) fn leave_former(&self, own: &[u8], id: i64, now: Moment) {
        let mut pages = self.0.lock();
        let page = pages.pages.get(own).filter(|page| page.doubts == 0 && page.is_quiet(id));
        let former = page.and_then(|page| page.asked.iter().find(|lease| lease.id == id).copied());
        pages.revoked(own, id);
        if let Some(former) = former {
            pages.spares.keep(former, now);
        }
    }

    /// Leaves the lease `id`, which the entry was never bound to, to others. Returns whether that is certain and wanted.
    pub(in super::super) fn leave_unused(&self, own: &[u8], id: i64, now: Moment) -> bool {
        let is_unused = |page: &Page| page.held.is_none() && page.doubts == 0;
        self.pass_on(own, id, now, is_unused)
    }

    /// Begins to leave the lease of an entry to others, if that can be done once the entry is deleted. No further release
    /// leaves it: the deletion may not be answered.
    pub(in super::super) fn begin_leave(&self, own: &[u8], now: Moment) -> Option<Leaving> {
        let mut pages = self.0.lock();
        let page = pages.pages.get_mut(own).filter(|page| page.doubts == 0)?;
        let lease = page.only_lease()?;
        if now.since(lease.sent) >= spare::oldest(lease.ttl) {
            return None;
        }
        page.doubts = 1;
        Some(Leaving { lease: lease.id, created: page.held.map(|held| held.created) })
    }

    /// Leaves the lease `id` of an entry that was deleted to others. Returns whether that is still certain and wanted: it
    /// is not where another release has begun, which may have read the entry before, and may end its lease.
    pub(in super::super) fn end_leave(&self, own: &[u8], id: i64, now: Moment) -> bool {
        self.pass_on(own, id, now, |page| page.doubts == 1)
    }

    fn pass_on(&self, own: &[u8], id: i64, now: Moment, is_certain: impl Fn(&Page) -> bool) -> bool {
        let pages = &mut *self.0.lock();
        let page = pages.pages.get(own).filter(|page| is_certain(page));
        let lease = page.and_then(Page::only_lease).filter(|lease| lease.id == id);
        let is_kept = lease.is_some_and(|lease| pages.spares.keep(lease, now));
        if is_kept && let Some(page) = pages.pages.remove(own).filter(|page| !page.left) {
            pages.names.leave(page.stored);
        }
        is_kept
    }

    /// Returns the stored key of an entry, once, and if every request that could create it was answered. It may be
    /// [left](Self::leave_name) once all leases of the entry are revoked.
    pub(in super::super) fn name_to_leave(&self, own: &[u8]) -> Option<Vec<u8>> {
        let mut pages = self.0.lock();
        let page =
            pages.pages.get_mut(own).filter(|page| page.unanswered.is_empty() && page.binding.is_empty())?;
        let is_left = std::mem::replace(&mut page.left, true);
        (!is_left).then(|| page.stored.clone())
    }

    /// Leaves the name of an entry that is gone to others.
    pub(in super::super) fn leave_name(&self, stored: Vec<u8>) {
        self.0.lock().names.leave(stored);
    }

    /// Returns whether a lease has been left to others than the entry, whoever has it now.
    pub(in super::super) fn is_elsewhere(&self, own: &[u8], id: i64) -> bool {
        self.0.lock().spares.is_elsewhere(&[own], id)
    }

    /// Notes that somebody has ended the lease `id` while it was spare. What has ended it may have ended all that are
    /// spare: they are left to themselves.
    pub(in super::super) fn lapsed(&self, own: &[u8], id: i64) {
        let mut pages = self.0.lock();
        pages.revoked(own, id);
        pages.spares.drain();
    }

    /// Takes all spare leases out.
    pub(in super::super) fn drain_spares(&self) -> Vec<Lease> {
        self.0.lock().spares.drain()
    }
}

impl Page {
    /// Returns the lease of the entry, if it is the only one, and no request is under way that could bind the entry to it
    /// or end it.
    fn only_lease(&self) -> Option<Lease> {
        let [lease] = self.asked[..] else { return None };
        let is_held = self.held.is_none_or(|held| held.lease.id == lease.id);
        (self.is_quiet(lease.id) && is_held).then_some(lease)
    }

    /// Returns whether every request that grants the lease `id`, binds the entry to it or ends it was answered.
    fn is_quiet(&self, id: i64) -> bool {
        [&self.unanswered, &self.binding, &self.revoking].iter().all(|ids| !ids.contains(&id))
    }
}

#[cfg(test)]
mod tests;
