//! Implements the calls of the [`Backend`] contract for the memory store.

use std::sync::Weak;
use std::time::Duration;

use super::entry::Verdict;
use super::fence;
use super::store::Memory;
use super::watch::Watch;
use crate::backend::conflict::{self, Use};
use crate::backend::{
    Ask, Attempt, Backend, Capability, Claim, Fencing, FencingToken, Finding, Grant, GrantId, LatchState,
    LatchStep, LeaseScope, Listed, Listener, LockInfo, Ping, Placement, Released, Renew, Renewal, Severity,
    WAITER_LEASE, Waiting,
};
use crate::clock::{Clock, Moment};
use crate::error::{LockError, LockErrorKind, LossReason, Result};
use crate::key::Key;

impl Backend for Memory {
    fn capability(&self) -> Capability {
        Capability {
            store: "memory",
            shared: true,
            permits: true,
            several_permits: true,
            several: true,
            latches: true,
            lists: true,
            marks_sent: false,
            waiting: Waiting::Watch { waiter_lease: WAITER_LEASE, tells_holder: true },
            fencing: Fencing::Counter,
            lease: LeaseScope::Grant,
            placement: Placement::Embedded,
            min_ttl: Duration::from_millis(1),
            max_ttl: Duration::from_secs(10 * 366 * 24 * 60 * 60),
            ttl_step: None,
            ttl_advice: None,
            keeps_after_release: Some(Duration::from_secs(10 * 366 * 24 * 60 * 60)),
        }
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        self.attempt(claim, ask, Clock::Tokio.now())
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        let now = Clock::Tokio.now();
        batch.iter().map(|Renew { claim, ttl }| self.renew_one(claim, *ttl, now)).collect()
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        Ok(self.give_back(claim, keep_for, Clock::Tokio.now()))
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        let now = Clock::Tokio.now();
        let fence = if claim.more.is_empty() {
            self.with(&claim.key, now, |entry| entry.fence(claim, now, || fence::next(claim))).flatten()
        } else {
            self.fence_all(claim, now)
        };
        fence.ok_or_else(|| LockError::lost(&claim.key, LossReason::Taken))
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        let now = Clock::Tokio.now();
        match self.with(&claim.key, now, |entry| entry.downgrade(claim, now)) {
            Some(Ok(Some(waiters))) => {
                Renewal::Renewed { sent: now, lease: claim.ttl, waiters: Some(waiters) }
            }
            Some(Ok(None)) | None => Renewal::NotOwned,
            Some(Err(other)) => {
                Renewal::Unknown(in_use(&claim.key, other, Use::Lock(crate::backend::Mode::Shared)))
            }
        }
    }

    async fn latch(&self, key: &Key, step: &LatchStep) -> Result<LatchState> {
        let now = Clock::Tokio.now();
        let state = match step {
            LatchStep::Set { count: 0, .. } => {
                let detail = "a latch counts down from 1 at least";
                return Err(LockError::new(LockErrorKind::InvalidRequest, detail).with_key(key));
            }
            LatchStep::Set { .. } => self.with_new(key, now, |entry| entry.latch(step, now)),
            LatchStep::CountDown { .. } | LatchStep::Wait { .. } | LatchStep::Look => {
                self.with(key, now, |entry| entry.latch(step, now)).unwrap_or(Ok(LatchState::Unset))
            }
        };
        state.map_err(|in_force| in_use(key, in_force, Use::Latch))
    }

    async fn list(&self, prefix: &str, _foreign: bool, limit: usize) -> Result<Listed> {
        Ok(self.list_locks(prefix, limit))
    }

    async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>> {
        Ok(self.inspect_key(key))
    }

    async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool> {
        Ok(self.take_grant(key, id))
    }

    async fn ping(&self) -> Result<Ping> {
        Ok(Ping::new(Duration::ZERO))
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        Ok(vec![Finding::new(
            Severity::Note,
            "memory.one_process",
            "locks exclude the tasks of this process alone",
            "name a store that all machines reach, such as `redis://` or `postgres://`, before a second process runs",
        )])
    }

    fn attach(
        &self,
        process: u128,
        listener: Weak<dyn Listener>,
        _background: Option<&tokio::runtime::Handle>,
    ) {
        self.listeners().add(process, listener);
    }

    async fn changed(&self, claim: &Claim) {
        if let Some(watch) = Watch::register(self, claim) {
            watch.ready().await;
        }
    }
}

impl Memory {
    fn attempt(&self, claim: &Claim, ask: Ask, now: Moment) -> Result<Attempt> {
        let verdict = if claim.more.is_empty() {
            self.with_new(&claim.key, now, |entry| entry.acquire(claim, ask, now, || fence::next(claim)))
        } else {
            self.acquire_all(claim, ask, now)
        };
        match verdict {
            Verdict::Granted { fence, waiters } => {
                let grant = Grant::new(now, claim.ttl).with_fence(Some(fence)).with_waiters(Some(waiters));
                Ok(Attempt::Granted(grant))
            }
            Verdict::Held(held) => Ok(Attempt::Held(held)),
            Verdict::Conflict(at, in_force) => {
                Err(in_use(claim.keys().nth(at).unwrap_or(&claim.key), in_force, Use::Lock(claim.mode)))
            }
        }
    }

    fn renew_one(&self, claim: &Claim, ttl: Duration, now: Moment) -> Renewal {
        fence::raise(claim);
        let waiters = if claim.more.is_empty() {
            self.with(&claim.key, now, |entry| entry.renew(claim.owner, ttl, now)).flatten()
        } else {
            self.renew_all(claim, ttl, now)
        };
        match waiters {
            Some(waiters) => Renewal::Renewed { sent: now, lease: ttl, waiters: Some(waiters) },
            None => Renewal::NotOwned,
        }
    }

    pub(crate) fn give_back(&self, claim: &Claim, keep_for: Option<Duration>, now: Moment) -> Released {
        fence::raise(claim);
        if claim.more.is_empty() {
            let released = self.with(&claim.key, now, |entry| entry.release(claim, keep_for, now));
            released.unwrap_or(Released::Expired)
        } else {
            self.release_all(claim, keep_for, now)
        }
    }
}

fn in_use(key: &Key, in_force: Use, asked: Use) -> LockError {
    let detail = conflict::in_use("the key", in_force, asked);
    LockError::new(LockErrorKind::InvalidRequest, detail).with_key(key)
}
