//! Acquires several keys: all of them or none.
//!
//! The first request is for all keys at once. If one of them is held, the keys are acquired one after another, each
//! with its own queue entry. The request does not wait until all keys are free at the same moment, because that moment
//! might never come. Every process uses the same order of keys, so no two requests wait for each other. All single
//! grants have the same owner. When the last key is granted, a request for all keys turns the single grants into one
//! grant.

use std::sync::Arc;
use std::time::Duration;

use super::event::Happened;
use super::plan::Plan;
use super::run::Acquire;
use super::step::Event;
use crate::backend::{BoxFuture, Claim, MoreKeys};
use crate::error::Result;
use crate::guard::Hold;
use crate::key::Key;
use crate::kind::Kind;
use crate::options::{LeaseOptions, Release, Resolved};
use crate::pending::PendingClaim;

/// Boxes the future for a single key. Without the box, the future type of `run` would contain itself.
fn boxed<'a>(acquire: &'a mut Acquire<'_>) -> BoxFuture<'a, Result<Hold>> {
    Box::pin(acquire.run())
}

impl Plan {
    /// Returns the plan for one of the keys.
    fn part(&self, key: &Key) -> Self {
        Self {
            hub: Arc::clone(&self.hub),
            key: key.clone(),
            more: MoreKeys::default(),
            resolved: Box::new(Resolved {
                ttl: self.ttl,
                options: LeaseOptions {
                    // A fair claim waits in order of arrival, so the wait ends even if a key is busy. The limits on a
                    // hold (`max_hold`, `min_hold`) apply only to the grant for all keys. A single grant is renewed
                    // while the request waits for the other keys, and is released as soon as it is dropped.
                    kind: Kind::Fair,
                    renew: true,
                    release: Release::Await,
                    renew_every: None,
                    max_hold: None,
                    min_hold: None,
                    linger: None,
                },
                strategy: Arc::clone(&self.strategy),
                wait: self.wait,
                fencing: false,
                reentrant: self.reentrant,
                max_waiters: self.max_waiters,
                on_lost: self.on_lost,
                label: self.label.clone(),
                // A request for several keys cannot be for permits, so this is always 1.
                take: 1,
            }),
            template: self.template.clone(),
            is_part: true,
        }
    }
}

impl Acquire<'_> {
    /// Acquires the keys one after another, and then requests all of them.
    pub(super) fn gather(&mut self, pause: Duration) -> BoxFuture<'_, Result<Happened>> {
        Box::pin(self.gathering(pause))
    }

    async fn gathering(&mut self, pause: Duration) -> Result<Happened> {
        if self.partial_grants.len() == self.plan.keys().count() {
            // All keys were granted, but the store refused the request for all of them, so a single grant was lost. The
            // request starts again after a pause.
            self.partial_grants.clear();
            self.engine().sleep(pause).await?;
        }
        loop {
            self.partial_grants.clear();
            // Each iteration uses a new owner. The single grants of the last iteration are released in the background.
            // If they had the same owner, a late release could free a grant of this iteration.
            self.claim = PendingClaim::new(&self.engine().cleanup, self.plan.claim());
            if self.gathered().await? {
                self.claim.has_grants();
                return Ok(Event::Gathered.into());
            }
        }
    }

    /// Acquires the keys one by one. Returns whether all single grants have the owner of the claim for all keys. If the
    /// answer to a request was lost, the repeated request has a new owner, so the result is `false`.
    async fn gathered(&mut self) -> Result<bool> {
        let (plan, owner) = (self.plan, self.claim.claim.owner);
        for key in plan.keys() {
            let part = plan.part(key);
            // Each single claim has the owner of the claim for all keys. Otherwise the single grants would block that
            // claim.
            let claim = Claim { owner, ..part.claim() };
            // `started` is the start of the whole request, because all keys share one time limit.
            let mut acquire = Acquire::new(&part, self.tries.started, claim);
            acquire.tries.count = self.tries.count;
            let hold = tokio::select! {
                // `biased` keeps the simulation deterministic.
                biased;
                hold = boxed(&mut acquire) => hold.map_err(|error| error.with_key(key))?,
                never = self.partial_grants.keep(self.engine(), plan.ttl) => match never {},
            };
            let same = hold.lease().claim().owner == owner;
            self.partial_grants.push(hold);
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
