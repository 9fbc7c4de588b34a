//! Several keys: all or none.
//!
//! The first request is for all of them at once. If one is held, the request waits for one key after another, each with
//! a queue entry: a wait for all at once would never end on busy keys. Every process uses the same order, so that no
//! two requests wait for each other. All single grants have one owner. After the last one, a request for all at once
//! turns them into one grant.

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

/// Boxes the future of a part: the same function makes the future of the whole, which contains it.
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
            own: Some(Box::new(Resolved {
                ttl: self.ttl,
                options: LeaseOptions {
                    // The claim has a place in strict order at each key, so that the wait ends on a busy key too. The
                    // limits of the lease belong to the one grant of all keys: a single grant must last while the
                    // request waits for the others, and be free as soon as it is dropped. That wait renews it.
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
                // This is refused for several keys.
                take: 1,
            })),
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
            // All keys were granted, and the store still refuses: one was lost meanwhile. The request begins again,
            // after a pause.
            self.partial_grants.clear();
            self.engine().sleep(pause).await?;
        }
        loop {
            self.partial_grants.clear();
            // Each round has a new owner: the single grants of the last round are released in the background, and such
            // a release could free a grant of this round.
            self.claim = PendingClaim::new(&self.engine().cleanup, self.plan.claim());
            if self.gathered().await? {
                self.claim.has_grants();
                return Ok(Event::Gathered.into());
            }
        }
    }

    /// Acquires the keys. Returns whether all single grants have the owner of the whole claim: a grant whose answer was
    /// lost has another one.
    async fn gathered(&mut self) -> Result<bool> {
        let (plan, owner) = (self.plan, self.claim.claim.owner);
        for key in plan.keys() {
            let part = plan.part(key);
            // With another owner, the claim for all keys would find each of them held by its own single grant.
            let claim = Claim { owner, ..part.claim() };
            // `started` is the start of the whole request: all keys share one time limit.
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
