//! Attempts a claim that has an entry in the queue: keeps the entry alive, and grants the claim when its turn comes.

use super::acquire::{Acquire, WAITER_LEASE};
use super::view::{View, view};
use crate::backend::etcd::entries::{Lease, Mine};
use crate::backend::etcd::error::Failure;
use crate::backend::etcd::fence;
use crate::backend::etcd::line::Line;
use crate::backend::etcd::session::oldest;
use crate::backend::etcd::store::Store;
use crate::backend::{Attempt, Claim, Grant, Mode};
use crate::clock::Moment;
use crate::error::LockErrorKind;

impl Acquire<'_> {
    /// Attempts a claim that has or may have an entry.
    pub(super) async fn with_entry(&self, mine: &Mine) -> Result<Option<Attempt>, Failure> {
        let (store, claim) = (self.store, self.claim);
        store.entries.change(&self.id, |mine| mine.asked = self.began);
        let is_sure = mine.created.is_some() && mine.is_certain();
        let seen = match store.copies.existing(&self.id.line).filter(|_| is_sure) {
            // All waiters of the key in this process share the copy, so this attempt needs no read of its own.
            Some(copy) if copy.is_known(store.timeout() / 4).await => {
                // A copy that is older than this entry may contain an earlier entry with the same name.
                let has_arrived = |line: &Line| mine.created <= Some(line.revision);
                let look = |line: &Line| has_arrived(line).then(|| view(claim, self.began, line, mine));
                copy.look(look).flatten()
            }
            _ => None,
        };
        let view = match seen {
            Some(view) => view,
            None => {
                let line = store.read(&claim.key).await?;
                match line.place_of(claim.owner) {
                    Some(place) if !is_sure => {
                        let mine = store.entries.note(&self.id, &line.queue.entries()[place]);
                        view(claim, self.began, &line, &mine)
                    }
                    _ => view(claim, self.began, &line, mine),
                }
            }
        };
        match view {
            View::Holds { revision, waiting } => self.turn(revision, waiting).await,
            View::Waits(held) => Ok(self.stays().await?.then_some(Attempt::Held(held))),
            View::Unfit(held) => Ok(Some(Attempt::Held(held))),
            View::Gone => {
                store.entries.remove(&self.id);
                Ok(None)
            }
            View::Foreign(entry) => {
                // Another program has overwritten the entry of this claim. No other process would delete that entry, so
                // it is deleted here. Then the owner queues again.
                store.delete(&[&entry]).await?;
                store.entries.remove(&self.id);
                Ok(None)
            }
        }
    }

    /// Keeps the entry of a waiter alive. If its lease is retired or uncertain, binds the entry to another lease.
    /// Returns `false` if the claim must be attempted again.
    async fn stays(&self) -> Result<bool, Failure> {
        let (store, claim) = (self.store, self.claim);
        claim.mark_sent();
        let Some(mine) = store.entries.get(&self.id) else { return Ok(false) };
        if let Some(session) =
            mine.lease.session().filter(|session| mine.is_certain() && !session.is_retired())
            && store.keep(session, oldest(session.ttl)).await?
        {
            return Ok(true);
        }
        let lease = Lease::Shared(store.session(claim.ttl.min(WAITER_LEASE)).await?);
        let bound = store.bind(std::slice::from_ref(&self.id), &[mine], &lease, Some(claim)).await?;
        if bound.is_none() {
            self.look_again().await?;
        }
        Ok(bound.is_some())
    }

    /// Reads and records an entry that another request has changed.
    async fn look_again(&self) -> Result<(), Failure> {
        let (store, claim) = (self.store, self.claim);
        let line = store.read(&claim.key).await?;
        match line.place_of(claim.owner) {
            Some(place) => drop(store.entries.note(&self.id, &line.queue.entries()[place])),
            // The next attempt deletes an entry that another program has overwritten.
            None if store.entries.get(&self.id).is_some_and(|mine| line.has(&mine.stored)) => {}
            None => drop(store.entries.remove(&self.id)),
        }
        Ok(())
    }

    /// Grants the claim. A read at `revision` has shown that the claim's turn has come.
    ///
    /// A claim with automatic renewal keeps the lease under which it has waited. The first renewal binds the entry to a
    /// lease of the whole ttl. So a lock that is released before that renewal needs no further request.
    async fn turn(&self, revision: i64, waiting: usize) -> Result<Option<Attempt>, Failure> {
        let (store, claim) = (self.store, self.claim);
        claim.mark_sent();
        let Some(mine) = store.entries.get(&self.id) else { return Ok(None) };
        let fits = match &mine.lease {
            Lease::Shared(session) => claim.renews && !session.is_retired(),
            Lease::Own { ttl, .. } => !claim.renews && *ttl >= claim.ttl,
        };
        if fits && mine.is_certain() {
            if !store.lives(&mine.lease).await? {
                return Ok(None);
            }
            // Two readers or permits may be granted at the same revision, but must not share a fencing token.
            let since = (claim.mode == Mode::Exclusive).then_some(revision);
            return self.granted(waiting, since).await;
        }
        let lease = store.lease_for(claim, claim.ttl).await?;
        let mine = Mine { told: mine.told.granted(), ..mine };
        store.entries.change(&self.id, |known| known.told = mine.told);
        match store.bind(std::slice::from_ref(&self.id), &[mine], &lease, Some(claim)).await? {
            Some(revision) => self.granted(waiting, Some(revision)).await,
            None => {
                self.look_again().await?;
                Ok(None)
            }
        }
    }

    /// Returns the grant of a claim that holds the key since `revision`, or `None` if its entry may be lost. `revision`
    /// is `None` if other holders may have the same revision.
    pub(super) async fn granted(
        &self,
        waiting: usize,
        revision: Option<i64>,
    ) -> Result<Option<Attempt>, Failure> {
        let (store, claim) = (self.store, self.claim);
        let Some(mine) = store.entries.grant(&self.id, revision) else { return Ok(None) };
        let token = match mine.since.and_then(|since| fence::token(claim, since)) {
            None if claim.fencing => match store.fence(claim).await? {
                Ok(token) => Some(token),
                Err(_) => return Ok(None),
            },
            token => token,
        };
        let grant = store.grant_on(&mine.lease, claim, self.began)?;
        Ok(Some(Attempt::Granted(grant.with_fence(token).with_waiters(Some(waiting)))))
    }
}

impl Store {
    /// Returns a grant for the time for which its lease certainly lives; if ttls are rounded up, at most for the
    /// claim's ttl.
    pub(super) fn grant_on(&self, lease: &Lease, claim: &Claim, began: Moment) -> Result<Grant, Failure> {
        let (sent, length) = match lease {
            Lease::Shared(session) => (began, session.left(began)),
            Lease::Own { ttl, sent, .. } => (*sent, *ttl),
        };
        if length.is_zero() {
            let text = "it has not kept the lease of this process alive in time";
            return Err(Failure::new(LockErrorKind::Unavailable, text).in_doubt());
        }
        Ok(Grant::new(sent, self.relied_on(length, claim.ttl)))
    }
}
