//! A request with its defaults, and what is checked without the store.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Claim, MoreKeys, Queue};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::{LockError, LockErrorKind, Result};
use crate::guard::LockGuard;
use crate::guard::LockScope;
use crate::hub::Hub;
use crate::key::Key;
use crate::lease::LeaseOptions;
use crate::strategy::Strategy;

/// A request with its defaults.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) hub: Arc<Hub>,
    pub(crate) key: Key,
    /// The other keys of a request for several.
    pub(crate) more: MoreKeys,
    pub(crate) ttl: Duration,
    pub(crate) options: LeaseOptions,
    pub(crate) strategy: Arc<dyn Strategy>,
    pub(crate) wait: Option<Duration>,
    pub(crate) fencing: bool,
    pub(crate) reentrant: bool,
    pub(crate) max_waiters: Option<usize>,
    pub(crate) label: Option<Cow<'static, str>>,
    /// The template that the key was rendered from.
    pub(crate) template: Option<Cow<'static, str>>,
}

/// The shortest time between two renewals.
const SHORTEST_CYCLE: Duration = Duration::from_millis(10);

impl Plan {
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.hub.engine
    }

    /// Refuses a request that contradicts itself, or that the store cannot serve, before any I/O.
    pub(crate) fn check(&self) -> Result<()> {
        let store = &self.engine().capability;
        let invalid = |detail: String| Err(LockError::new(LockErrorKind::InvalidRequest, detail));
        self.options.kind.check(store)?;
        if self.more.len() >= self.engine().profiles.max_keys {
            let (keys, max) = (self.more.len() + 1, self.engine().profiles.max_keys);
            return invalid(format!(
                "{keys} keys were asked for at once, and {max} are allowed: the store takes all of them in one step, in \
                 which it serves nobody else; lock something that stands for them, or raise `max_keys` of the manager's \
                 builder"
            ));
        }
        if !self.more.is_empty() && !store.several {
            let detail =
                format!("the {} store cannot lock several keys at once in this version", store.store);
            return Err(LockError::new(LockErrorKind::Unsupported, detail));
        }
        if self.fencing && !store.fencing.gives_tokens() {
            let detail = format!("the {} store gives no fencing tokens", store.store);
            return Err(LockError::new(LockErrorKind::Unsupported, detail));
        }
        let ttl = self.ttl;
        store.check_ttl(ttl)?;
        if let Some(wait) = self.wait.filter(|_| !self.strategy.takes_wait_limit()) {
            let name = self.strategy.name();
            let detail =
                format!("wait is {wait:?}, but strategy `{name}` takes no limit: drop one, or use `retry`");
            return invalid(detail);
        }
        if let Some(every) = self.options.renew_every {
            if !self.options.renew {
                return invalid(format!(
                    "renew_every is {every:?}, but the lease is not renewed: drop one of the two"
                ));
            }
            if every < SHORTEST_CYCLE {
                return invalid(format!("renew_every is {every:?}: choose {SHORTEST_CYCLE:?} or longer"));
            }
        }
        if self.options.max_hold.is_some_and(|max| max.is_zero()) {
            return invalid("max_hold is 0: nothing could run".to_owned());
        }
        if let Some(min) = self.options.min_hold {
            if let Some(max) = self.options.max_hold.filter(|max| *max < min) {
                return invalid(format!("min_hold is {min:?}, longer than max_hold {max:?}"));
            }
            let Some(max) = store.keeps_after_release else {
                let detail =
                    format!("min_hold is {min:?}: the {} store keeps no key after its release", store.store);
                return Err(LockError::new(LockErrorKind::Unsupported, detail));
            };
            if min > max {
                return invalid(format!(
                    "min_hold is {min:?}: the {} store keeps a key for {max:?} at most",
                    store.store
                ));
            }
            if !self.options.renew && min > ttl {
                return invalid(format!(
                    "min_hold is {min:?}, longer than the ttl {ttl:?} that is not renewed"
                ));
            }
        }
        Ok(())
    }

    /// Makes a claim with an owner of its own. `now` is a clock that was just read.
    pub(super) fn claim(&self, now: Moment) -> Claim {
        let hands_off = self.options.kind.queue() == Queue::Barging && self.more.is_empty();
        let owners = &self.engine().owners;
        // A store sees by the two owners whether the holder may hand off to a waiter, and the memory store does not
        // queue it then. Without the mark, a waiter would rely on a hand-off that does not come.
        let owner = if hands_off { owners.mint() } else { owners.mint_strict() };
        let record = self.engine().record(self.label.clone(), now);
        Claim {
            more: self.more.clone(),
            mode: self.options.kind.mode(),
            // Fair locks are refused where the store has no order; readers and writers come as they come.
            queue: if self.engine().capability.waiting.in_order() {
                self.options.kind.queue()
            } else {
                Queue::Barging
            },
            fencing: self.fencing,
            notify_holder: self.options.linger.is_some(),
            ..Claim::new(self.key.clone(), owner, self.ttl, record)
        }
    }

    /// Returns every key, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.key).chain(self.more.iter())
    }

    /// Enters the grant that this task has already, if any.
    pub(crate) fn entered(&self) -> Result<Option<LockGuard>> {
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
        if let Some(missing) = self.keys().find(|key| !lease.claim.keys().any(|held| held == *key)) {
            let detail = format!(
                "this task holds `{}` and asks for it together with `{missing}`: it would wait for itself; take all keys \
                 at once, outside",
                lease.claim.key
            );
            return Err(LockError::new(LockErrorKind::Reentered, detail));
        }
        lease.options.kind.admits(self.options.kind)?;
        // It may have been lost or released since it was found. Then the store is asked like for any other request.
        Ok(lease.enter().then(|| LockGuard::new(lease, Arc::clone(&self.hub))))
    }
}
