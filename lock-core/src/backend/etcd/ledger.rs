//! What this process knows of its own entries, so that a renewal need not ask and a release finds everything.
//!
//! Each entry has a page, which is known by its key and its owner. So a call of an owner that is overtaken by its own release
//! finds nothing, although the stored name and the lease may be those of another owner by then.

mod leave;

use std::collections::HashMap;
use std::time::Duration;

pub(super) use self::leave::Leaving;
use super::keyspace;
use super::look::{Look, Turn};
use super::names::Names;
use super::spare::Spares;
use crate::clock::Moment;
use crate::sync::Mutex;

/// A lease that an entry is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) id: i64,
    /// As the server gave it.
    pub(super) ttl: Duration,
    /// It lives for `ttl` from here on, whichever member leads: when it was asked for, or when the cluster was asked for
    /// something else before a sign of life. The answer to that one alone proves nothing: the member that gave it may
    /// have been replaced as the leader.
    pub(super) sent: Moment,
}

impl Lease {
    /// Returns what is left of it.
    pub(super) fn left(&self, now: Moment) -> Duration {
        self.sent.plus(self.ttl).remaining(now)
    }

    /// Returns what a grant that begins at `now` may rely on: what is left of it where the clock of the server is faster. A
    /// grant is counted so from its own beginning, which the lease does not know that an earlier lock has left.
    pub(super) fn rest(&self, now: Moment) -> Duration {
        self.left(now).saturating_sub(now.since(self.sent) / 100)
    }
}

/// An entry that holds its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// The revision at which the entry was created.
    pub(super) created: i64,
    /// The revision of the transaction that made it the holder: its fencing token. No entry behind it can have a
    /// smaller one, because its own transaction comes after this one is gone.
    pub(super) granted: i64,
    pub(super) lease: Lease,
}

/// A revision from which the fencing tokens of a holder are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Since {
    pub(super) revision: i64,
    /// How often the grant had been handed on by then.
    pub(super) handoffs: u64,
}

#[derive(Debug, Default)]
struct Page {
    /// The stored key.
    stored: Vec<u8>,
    /// Whether a request that creates the entry with that key was sent.
    written: bool,
    /// Whether the name was left to others.
    left: bool,
    /// Every lease that was asked for and not revoked since, whether the server gave it or not.
    asked: Vec<Lease>,
    /// Those of them whose request was not answered: it may yet arrive.
    unanswered: Vec<i64>,
    /// Once the entry holds the key.
    held: Option<Held>,
    /// The last revision from which the tokens of the holder with this `created` are counted, after that of its grant.
    renumbered: Option<(i64, Since)>,
    /// What was last read of the entry, until the next call takes it.
    look: Option<Look>,
    /// Leases for whose end a request was sent that was not answered: it may yet arrive.
    revoking: Vec<i64>,
    /// Leases that a request binds the entry to that was not answered: it may yet arrive.
    binding: Vec<i64>,
    /// How many reasons there are, beside the above, not to leave its lease to others: releases that have begun, further
    /// keys of the lease, a lease of unknown origin.
    doubts: u32,
}

/// How long after the end of the last lease a page is kept: nobody comes back for it.
const KEPT: Duration = Duration::from_secs(60);

/// The ledger has so many pages before those that ran out are looked for.
const SWEEP_FROM: usize = 1_024;

/// The leases of this process, by the [page](keyspace::page) of their entry.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    pages: HashMap<Vec<u8>, Page>,
    spares: Spares,
    names: Names,
    sweep_at: usize,
}

impl Ledger {
    /// Notes a lease that is about to be asked for: a release must find it, also when the answer is lost.
    pub(super) fn ask(&self, own: &[u8], lease: Lease) {
        let pages = &mut *self.0.lock();
        pages.sweep(lease.sent);
        let with_name = || Page { stored: pages.names.choose(own), ..Page::default() };
        let page = pages.pages.entry(own.to_vec()).or_insert_with(with_name);
        page.asked.push(lease);
        page.unanswered.push(lease.id);
    }

    /// Notes that a lease is about to be revoked. Returns whether it may be: not where the entries have left it to others.
    pub(super) fn begin_revoke(&self, own: &[impl AsRef<[u8]>], id: i64) -> bool {
        let mut pages = self.0.lock();
        if pages.spares.is_elsewhere(own, id) {
            return false;
        }
        for own in own {
            let Some(page) = pages.pages.get_mut(own.as_ref()) else { continue };
            // Once, however often a release is repeated.
            page.revoking.retain(|revoking| *revoking != id);
            page.revoking.push(id);
        }
        true
    }

    /// Returns whether the lease `id` may end at any time, because a request for that was sent and not answered.
    pub(super) fn is_being_revoked(&self, own: &[u8], id: i64) -> bool {
        self.0.lock().pages.get(own).is_some_and(|page| page.revoking.contains(&id))
    }

