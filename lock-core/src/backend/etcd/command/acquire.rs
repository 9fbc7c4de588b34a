//! Acquires one key.

use std::sync::Arc;
use std::time::Duration;

use super::create::{Created, Creation, New};
use super::view::{View, view};
use crate::backend::etcd::entries::{Id, Lease, Told};
use crate::backend::etcd::error::{Failure, Reaction};
use crate::backend::etcd::line::{self, Entry, Line};
use crate::backend::etcd::plan::{Plan, Put, Waits};
use crate::backend::etcd::proto::RangeResponse;
use crate::backend::etcd::session::now;
use crate::backend::etcd::store::{self, Store, counts, reads};
use crate::backend::remote::queue_copy::CopyUse;
use crate::backend::{Ask, Attempt, Claim, Held, Queue};
use crate::clock::{self, Moment};
use crate::error::LockErrorKind;

/// The longest time for which the entry of a waiter stays without a keep-alive. This time is longer than in other
/// stores, because etcd checks for expired leases twice a second, and its shortest lease is two seconds.
pub(in super::super) const WAITER_LEASE: Duration = Duration::from_secs(4);

/// One attempt to acquire a key.
pub(super) struct Acquire<'a> {
    pub(super) store: &'a Arc<Store>,
    pub(super) claim: &'a Claim,
    pub(super) ask: Ask,
    pub(super) id: Id,
    pub(super) began: Moment,
}

/// The way in which a claim has entered the queue.
enum Joined {
    /// The claim has the only entry, so it holds the key.
    Alone,
    /// The claim is in this queue. It is a holder, except if other claims joined at the same moment.
    Among(Line),
    /// The claim waits, behind this number of entries.
    Waiting(Held, usize),
}

impl Store {
    /// Makes one attempt at a claim of one key.
    pub(in super::super) async fn acquire(
        self: &Arc<Self>,
        claim: &Claim,
        ask: Ask,
    ) -> Result<Attempt, Failure> {
        let acquire = Acquire::new(self, claim, ask, now());
        loop {
            let attempt = match self.entries.get(&acquire.id) {
                Some(mine) => acquire.with_entry(&mine).await?,
                None => acquire.without_entry().await?,
            };
            if let Some(attempt) = attempt {
                return Ok(attempt);
            }
        }
    }
}

impl<'a> Acquire<'a> {
    pub(super) fn new(store: &'a Arc<Store>, claim: &'a Claim, ask: Ask, began: Moment) -> Self {
        Self { store, claim, ask, id: Id::new(&claim.key, claim.owner), began }
    }

