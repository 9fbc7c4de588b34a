//! Implements `Backend` for a voter: one server, whose votes a quorum counts.

use std::fmt;
use std::sync::Weak;
use std::time::Duration;

use tokio::runtime::Handle;

use super::refusal;
use super::role::VoterRole;
use super::state::VoterState;
use crate::backend::redis::command::Server;
use crate::backend::redis::error::Failure;
use crate::backend::redis::keyspace::supported;
use crate::backend::redis::link::PING_KEY;
use crate::backend::{
    Ask, Attempt, Backend, Capability, Claim, Fencing, FencingToken, Finding, GrantId, Heartbeat, LatchState,
    LatchStep, Listed, Listener, LockInfo, Ping, Released, Renew, Renewal,
};
use crate::error::{LockError, LockErrorKind, Result};
use crate::key::Key;

/// One Redis server as a voter of a quorum.
///
/// See the [module](crate::backend::redlock) for the requirements on a server that votes. Use a
/// [`Quorum`](crate::backend::redlock::quorum::Quorum) of voters as the lock store. A single voter also grants locks,
/// but it excludes only clients that use the same server through a voter.
pub struct Voter {
    pub(super) server: Server<VoterRole>,
}

impl fmt::Debug for Voter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Voter").field("config", &self.server.shared().config).finish_non_exhaustive()
    }
}

impl Voter {
    /// Returns the estimated offset of the server's clock from a steady clock of this process, in us. The offset is
    /// positive if the server is ahead. Only differences between the offsets of several servers have a meaning. Returns
    /// `None` if the server was never reached.
    #[must_use]
    pub fn clock_offset(&self) -> Option<i64> {
        self.state().observed().reading().map(super::clock_guard::Reading::middle)
    }

    async fn within<T>(
        &self,
        deadline: Duration,
        key: &Key,
        call: impl Future<Output = std::result::Result<T, Failure>>,
    ) -> Result<T> {
        let answer = self.server.connections.within(deadline, call).await;
        answer.map_err(|failure| self.server.error(&failure).with_key(key))
    }

    pub(super) fn state(&self) -> &VoterState {
        &self.server.shared().role.state
    }
}

/// Returns the error for a request that a voter does not support.
pub(super) fn unsupported(key: &Key) -> LockError {
    let detail = "a voter of a quorum has no queue and no latches";
    LockError::new(LockErrorKind::Unsupported, detail).with_key(key)
}

impl Backend for Voter {
    /// Declares a store without a queue and without latches: the queues of several servers have no common order, and a
    /// hand-off by one server has no majority.
    fn capability(&self) -> Capability {
        let max_ttl = self.state().max_ttl();
        Capability {
            shared: true,
            permits: true,
            several: true,
            fencing: Fencing::StoreTime,
            marks_sent: true,
            max_ttl,
            // A server that forgot a kept key votes again after the longest lease. So the server cannot guarantee to
            // keep a key for longer than that.
            keeps_after_release: Some(max_ttl),
            ..Capability::exclusive("redis")
        }
    }

    async fn acquire(&self, claim: &Claim, _ask: Ask) -> Result<Attempt> {
        supported(claim.keys())?;
        // The claim is never queued, whatever the caller requests: one server would hand the lock over without a
        // majority.
        self.vote(claim).await
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Heartbeat> {
        Err(unsupported(&claim.key))
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        // A renewal does not pass the gate, the check that the server has forgotten no lease: it extends only keys that
        // this owner holds on the server. A renewal must work during a quarantine: after a power cut no new lock is
        // granted, but locks that a majority has kept continue.
        self.server.renew(batch).await
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        // A release does not pass the gate, because it compares the owner, and removes only keys that this owner holds.
        let deadline = self.server.shared().config.deadline_of_release(claim.ttl);
        self.within(deadline, &claim.key, self.server.release(claim, keep_for)).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        // This request does not pass the gate: the script makes a token only while this owner certainly holds the key.
        let deadline = self.server.deadline(claim.ttl);
        let made = self.within(deadline, &claim.key, self.server.fence(claim)).await?;
        made.map_err(|reason| LockError::lost(&claim.key, reason))
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        let deadline = self.server.deadline(claim.ttl);
        let answer = self.within(deadline, &claim.key, self.server.downgrade(claim)).await;
        answer.unwrap_or_else(Renewal::Unknown)
    }

    async fn latch(&self, key: &Key, _step: &LatchStep) -> Result<LatchState> {
        supported(std::iter::once(key))?;
        Err(unsupported(key))
    }

    async fn list(&self, prefix: &str, foreign: bool, limit: usize) -> Result<Listed> {
        let listed = self.server.list(prefix, foreign, limit).await;
        listed.map_err(|failure| self.server.error(&failure))
    }

    async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>> {
        supported(std::iter::once(key))?;
        self.within(self.server.timeout(), key, self.server.inspect(key)).await
    }

    async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool> {
        supported(std::iter::once(key))?;
        self.within(self.server.timeout(), key, self.server.force_release(key, id)).await
    }

    async fn ping(&self) -> Result<Ping> {
        let ping = self.server.ping(PING_KEY).await?;
        match refusal::now(self.state()) {
            None => Ok(ping),
            Some(refusal) => Err(self.server.error(&refusal)),
        }
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        self.findings().await
    }

    fn attach(&self, process: u128, listener: Weak<dyn Listener>, _background: Option<&Handle>) {
        // These listeners are separate from the listeners of the connections. So the connections subscribe to no
        // messages and report no losses: one server does not decide about the lock of a majority.
        self.state().attach(process, listener);
    }

    async fn close(&self) {
        self.server.close();
    }
}
