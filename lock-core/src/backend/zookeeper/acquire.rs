//! Tries to acquire the key of a claim of one key.

use zookeeper_client::Error;

use super::claim_sites::ClaimSites;
use super::error::{Failure, is_refusal};
use super::line::{Line, Place};
use super::places::{OwnNode, Seen, Site, deleted};
use crate::backend::conflict::{self, Use};
use crate::backend::remote::deadline;
use crate::backend::{Ask, Attempt, Held, Mode, Queue};
use crate::clock::Moment;
use crate::error::LockErrorKind;

impl Site<'_> {
    /// Sends the requests of one attempt of `claim`, the claim of this key. After an error, it may be unknown whether the
    /// claim has a node. `has_waited` says whether the claim already waited before this attempt.
    pub(super) async fn attempt_once(
        &self,
        claim: &ClaimSites<'_>,
        ask: Ask,
        sent: Moment,
        doubt: bool,
        has_waited: bool,
    ) -> Result<Attempt, Failure> {
        if let Some(entry) = self.entry()? {
            self.claim.mark_sent();
            // If the creation was not answered, only the leader knows whether there is a node.
            let certain = entry.node.is_some() && !doubt;
            if certain && let Some(attempt) = self.waits_still(ask, &entry).await? {
                return Ok(attempt);
            }
            match self.look_for_own(entry.node, certain).await? {
                (seen, Some(name)) => {
                    let own = OwnNode { name, sent, created: None };
                    return self.answer(claim, ask, &seen, own, has_waited).await;
                }
                (_, None) => self.session.with(|grants| grants.forget(&self.prefix))?,
            }
        } else if self.looks_first(ask)? {
            let seen = self.look_without_node().await?;
            if let Some(held) = self.without_node(ask, &seen.line).await? {
                return Ok(held);
            }
        }
        let exists = self.session.with(|grants| grants.has_node_in(&self.directory))?;
        // The wait for the turn takes at most a quarter of the claim's deadline.
        let patience = deadline::of_call(self.config.timeout, self.claim.ttl) / 4;
        let mut turn = self.session.turns.begin(&self.directory, exists, patience).await;
        self.session.with(|grants| grants.begin(&self.prefix, self.claim))?;
        self.claim.mark_sent();
        let (own, seen) = match self.create(&mut turn).await {
            Ok(answers) => answers,
            Err(error) => {
                if is_refusal(&error) {
                    self.session.with(|grants| grants.forget(&self.prefix))?;
                }
                return Err(error.into());
            }
        };
        self.session.with(|grants| grants.has_node(&self.prefix, &own.name))?;
        if let Some(turn) = turn {
            turn.found();
        }
        let seen = self.without_others(&own.name, seen).await?;
        self.answer(claim, ask, &seen, own, has_waited).await
    }

    /// Returns whether the claim reads the queue before it creates a node. If the key is held, it may get no node.
    fn looks_first(&self, ask: Ask) -> Result<bool, Failure> {
        self.session.with(|grants| match ask {
            Ask::Enqueue { room: Some(_) } => true,
            Ask::Probe | Ask::Try if grants.is_busy(&self.directory) => true,
            // A claim to which the process hands the key off gets no place in the queue.
            _ => grants.may_serve(&self.directory, self.claim.owner),
        })
    }

    /// Returns the answer for a claim that gets no node, or `None` if the claim must create one.
    async fn without_node(&self, ask: Ask, line: &Line) -> Result<Option<Attempt>, Failure> {
        if let Some(with) = line.clash(self.claim.mode) {
            return Err(self.in_use(with));
        }
        if line.admits(self.claim.mode) || !self.stays_outside(ask, line) {
            return Ok(None);
        }
        Ok(Some(Attempt::Held(self.held(ask, line, None).await?)))
    }

    /// Returns the answer for a claim that has the node `own`, or had it a moment ago.
    async fn answer(
        &self,
        claim: &ClaimSites<'_>,
        ask: Ask,
        seen: &Seen,
        own: OwnNode,
        has_waited: bool,
    ) -> Result<Attempt, Failure> {
        let OwnNode { name, sent, created } = own;
        let Some(at) = seen.line.place_named(&name) else {
            self.session.with(|grants| grants.forget(&self.prefix))?;
            return Err(deleted());
        };
        self.session.with(|grants| grants.has_node(&self.prefix, &name))?;
        if seen.line.entries()[at].mode == Mode::Shared && self.claim.mode == Mode::Exclusive {
            // A reader cannot become a writer by another request.
            return Ok(Attempt::Held(self.held(ask, &seen.line, None).await?));
        }
        if seen.line.holds(at) {
            if created.is_none() {
                self.session.prove_recently(&self.config.base).await?;
            }
            let waiters = seen.line.waiters().len();
            return claim.granted(sent, &[seen.changed], created, Some(waiters)).await;
        }
        // After a wait, a conflict can only come from a lock of another program. The claim waits for the release of
        // that lock.
        if let Some(with) = seen.line.clash(self.claim.mode).filter(|_| !has_waited) {
            self.leave(&name).await?;
            return Err(self.in_use(with));
        }
        // A claim that already had a place in the queue keeps that place.
        let outside = !has_waited && self.stays_outside(ask, &seen.line);
        if outside || !ask.enqueues() {
            self.leave(&name).await?;
            return Ok(Attempt::Held(self.held(ask, &seen.line, None).await?));
        }
        let held = self.held(ask, &seen.line, Some((sent, at))).await?;
        self.waits(&seen.line, at, &held)?;
        Ok(Attempt::Held(held))
    }

    /// Returns whether a claim that cannot be served now gets no place in the queue.
    fn stays_outside(&self, ask: Ask, line: &Line) -> bool {
        let Ask::Enqueue { room } = ask else { return true };
        let ahead = line.waiters().len() - usize::from(self.own_waits(line));
        (self.claim.queue == Queue::Barging && self.own_holds(line)) || room.is_some_and(|room| ahead >= room)
    }

    fn own_waits(&self, line: &Line) -> bool {
        line.place_of(&self.mark).is_some_and(|at| at >= line.holders().len())
    }

    /// Returns whether a holder of this manager may hand the key off to the claim.
    fn own_holds(&self, line: &Line) -> bool {
        line.holders().iter().any(|place| self.is_handed_off_with(place))
    }

    /// Returns whether the claim at `place` belongs to the same manager as this claim, and may hand the key off to this
    /// claim.
    fn is_handed_off_with(&self, place: &Place) -> bool {
        let path = self.path(&place.name);
        let owner = self.session.with(|grants| grants.owner_of(&path)).ok().flatten();
        owner.is_some_and(|owner| owner.may_hand_off_to(&self.claim.owner))
    }

    /// Returns whether a claim of another manager waits for the key, or this claim does not hold it.
    pub(super) async fn others_wait(&self) -> Result<bool, Error> {
        let line = self.look().await?.line;
        let holding = line.holders().len();
        let holds = line.place_of(&self.mark).is_some_and(|at| at < holding);
        Ok(!holds || line.waiters().iter().any(|place| !self.is_handed_off_with(place)))
    }

    /// Returns the answer that the key is held. `queued` is the time and the place of the claim, if it waits in the
    /// queue.
    pub(super) async fn held(
        &self,
        ask: Ask,
        line: &Line,
        queued: Option<(Moment, usize)>,
    ) -> Result<Held, Error> {
        // The error is ignored, because the next request notices that the session is over.
        let _ = self.session.with(|grants| grants.was_busy(&self.directory, true));
        if ask == Ask::Probe {
            return Ok(Held::default());
        }
        let holders = line.holders();
        let holder = match holders.first() {
            Some(first) => self.holder(&first.name).await?,
            None => None,
        };
        Ok(Held {
            remaining: None,
            // This is not set for a holder of another library, because the release of such a holder also notifies the
            // waiters.
            foreign: false,
            holder,
            waiters: Some(line.waiters().len() - usize::from(self.own_waits(line))),
            position: queued.map(|(_, at)| at.saturating_sub(holders.len())),
            own: self.own_holds(line),
            queued_at: queued.map(|(sent, _)| sent),
            key: None,
            // The node is the grant, so this store keeps no key locked after a release.
            kept: false,
        })
    }

    /// Deletes a node that has just been created.
    async fn leave(&self, name: &str) -> Result<(), Failure> {
        // The deletion is repeated here. A new attempt would create another node first.
        while let Err(error) = self.delete(name).await {
            self.session.recover(error.into()).await?;
        }
        self.session.with(|grants| grants.forget(&self.prefix))
    }

    pub(super) fn in_use(&self, with: Mode) -> Failure {
        let text = conflict::in_use("the key", Use::Lock(with), Use::Lock(self.claim.mode));
        Failure::new(LockErrorKind::InvalidRequest, text)
    }
}