    /// Notes that the server gave a lease, which may be longer than was asked for.
    pub(super) fn given(&self, own: &[u8], lease: Lease) {
        if let Some(page) = self.0.lock().pages.get_mut(own) {
            page.unanswered.retain(|unanswered| *unanswered != lease.id);
            page.asked
                .iter_mut()
                .filter(|asked| asked.id == lease.id)
                .for_each(|asked| asked.ttl = lease.ttl);
        }
    }

    /// Returns the stored key of an entry; `None` where nothing is known of it.
    pub(super) fn stored(&self, own: &[u8]) -> Option<Vec<u8>> {
        self.0.lock().pages.get(own).map(|page| page.stored.clone())
    }

    /// Returns the stored key of an entry, if it may be there.
    pub(super) fn written(&self, own: &[u8]) -> Option<Vec<u8>> {
        let pages = self.0.lock();
        pages.pages.get(own).filter(|page| page.written).map(|page| page.stored.clone())
    }

    /// Chooses another stored key for an entry, where that of another one has its name.
    pub(super) fn rename(&self, own: &[u8]) {
        if let Some(page) = self.0.lock().pages.get_mut(own) {
            (page.stored, page.written) = (keyspace::new_entry(keyspace::line_of(own)), false);
        }
    }

    /// Returns whether the entry is known to hold the key.
    pub(super) fn holds(&self, own: &[u8]) -> bool {
        self.0.lock().pages.get(own).is_some_and(|page| page.held.is_some())
    }

    /// Notes that the entry with a stored key holds the lock.
    pub(super) fn hold(&self, own: &[u8], stored: &[u8], held: Held) {
        let pages = &mut *self.0.lock();
        if pages.spares.is_elsewhere(&[own], held.lease.id) {
            // A renewal that was overtaken by the release of the entry.
            return;
        }
        let of_unknown_origin = || Page { stored: stored.to_vec(), doubts: 1, ..Page::default() };
        let page = pages.pages.entry(own.to_vec()).or_insert_with(of_unknown_origin);
        if !page.asked.iter().any(|asked| asked.id == held.lease.id) {
            page.doubts = page.doubts.saturating_add(1);
        }
        page.asked.retain(|asked| asked.id != held.lease.id);
        page.asked.push(held.lease);
        pages.names.extend(page.writes(stored));
        page.held = Some(held);
    }

    /// Notes that the lease of an entry was kept alive, whether it holds the key or waits.
    pub(super) fn kept(&self, own: &[u8], lease: Lease) {
        let mut pages = self.0.lock();
        let Some(page) = pages.pages.get_mut(own) else { return };
        if let Some(held) = page.held.as_mut().filter(|held| held.lease.id == lease.id) {
            held.lease = lease;
        }
        let later =
            |asked: &&mut Lease| asked.id == lease.id && lease.sent.since(asked.sent) > Duration::ZERO;
        page.asked.iter_mut().filter(later).for_each(|asked| *asked = lease);
    }

    /// Leaves what was read of an entry of this process to the next call.
    pub(super) fn leave(&self, own: &[u8], look: Look) {
        if let Some(page) = self.0.lock().pages.get_mut(own) {
            page.look = Some(look);
        }
    }

    /// Takes what was read of an entry that waits.
    pub(super) fn take_look(&self, own: &[u8]) -> Option<Look> {
        self.0.lock().pages.get_mut(own)?.look.take()
    }

    /// Takes what was read of an entry whose turn has come, if that was at most `age` before `now`.
    pub(super) fn take_turn(&self, own: &[u8], age: Duration, now: Moment) -> Option<Turn> {
        let Look::Turn(turn) = self.take_look(own)? else { return None };
        if self.is_being_revoked(own, turn.entry.lease) {
            return None;
        }
        (now.since(turn.read_at) <= age).then_some(turn)
    }

    /// Returns the lease `id` of an entry that waits, if it is the only one that was ever asked for it.
    pub(super) fn waits_on(&self, own: &[u8], id: i64) -> Option<Lease> {
        let pages = self.0.lock();
        let page = pages.pages.get(own)?;
        let [lease] = page.asked[..] else { return None };
        (lease.id == id && page.unanswered.is_empty() && page.held.is_none()).then_some(lease)
    }

    /// Returns what is known of the entry that was `created` at this revision, if it holds the key.
    pub(super) fn held(&self, own: &[u8], created: i64) -> Option<Held> {
        self.0.lock().pages.get(own)?.held.filter(|held| held.created == created)
    }

    /// Returns since when the tokens of the entry that was `created` at this revision are counted, if it holds the key.
    pub(super) fn counted_since(&self, own: &[u8], created: i64) -> Option<Since> {
        self.0.lock().pages.get(own)?.counted_since(created)
    }

    /// Notes that the tokens of an entry are counted anew, unless somebody has noted that since `before`. Returns what
    /// counts.
    pub(super) fn renumber(&self, own: &[u8], created: i64, before: Option<Since>, since: Since) -> Since {
        let mut pages = self.0.lock();
        let Some(page) = pages.pages.get_mut(own) else { return since };
        if let Some(other) = page.counted_since(created).filter(|now| Some(*now) != before) {
            return other;
        }
        page.renumbered = Some((created, since));
        since
    }