    /// Attempts a claim that has no entry. Returns `None` if the claim must be attempted again.
    async fn without_entry(&self) -> Result<Option<Attempt>, Failure> {
        let (mut plan, turn) = self.enter().await?;
        let mut used = Vec::new();
        loop {
            let put = match plan {
                Plan::Refused(attempt) => return Ok(Some(attempt)),
                Plan::Put(put) => put,
                Plan::Known => return Ok(None),
                Plan::Waits(held, before) => return self.joined(Joined::Waiting(held, before)).await,
            };
            plan = match self.put(&put, &mut used).await {
                Ok(Created::At(revision, read)) => {
                    drop(turn);
                    return self.joined(self.joins(&put, read, revision)?).await;
                }
                Ok(Created::Changed(line)) => self.plan(&line, 0)?,
                Ok(Created::Over) => Plan::Put(put),
                // A full database refuses the entry before it checks the queue. If the queue refuses the claim too, the
                // answer of the queue is more useful.
                Err(failure) if failure.is_permanent() && failure.reaction != Reaction::Forbidden => {
                    let line = self.store.read(&self.claim.key).await?;
                    match self.plan(&line, 0)? {
                        Plan::Put(_) => return Err(failure),
                        plan => plan,
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Returns the first step of the claim. If a copy of the queue is known within `patience`, the copy determines this
    /// step. Otherwise the first request creates the entry. But a probe first reads the queue, and so does a claim with
    /// a separate lease, which a refusal would leave in the store.
    pub(super) async fn first_plan(&self, patience: Duration) -> Result<Plan, Failure> {
        if let Some(copy) = self.copy()
            && copy.is_known(patience).await
            && let Some(Ok(plan)) = copy.look(|line| self.plan(line, 0))
            && self.is_proved(&plan)
        {
            return Ok(plan);
        }
        // Without a connection, `put` would send no request, but could mark the claim as sent.
        if self.claim.renews && self.ask != Ask::Probe && self.store.connections.current().is_some() {
            return Ok(Plan::Put(Put { behind: None, waits: None }));
        }
        let line = self.store.read(&self.claim.key).await?;
        self.plan(&line, 0)
    }

    /// Returns the copy of the queue if the claim may wait in it. If another claim of this process is already in the
    /// queue, this creates a copy at once. Without the copy, a thousand claims that each read the queue would transfer
    /// a million entries.
    pub(super) fn copy(&self) -> Option<CopyUse<Entry>> {
        let (store, claim) = (self.store, self.claim);
        if !self.ask.enqueues() {
            return None;
        }
        let is_behind = || claim.queue == Queue::Fifo && store.entries.any_in(&self.id.line);
        store.copies.existing(&self.id.line).or_else(|| is_behind().then(|| store.copy_of(&claim.key, claim)))
    }

    /// Returns the largest number of claims that may wait before this one.
    fn room(&self) -> Option<usize> {
        match self.ask {
            Ask::Enqueue { room } => room,
            Ask::Probe | Ask::Try => None,
        }
    }

    /// Returns whether a copy of the queue is enough for this plan. The copy may be older than an answer that this
    /// process has received, so a copy cannot prove that the queue is full.
    pub(super) fn is_proved(&self, plan: &Plan) -> bool {
        self.room().is_none() || !matches!(plan, Plan::Refused(_))
    }

    /// Plans the next step of the claim. `beside` is the number of gathered claims (see `entering`) that are about to
    /// wait before this claim.
    pub(super) fn plan(&self, line: &Line, beside: usize) -> Result<Plan, Failure> {
        let claim = self.claim;
        if let Some(place) = line.place_of(claim.owner) {
            self.store.entries.note(&self.id, &line.queue.entries()[place]);
            return Ok(Plan::Known);
        }
        if let Some(text) = line.conflict(claim.mode) {
            return Err(Failure::new(LockErrorKind::InvalidRequest, text));
        }
        let behind = line.queue.entries().last().map(|last| (last.stored.clone(), last.created));
        if line.queue.admits(claim.mode) {
            return Ok(Plan::Put(Put { behind, waits: None }));
        }
        let held = line.held(claim, None, None);
        let passed_on = claim.queue == Queue::Barging && held.own;
        let waits = match self.ask {
            Ask::Enqueue { room } => {
                !passed_on
                    && room.is_none_or(|room| held.waiters.map(|waiters| waiters + beside) < Some(room))
            }
            Ask::Probe | Ask::Try => false,
        };
        if !waits {
            return Ok(Plan::Refused(Attempt::Held(held)));
        }
        let waits = Waits { held, holding: line.queue.holders().len() };
        Ok(Plan::Put(Put { behind, waits: Some(waits) }))
    }

    /// Adds the planned entry at the end of the queue. If the name of the new entry is in use, adds this name to
    /// `used`.
    async fn put(&self, put: &Put, used: &mut Vec<Vec<u8>>) -> Result<Created, Failure> {
        let (store, claim) = (self.store, self.claim);
        let lease = match put.waits {
            None => store.lease_for(claim, claim.ttl).await?,
            Some(_) => Lease::Shared(store.session(claim.ttl.min(WAITER_LEASE)).await?),
        };
        claim.mark_sent();
        let told = if put.waits.is_some() { Told::Waits } else { Told::Done };
        let stored = store.entries.begin(&self.id, &lease, told, used, now());
        let granted = put.waits.is_none().then(clock::wall);
        let value = line::value(claim, claim.mode, granted, false);
        let entry = New { id: self.id.clone(), stored: stored.clone(), value };
        let read = match (&put.waits, &put.behind) {
            (Some(_), _) => Some(counts(&claim.key)),
            (None, Some(_)) => Some(reads(&claim.key)),
            (None, None) => None,
        };
        let (key, behind) = (&claim.key, put.behind.clone());
        let created =
            store.create(Creation { key, lease: &lease, entries: vec![entry], behind, read }).await?;
        if let Created::Changed(line) = &created {
            // The name in use belongs to another program, or to an earlier owner whose `min_hold` is not over.
            used.extend(line.has(&stored).then_some(stored));
        }
        Ok(created)
    }

    /// Returns how the claim has entered the queue. `read` is what the transaction that created the entry has read, at
    /// `revision`.
    fn joins(&self, put: &Put, read: Option<RangeResponse>, revision: i64) -> Result<Joined, Failure> {
        Ok(match &put.waits {
            Some(waits) => {
                let count = read.and_then(|read| usize::try_from(read.count).ok()).unwrap_or_default();
                let before = count.saturating_sub(1);
                Joined::Waiting(waits.behind(before, self.began), before)
            }
            None if put.behind.is_some() => Joined::Among(store::line(&mut read.into_iter(), revision)?),
            None => Joined::Alone,
        })
    }

    /// Returns the answer for a claim whose entry was created, or `None` if the claim must be attempted again.
    async fn joined(&self, joined: Joined) -> Result<Option<Attempt>, Failure> {
        let Some(mut mine) = self.store.entries.get(&self.id) else { return Ok(None) };
        let expected_to_hold = !matches!(joined, Joined::Waiting(..));
        let view = match joined {
            Joined::Alone => View::Holds { revision: mine.modified, waiting: 0 },
            Joined::Among(line) => view(self.claim, self.began, &line, &mine),
            // At least one of the entries before this one is a holder. The number of holders is needed only if the
            // queue may be full, and only a read shows it.
            Joined::Waiting(_, before) if self.room().is_some_and(|room| before > room) => {
                let line = self.store.read(&self.claim.key).await?;
                match view(self.claim, self.began, &line, &mine) {
                    View::Waits(held) => View::Waits(held),
                    _ => return Ok(None),
                }
            }
            Joined::Waiting(held, _) => View::Waits(held),
        };
        let mut held = match view {
            View::Holds { waiting, .. } => {
                let revision = mine.modified;
                return self.granted(waiting, Some(revision)).await;
            }
            View::Waits(held) => held,
            _ => return Ok(None),
        };
        let is_full = self.room().is_some_and(|room| held.position >= Some(room));
        if is_full || !self.ask.enqueues() {
            // Other claims joined at the same moment, so this claim is refused after all.
            self.store.release(self.claim, None).await?;
            (held.position, held.queued_at) = (None, None);
        } else if expected_to_hold {
            // The value of the entry contains the time of a grant that did not happen, so the value is written again.
            mine.told = Told::Waits;
            self.store.entries.change(&self.id, |mine| mine.told = Told::Waits);
            let session = Lease::Shared(self.store.session(self.claim.ttl.min(WAITER_LEASE)).await?);
            self.store.bind(std::slice::from_ref(&self.id), &[mine], &session, Some(self.claim)).await?;
        }
        Ok(Some(Attempt::Held(held)))
    }
}
