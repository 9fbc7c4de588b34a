//! Acquiring one key.

use std::time::Duration;

use super::secure::{Longer, Secured};
use crate::backend::etcd::error::{Failure, Reaction};
use crate::backend::etcd::fence;
use crate::backend::etcd::keyspace;
use crate::backend::etcd::ledger::{Held, Lease};
use crate::backend::etcd::line::{self, Entry, Line, NO_LEASE, Own};
use crate::backend::etcd::look::{Blocked, FRESH, Look, Turn};
use crate::backend::etcd::proto::{Compare, PutRequest, TxnRequest, TxnResponse};
use crate::backend::etcd::spare;
use crate::backend::etcd::store::{self, Store, now, reads};
use crate::backend::etcd::ttl;
use crate::backend::{Ask, Attempt, Claim, Grant, Queue};
use crate::clock::Moment;
use crate::error::LockErrorKind;

/// The longest time for which the entry of a waiter stays without a sign of life. Longer than that of other stores:
/// etcd looks for leases that are over twice a second, and its shortest lease is two seconds.
pub(in super::super) const WAITER_LEASE: Duration = Duration::from_secs(4);

/// What one look at the line led to.
enum Step {
    Done(Attempt),
    /// The line has changed meanwhile, and was read again if there is a line.
    Again(Option<Line>),
}

/// One attempt.
struct Acquire<'a> {
    store: &'a Store,
    claim: &'a Claim,
    ask: Ask,
    /// The page of its entry.
    own: [Vec<u8>; 1],
    /// A lease that no entry is bound to yet.
    spare: Option<Lease>,
    /// Whether it may be one that a released lock has left.
    borrows: bool,
    /// A time before the last request that has read the line.
    read_at: Moment,
}

impl Store {
    /// Attempts the claim of one key once.
    pub(in super::super) async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt, Failure> {
        let own = [keyspace::page(&claim.key, claim.owner)];
        let (spare, borrows) = (None, claim.renews);
        let mut acquire = Acquire { store: self, claim, ask, own, spare, borrows, read_at: now() };
        let outcome = acquire.run().await;
        if let Some(lease) = acquire.spare.take() {
            // The release by the owner would end it too, but nobody releases what was refused.
            let _ = acquire.give_back(lease).await;
        }
        outcome
    }
}