    /// Returns what is known of the lease `id`.
    pub(super) fn lease(&self, own: &[u8], id: i64) -> Option<Lease> {
        self.0.lock().pages.get(own)?.asked.iter().find(|lease| lease.id == id).copied()
    }

    /// Returns the leases of an entry other than `bound` that the server gave: a request that binds the entry to one of
    /// them may be under way. None was sent for a lease whose own request was not answered.
    pub(super) fn strays(&self, own: &[u8], bound: i64) -> Vec<i64> {
        self.0.lock().pages.get(own).map_or_else(Vec::new, |page| page.strays(bound).collect())
    }

    /// Returns whether the entry is known to hold the key on the lease `id`, and no request can bind it to another.
    pub(super) fn is_settled(&self, own: &[u8], id: i64) -> bool {
        let pages = self.0.lock();
        let Some(page) = pages.pages.get(own) else { return false };
        page.held.is_some_and(|held| held.lease.id == id) && page.strays(id).next().is_none()
    }

    /// Returns whether the lease that the entry is known to have ends later than `lease`.
    pub(super) fn outlives(&self, own: &[u8], created: i64, lease: Lease, now: Moment) -> bool {
        self.held(own, created).is_some_and(|held| held.lease.left(now) > lease.left(now))
    }

    /// Returns the ids of all leases of an entry.
    pub(super) fn ids(&self, own: &[u8]) -> Vec<i64> {
        let pages = self.0.lock();
        pages.pages.get(own).map_or_else(Vec::new, |page| page.asked.iter().map(|lease| lease.id).collect())
    }

    /// Notes that the server has no lease `id`. One that was asked for and not answered is kept: its request may arrive
    /// later, and the release is repeated.
    pub(super) fn missing(&self, own: &[u8], id: i64) {
        let unanswered = self.0.lock().pages.get(own).is_some_and(|page| page.unanswered.contains(&id));
        if !unanswered {
            self.revoked(own, id);
        }
    }

    /// Forgets a lease that is revoked.
    pub(super) fn revoked(&self, own: &[u8], id: i64) {
        self.0.lock().revoked(own, id);
    }

    /// Forgets an entry that is released, but for what may yet arrive.
    pub(super) fn forget(&self, own: &[u8]) {
        let pages = &mut *self.0.lock();
        let Some(page) = pages.pages.get_mut(own) else { return };
        page.held = None;
        let Page { asked, unanswered, .. } = page;
        let (stay, end): (Vec<_>, Vec<_>) = asked.drain(..).partition(|lease| unanswered.contains(&lease.id));
        *asked = stay;
        end.iter().for_each(|lease| pages.spares.ended(lease.id));
        if asked.is_empty() {
            pages.pages.remove(own);
        }
    }
}

impl Page {
    /// Notes that the entry is written under this name, which another store of the process may have chosen. Returns the name
    /// that was chosen here and not used.
    fn writes(&mut self, stored: &[u8]) -> Option<Vec<u8>> {
        let other = (self.stored != stored).then(|| std::mem::replace(&mut self.stored, stored.to_vec()));
        let was_written = std::mem::replace(&mut self.written, true);
        other.filter(|_| !was_written)
    }

    fn counted_since(&self, created: i64) -> Option<Since> {
        let held = self.held.filter(|held| held.created == created)?;
        let renumbered = self.renumbered.filter(|(of, _)| *of == created).map(|(_, since)| since);
        Some(renumbered.unwrap_or(Since { revision: held.granted, handoffs: 0 }))
    }

    fn strays(&self, bound: i64) -> impl Iterator<Item = i64> + '_ {
        let given = self.asked.iter().map(|lease| lease.id).filter(|id| !self.unanswered.contains(id));
        given.filter(move |id| *id != bound)
    }
}

impl Pages {
    fn revoked(&mut self, own: &[u8], id: i64) {
        let Some(page) = self.pages.get_mut(own) else { return };
        self.spares.ended(id);
        page.asked.retain(|lease| lease.id != id);
        for ids in [&mut page.unanswered, &mut page.revoking, &mut page.binding] {
            ids.retain(|other| *other != id);
        }
        page.held = page.held.filter(|held| held.lease.id != id);
        if page.asked.is_empty() {
            self.pages.remove(own);
        }
    }

    /// Drops the pages of leases that have run out, as those of a claim whose process lost it and never released it.
    fn sweep(&mut self, now: Moment) {
        if self.pages.len() < self.sweep_at.max(SWEEP_FROM) {
            return;
        }
        let lives = |lease: &Lease| !lease.sent.plus(lease.ttl + KEPT).is_past(now);
        self.pages.retain(|_, page| page.asked.iter().any(lives));
        self.spares.retain_of(|own| self.pages.contains_key(own));
        self.sweep_at = self.pages.len().saturating_mul(2);
    }
}

#[cfg(test)]
mod tests;
