//! The backend: which deadline a call has, and what it answers.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::timeout;

use super::capability::capability;
use super::config::{Address, Config};
use super::dial;
use super::keys::{has_shared_mode, supported};
use super::latch;
use super::primary::Primary;
use super::server::Server;
use super::shared::Shared;
use crate::backend::{
    Ask, Attempt, Backend, Capability, Claim, FencingToken, GrantId, Heartbeat, LatchState, LatchStep,
    Listed, Listener, LockInfo, Released, Renew, Renewal, WAITER_LEASE,
};
use crate::error::{LockError, LockErrorKind, Result};
use crate::key::Key;

/// One Redis server as a lock store.
///
/// See the [module](super) for what it does, what it stores and what it cannot promise. One value is enough for a
/// process: it keeps one connection for each tokio runtime that uses it. Dropping it ends the connections and leaves
/// the locks as they are.
pub struct Redis {
    pub(super) server: Server,
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("config", &self.server.shared().config).finish_non_exhaustive()
    }
}

impl Redis {
    /// Connects to the server at `url`: `redis://[user:password@]host[:port][/db]` or
    /// `unix://[user:password@]/path/to.sock`.
    ///
    /// The options `?connect_timeout=1s&timeout=500ms` (the defaults) limit one dial and one call. A call that finds
    /// no connection waits for one within its own limit.
    ///
    /// # Errors
    ///
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest): the URL is wrong. [`Unsupported`](LockErrorKind::Unsupported):
    /// `rediss://` without the feature `redis-tls`, a server before 6.2, a node of a Cluster, a Sentinel.
    /// [`Unavailable`](LockErrorKind::Unavailable): the server does not answer (temporary), refuses the password or
    /// lacks a permission, or is a replica (permanent). No error shows the URL or a part of the password.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with its I/O and time drivers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn connect() -> lock_core::Result<()> {
    /// use lock_core::backend::redis::Redis;
    ///
    /// let redis = Redis::connect("redis://127.0.0.1/").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Self> {
        let config = Config::parse(url)?;
        if matches!(config.address, Address::Cluster(_)) {
            let detail =
                "`redis+cluster://` is for `LockManager::connect` or `backend::redis::cluster::Cluster`";
            return Err(LockError::new(LockErrorKind::InvalidRequest, detail));
        }
        let shared = Arc::new(Shared::new(config, Primary::alone())?);
        match dial::dial(&shared).await {
            Ok(session) => Ok(Self { server: Server::new(shared, session) }),
            Err(failure) => Err(failure.to_error(shared.address())),
        }
    }
}

impl Redis {
    async fn attempt(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        supported(claim.keys())?;
        let deadline = self.server.deadline(claim.ttl);
        // A call that never got a connection leaves nothing to clean up: an outage must not pile up releases.
        match timeout(deadline, self.server.acquire(claim, ask, deadline)).await {
            Ok(Ok(attempt)) => Ok(attempt),
            Ok(Err(failure)) => Err(self.server.error(&failure).with_key(&claim.key)),
            Err(_) if claim.is_sent() => {
                Err(self.server.error(&self.server.elapsed(deadline)).with_key(&claim.key))
            }
            Err(_) => Err(self.server.error(&self.server.not_sent(deadline)).with_key(&claim.key)),
        }
    }
}

impl Backend for Redis {
    fn capability(&self) -> Capability {
        capability(&self.server.shared().config)
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        // Those of several keys have no place of their own: they would wait for one key while they hold another.
        self.attempt(claim, if claim.more.is_empty() { ask } else { ask.without_queue() }).await
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Heartbeat> {
        let deadline = self.server.deadline(claim.ttl.min(WAITER_LEASE));
        self.server.settled(timeout(deadline, self.server.heartbeat(claim)).await, deadline, &claim.key)
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        self.server.renew(batch).await
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        let deadline = self.server.shared().config.deadline_of_release(claim.ttl);
        let answer = timeout(deadline, self.server.release_or_retain(claim, keep_for)).await;
        self.server.settled(answer, deadline, &claim.key)
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        let deadline = self.server.deadline(claim.ttl);
        let answer = timeout(deadline, self.server.fence(claim)).await;
        self.server
            .settled(answer, deadline, &claim.key)?
            .map_err(|reason| LockError::lost(&claim.key, reason))
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        if let Err(error) = has_shared_mode(claim) {
            return Renewal::Unknown(error);
        }
        let deadline = self.server.deadline(claim.ttl);
        let answer = timeout(deadline, self.server.downgrade(claim)).await;
        self.server.settled(answer, deadline, &claim.key).unwrap_or_else(Renewal::Unknown)
    }

    async fn latch(&self, key: &Key, step: &LatchStep) -> Result<LatchState> {
        supported(std::iter::once(key))?;
        let deadline = latch::lease(step).map_or(self.server.timeout(), |lease| self.server.deadline(lease));
        self.server.settled(timeout(deadline, self.server.latch(key, step)).await, deadline, key)
    }

    async fn list(&self, prefix: &str, foreign: bool, limit: usize) -> Result<Listed> {
        self.server.list(prefix, foreign, limit).await.map_err(|failure| self.server.error(&failure))
    }

    async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>> {
        supported(std::iter::once(key))?;
        let deadline = self.server.timeout();
        self.server.settled(timeout(deadline, self.server.inspect(key)).await, deadline, key)
    }

    async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool> {
        supported(std::iter::once(key))?;
        let deadline = self.server.timeout();
        self.server.settled(timeout(deadline, self.server.force_release(key, id)).await, deadline, key)
    }

    fn attach(
        &self,
        process: u128,
        listener: Weak<dyn Listener>,
        _background: Option<&tokio::runtime::Handle>,
    ) {
        self.server.shared().listeners().add(process, listener);
    }

    async fn close(&self) {
        self.server.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The library moves the backend and its futures between threads.
    #[test]
    fn bounds() {
        fn threads<T: Send + Sync + 'static>() {}
        fn send<T: Send>(_: T) {}
        threads::<Redis>();
        send(Redis::connect("redis://127.0.0.1/"));
    }
}