impl Acquire<'_> {
    async fn run(&mut self) -> Result<Attempt, Failure> {
        // The watch that has caused this attempt may have read that it is its turn.
        let turn = self.store.ledger.take_turn(&self.own[0], FRESH, self.read_at);
        let mut step = match turn {
            Some(turn) => self.turn(turn).await?,
            None => self.guess().await?,
        };
        loop {
            let line = match step {
                Step::Done(attempt) => return Ok(attempt),
                Step::Again(Some(line)) => line,
                Step::Again(None) => {
                    self.read_at = now();
                    self.store.read(&self.claim.key).await?
                }
            };
            step = self.look(&line).await?;
        }
    }

    /// Takes the key unseen, if it may be free and there is a lease at hand: one request, which writes nothing if somebody
    /// stands in the line, and reads the line then.
    async fn guess(&mut self) -> Result<Step, Failure> {
        let may_be_free = self.ask != Ask::Probe && !self.store.busy.was_taken(&self.claim.key, self.read_at);
        // Without a connection nothing is sent, and nothing is to look as if it were.
        let is_connected = self.store.connections.current().is_some();
        if !may_be_free || !is_connected || !self.borrow(self.claim.ttl) {
            return Ok(Step::Again(None));
        }
        match self.take(&Line::default()).await {
            // A full database refuses the entry before it looks whether there is one: then the line says more.
            Err(failure) if failure.is_permanent() && failure.reaction != Reaction::Forbidden => {
                Ok(Step::Again(None))
            }
            step => step,
        }
    }

    async fn look(&mut self, line: &Line) -> Result<Step, Failure> {
        let claim = self.claim;
        self.store.busy.note(&claim.key, !line.entries.is_empty(), self.read_at);
        if let Some(place) = line.place(&self.own()) {
            return self.stands(line, place).await;
        }
        if let Some(text) = line.conflict(claim.mode) {
            return Err(Failure::new(LockErrorKind::InvalidRequest, text));
        }
        if line.admits(claim.mode) {
            return self.take(line).await;
        }
        let held = line.held(claim, None, None);
        let passed_on = claim.queue == Queue::Barging && held.own;
        let waits = match self.ask {
            Ask::Enqueue { room } => !passed_on && room.is_none_or(|room| held.waiters < Some(room)),
            Ask::Probe | Ask::Try => false,
        };
        if !waits {
            return Ok(Step::Done(Attempt::Held(held)));
        }
        // Whoever comes after this answer stands behind the claim too, so its process can hand that grant on to it.
        match line.shares_with(claim) {
            Some(owner) => {
                Ok(Step::Done(Attempt::Held(crate::backend::Held { behind: Some(owner), ..held })))
            }
            None => self.join(line).await,
        }
    }

    /// The claim has an entry already.
    async fn stands(&mut self, line: &Line, place: usize) -> Result<Step, Failure> {
        let entry = &line.entries[place];
        if entry.lease == NO_LEASE || entry.owner.is_none() {
            // Another program has written it, and nothing of the claim would end it: its owner lines up again.
            self.store.delete(&[entry]).await?;
            return Ok(Step::Again(None));
        }
        if self.store.ledger.is_being_revoked(&entry.page, entry.lease) {
            // An earlier attempt has given it up, and may yet be heard: the claim lines up again.
            self.store.revoke(&self.own, entry.lease).await?;
            return Ok(Step::Again(None));
        }
        if entry.kept || entry.mode != self.claim.mode {
            // It has released the key, or it is a reader that asks as a writer: it would wait for itself.
            return Ok(Step::Done(Attempt::Held(line.held(self.claim, None, None))));
        }
        if let Some(turn) = Turn::of(line, place, self.read_at) {
            return self.turn(turn).await;
        }
        Ok(match self.store.keep_place(&entry.page, entry.lease, self.read_at).await? {
            Some(sent) => self.waits(line, place, sent),
            None => Step::Again(None),
        })
    }

    /// The turn of the claim has come.
    async fn turn(&mut self, turn: Turn) -> Result<Step, Failure> {
        self.claim.mark_sent();
        if let Some(held) = self.store.as_it_waited(self.claim, &turn).await? {
            return Ok(self.granted(turn.waiting, held.granted, self.since(held.lease, turn.read_at)));
        }
        let longer = if self.claim.renews { Longer::Spare } else { Longer::Fresh };
        Ok(match self.store.secure(&[&turn.entry], self.claim.ttl, turn.read_at, longer).await? {
            Secured::Held { granted, lease } => {
                self.granted(turn.waiting, granted, self.since(lease, turn.read_at))
            }
            Secured::Changed | Secured::Over => Step::Again(None),
        })
    }

    /// The claim stands in line, since `sent` at the latest. Its watch need not read that again.
    fn waits(&self, line: &Line, place: usize, sent: Moment) -> Step {
        if let Some(blocked) = Blocked::of(line, Some(place), self.claim, self.read_at) {
            self.store.ledger.leave(&self.own[0], Look::Waits(blocked));
        }
        Step::Done(Attempt::Held(line.held(self.claim, Some(place), Some(sent))))
    }

    /// Nothing stands in the way.
    async fn take(&mut self, seen: &Line) -> Result<Step, Failure> {
        let lease = self.lease(self.claim.ttl).await?;
        let Some((put, line)) = self.put(seen, lease).await? else { return Ok(Step::Again(None)) };
        let place = line.place(&self.own()).filter(|_| put);
        match place {
            Some(place) if line.holder(place).is_some() => {
                // The transaction that created it made it the holder.
                let created = line.entries[place].created;
                let held = Held { created, granted: created, lease };
                self.store.ledger.hold(&self.own[0], &line.entries[place].stored, held);
                let waiting = line.entries.len() - line.holding();
                Ok(self.granted(waiting, created, self.since(lease, self.read_at)))
            }
            // Somebody whom it would overtake came in between: behind it, it looks again.
            Some(_) => {
                self.revoke(lease.id).await?;
                Ok(Step::Again(None))
            }
            None => Ok(Step::Again(Some(line))),
        }
    }

    /// Joins the line behind those that stand in the way.
    async fn join(&mut self, seen: &Line) -> Result<Step, Failure> {
        let lease = self.lease(self.claim.ttl.min(WAITER_LEASE)).await?;
        let Some((put, line)) = self.put(seen, lease).await? else { return Ok(Step::Again(None)) };
        let Some(place) = line.place(&self.own()).filter(|_| put) else {
            return Ok(Step::Again(Some(line)));
        };
        if line.holder(place).is_some() {
            return Ok(Step::Again(Some(line)));
        }
        let held = line.held(self.claim, Some(place), Some(self.read_at));
        if let Ask::Enqueue { room: Some(room) } = self.ask
            && held.position >= Some(room)
        {
            // Others joined at the same moment.
            self.revoke(lease.id).await?;
            return Ok(Step::Done(Attempt::Held(crate::backend::Held {
                position: None,
                queued_at: None,
                ..held
            })));
        }
        Ok(self.waits(&line, place, self.read_at))
    }

    /// Returns a lease of `ttl`, the spare one if it is as long. An entry is bound to it next.
    async fn lease(&mut self, ttl: Duration) -> Result<Lease, Failure> {
        if let Some(spare) = self.spare.take() {
            let fits = spare.ttl == ttl::rounded_up(ttl) || (spare.ttl > ttl && ttl < self.store.min_ttl);
            if fits && now().since(spare.sent) < spare::oldest(ttl) {
                self.claim.mark_sent();
                self.spare = Some(spare);
                return Ok(spare);
            }
            self.give_back(spare).await?;
        }
        // Until now nothing could be left behind.
        self.claim.mark_sent();
        self.borrow(ttl);
        let lease = match self.spare {
            Some(spare) => spare,
            None => self.store.grant(&self.own, ttl).await?,
        };
        self.spare = Some(lease);
        Ok(lease)
    }

    /// Takes a lease of `ttl` that a released lock has left. Not for a claim that is not renewed, which has its whole ttl
    /// at once. Returns whether there was one.
    fn borrow(&mut self, ttl: Duration) -> bool {
        if self.borrows {
            let (length, age) = (self.store.given(ttl), spare::oldest(ttl));
            self.spare = self.store.ledger.take_spare(&self.own[0], length, age, now());
        }
        self.spare.is_some()
    }

    /// Leaves a lease that no entry was bound to to the next claim, or revokes it.
    async fn give_back(&self, lease: Lease) -> Result<(), Failure> {
        if self.claim.renews && self.store.ledger.leave_unused(&self.own[0], lease.id, now()) {
            return Ok(());
        }
        self.revoke(lease.id).await
    }

    /// Adds an entry at the end of the line, if the last one that was seen is still there: all that stand in a line go
    /// together with each other, so whoever came since goes together with this claim too. The last one, because it stays
    /// longest. Returns whether the entry was added, and what there is now; `None` if the lease was over.
    async fn put(&mut self, seen: &Line, lease: Lease) -> Result<Option<(bool, Line)>, Failure> {
        self.read_at = now();
        // What may be there before the request: a value of another program at a name that was never written is no own one.
        let (claim, [page], own) = (self.claim, &self.own, self.own());
        let stored = self.store.ledger.stored(page);
        let stored = stored.unwrap_or_else(|| keyspace::new_entry(keyspace::line_of(page)));
        let unchanged = match seen.entries.last() {
            Some(last) => Compare::created_at(last.stored.clone(), last.created),
            None => {
                let (from, to) = keyspace::line(&claim.key);
                Compare::none_created_since(from, to, 1)
            }
        };
        let value = line::value(claim, claim.mode, false);
        let put = PutRequest { key: stored.clone(), value, lease: lease.id, ..PutRequest::default() };
        let read = reads(&claim.key);
        let txn = TxnRequest {
            compare: vec![Compare::created_at(stored.clone(), 0), unchanged],
            success: vec![put.into(), read.clone()],
            failure: vec![read],
        };
        let Some(answer) = self.bind(txn, &stored, lease).await? else { return Ok(None) };
        let (put, revision) = (answer.succeeded, answer.revision());
        if put {
            // An entry is bound to it, whatever else the answer says.
            self.spare = None;
        }
        let line = store::line(&mut answer.ranges(), revision)?;
        let is_other = |entry: &Entry| entry.stored == stored && !own.is(entry);
        if line.entries.iter().any(is_other) {
            self.store.ledger.rename(&self.own[0]);
        }
        Ok(Some((put, line)))
    }

    /// Runs a transaction that binds the entry to a lease. Returns `None` if somebody has ended the lease: then the claim
    /// asks for another one.
    async fn bind(
        &mut self,
        txn: TxnRequest,
        stored: &[u8],
        lease: Lease,
    ) -> Result<Option<TxnResponse>, Failure> {
        let ([own], ledger) = (&self.own, &self.store.ledger);
        let written_before = ledger.begin_bind(own, stored, lease.id);
        match self.store.txn(txn).await {
            Ok(answer) => {
                match answer.succeeded {
                    true => ledger.bound(own, lease.id),
                    false => ledger.not_written(own, lease.id, written_before),
                }
                Ok(Some(answer))
            }
            Err(failure) if failure.reaction == Reaction::NoLease => {
                ledger.lapsed(own, lease.id);
                (self.spare, self.borrows) = (None, false);
                Ok(None)
            }
            Err(failure) => {
                if failure.is_permanent() {
                    ledger.not_written(own, lease.id, written_before);
                }
                Err(failure)
            }
        }
    }

    /// Revokes a lease of the entry. Leaves its name, if it has no other.
    async fn revoke(&self, id: i64) -> Result<(), Failure> {
        let ([own], ledger) = (&self.own, &self.store.ledger);
        let name = ledger.name_to_leave(own);
        self.store.revoke(&self.own, id).await?;
        name.filter(|_| ledger.stored(own).is_none()).into_iter().for_each(|name| ledger.leave_name(name));
        Ok(())
    }

    fn own(&self) -> Own {
        Own { stored: self.store.ledger.written(&self.own[0]), page: self.own[0].clone() }
    }

    /// Returns from when a grant counts on its lease, and for how long, where it was asked for after `asked`. A grant that is
    /// not renewed has a lease of its own, and all of it.
    fn since(&self, lease: Lease, asked: Moment) -> (Moment, Duration) {
        let began_before = asked.since(lease.sent) > Duration::ZERO;
        if self.claim.renews && began_before { (asked, lease.rest(asked)) } else { (lease.sent, lease.ttl) }
    }

    /// The claim is granted since the revision `granted`, for a time from a moment on.
    fn granted(&self, waiting: usize, granted: i64, (since, length): (Moment, Duration)) -> Step {
        let length = self.store.relied_on(length, self.claim.ttl);
        let grant = Grant::new(since, length).with_waiters(Some(waiting));
        Step::Done(Attempt::Granted(grant.with_fence(fence::token(self.claim, granted))))
    }
}
