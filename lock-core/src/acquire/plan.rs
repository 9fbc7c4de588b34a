//! Defines [`Plan`]: a request with its defaults, and the checks that need no store.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use crate::backend::{Claim, MoreKeys, Queue};
use crate::clock;
use crate::engine::Engine;
use crate::error::{LockError, LockErrorKind, Result};
use crate::guard::{Hold, LockScope};
use crate::hub::Hub;
use crate::key::Key;
use crate::options::Resolved;
use crate::owner::OwnerRecord;

/// A request with its defaults. A plan dereferences to its [options](Resolved).
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) hub: Arc<Hub>,
    pub(crate) key: Key,
    /// The other keys, if the request is for several.
    pub(crate) more: MoreKeys,
    /// The options are boxed, because the plan is moved together with the future of the acquisition.
    pub(crate) resolved: Box<Resolved>,
    /// The template that the key was rendered from.
    pub(crate) template: Option<Cow<'static, str>>,
    /// Whether this plan is for a single key of a request for several.
    pub(crate) is_part: bool,
}

impl Deref for Plan {
    type Target = Resolved;

    fn deref(&self) -> &Resolved {
        &self.resolved
    }
}

impl Plan {
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.hub.engine
    }

    /// Returns an error if the request has more keys than the store or the manager allows. The options were checked
    /// when they were set.
    pub(crate) fn check(&self) -> Result<()> {
        let store = &self.engine().capability;
        if self.more.len() >= self.engine().profiles.max_keys {
            let (keys, max) = (self.more.len() + 1, self.engine().profiles.max_keys);
            let detail = format!(
                "{keys} keys were asked for at once, and {max} are allowed: the store takes all of them in one step, in \
                 which it serves nobody else; lock something that stands for them, or raise `max_keys` of the manager's \
                 builder"
            );
            return Err(LockError::new(LockErrorKind::InvalidRequest, detail));
        }
        if !self.more.is_empty() && !store.several {
            let detail =
                format!("the {} store cannot lock several keys at once in this version", store.store);
            return Err(LockError::new(LockErrorKind::Unsupported, detail));
        }
        Ok(())
    }

    /// Returns the order in which the claim waits.
    pub(super) fn queue(&self) -> Queue {
        // If the store keeps no order, readers and writers wait without an order. Other code refuses fair locks on such
        // a store.
        match self.engine().capability.waiting.in_order() {
            true => self.options.kind.queue(),
            false => Queue::Barging,
        }
    }

    /// Makes a claim with a new owner.
    pub(super) fn claim(&self) -> Claim {
        let hands_off = self.options.kind.queue() == Queue::Barging && self.more.is_empty();
        let owners = &self.engine().owners;
        // The owner id is marked as strict if the claim takes no hand-off. The memory store does not queue a waiter if
        // the holder could hand its grant off to that waiter, according to both owner ids. Without the mark, a waiter
        // could wait for a hand-off that never comes.
        let owner = if hands_off { owners.mint() } else { owners.mint_strict() };
        let record =
            OwnerRecord::since(clock::wall(), Arc::clone(&self.engine().identity), self.label.clone());
        Claim {
            more: self.more.clone(),
            mode: self.options.kind.mode(),
            permits: self.take,
            queue: self.queue(),
            fencing: self.fencing,
            notify_holder: self.options.linger.is_some(),
            renews: self.options.renew,
            ..Claim::new(self.key.clone(), owner, self.ttl, record)
        }
    }

    /// Returns all keys, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.key).chain(self.more.iter())
    }

    /// Re-enters the lock that this task already holds on these keys. Returns `None` if the task holds no such lock.
    pub(crate) fn entered(&self) -> Result<Option<Hold>> {
        let live = |key| {
            LockScope::lease_of(self.engine(), key)
                .filter(|lease| !lease.has_ended() && lease.loss().is_none())
        };
        let Some(lease) = live(&self.key).or_else(|| self.more.iter().find_map(live)) else {
            return Ok(None);
        };
        if !self.reentrant {
            return Err(LockError::new(LockErrorKind::Reentered, "the request says `reentrant(false)`"));
        }
        if let Some(missing) = self.keys().find(|key| !lease.claim().keys().any(|held| held == *key)) {
            let detail = format!(
                "this task holds `{}` and asks for it together with `{missing}`: it would wait for itself; take all keys \
                 at once, outside",
                lease.claim().key
            );
            return Err(LockError::new(LockErrorKind::Reentered, detail));
        }
        lease.options.kind.admits(self.options.kind)?;
        if self.take > lease.claim().permits {
            let (has, asks) = (lease.claim().permits, self.take);
            let detail = format!(
                "this task holds {has} of the permits and asks for {asks}: it would wait for its own; take all of them \
                 outside"
            );
            return Err(LockError::new(LockErrorKind::Upgrade, detail));
        }
        // The grant may have been lost or released since `live` found it. In that case the request is sent to the
        // store.
        Ok(lease.enter().then(|| Hold::new(lease)))
    }
}
