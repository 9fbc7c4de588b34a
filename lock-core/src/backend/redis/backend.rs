//! Redis as a lock store: chooses the server that each call is sent to, and limits the time of the call.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use super::cluster::Router;
use super::command::Server;
use super::config::{Address, Config};
use super::error::Failure;
use super::keyspace::supported;
use super::link::{self, PING_KEY, Shared};
use super::primary::Primary;
use super::slot;
use crate::backend::remote::deadline::LONGEST_KEPT;
use crate::backend::{
    Ask, Attempt, Backend, Capability, Claim, Fencing, FencingToken, Finding, GrantId, Heartbeat, LatchState,
    LatchStep, Listed, Listener, LockInfo, Ping, Released, Renew, Renewal, WAITER_LEASE, Waiting,
};
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::{LockError, Result};
use crate::key::Key;
use crate::runtime::current_runtime;

/// Redis as a lock store: one server, the primary that sentinels name, or a Cluster.
///
/// See the [module](super) for its guarantees, its data and its limits. A process needs only one value of this type:
/// the value keeps one connection to each server for each tokio runtime that uses it. Dropping the value closes the
/// connections. The locks stay held until they are released or expire.
pub struct Redis {
    topology: Topology,
}

/// Where the keys are stored: on one server, or on the nodes of a Cluster.
enum Topology {
    /// All keys are on one server.
    One(Arc<Server>),
    /// The keys are on the nodes of a Cluster, by their slots.
    Cluster(Arc<Router>),
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("config", self.config()).finish_non_exhaustive()
    }
}

impl Redis {
    /// Connects to the store at `url`.
    ///
    /// - One server: `redis://[user:password@]host[:port][/db]` or `unix://[user:password@]/path/to.sock`.
    /// - The primary that sentinels name: `redis+sentinel://[user:password@]host[:port],host../primary[/db]`.
    /// - A Cluster: `redis+cluster://[user:password@]host[:port],host..`. The URL names some of the nodes, and at least
    ///   one of them must answer. This call dials every node that has slots, and so reports a missing permission.
    ///
    /// If the scheme begins with `rediss` instead of `redis`, the connections are encrypted. The options
    /// `?connect_timeout=10s&timeout=500ms` (the defaults) limit this call and every other call. If there is no
    /// connection, a call waits for a connection within its own limit. The [module](super) lists all options.
    ///
    /// # Errors
    ///
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest): the URL is wrong.
    /// [`Unsupported`](LockErrorKind::Unsupported): `rediss` without the feature `tls`, a server before 6.2, a node
    /// before 7.0, or a URL for another topology than the server has. [`Unavailable`](LockErrorKind::Unavailable): the
    /// server does not answer within the `connect_timeout` (temporary), or it refuses the password, the user lacks a
    /// permission, or the server is a replica (permanent). No error shows the URL or a part of the password.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with its I/O and time drivers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
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
        Self::open(Config::parse(url)?).await
    }

    /// Connects to the server of a client of the crate `redis`, version 1, with the address, user, password and
    /// database of that client. The library opens its own connections, because a connection of the application may be
    /// busy when a lock must be renewed. The time limits are the defaults of [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`connect`](Self::connect). Returns [`Unsupported`](LockErrorKind::Unsupported) if the
    /// client uses TLS with its own certificates, because it does not reveal them, or if it does not check the server's
    /// name. For such a client, use a URL.
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`connect`](Self::connect).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn connect(client: redis::Client) -> lock_core::Result<()> {
    /// use lock_core::LockManager;
    /// use lock_core::backend::redis::Redis;
    ///
    /// let locks = LockManager::builder(Redis::from_client(&client).await?).namespace("shop").build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn from_client(client: &::redis::Client) -> Result<Self> {
        Self::open(Config::of_driver(client.get_connection_info())?).await
    }

    async fn open(config: Config) -> Result<Self> {
        current_runtime()?;
        if matches!(config.address, Address::Cluster(_)) {
            let router = Box::pin(Router::connect(config)).await?;
            return Ok(Self { topology: Topology::Cluster(router) });
        }
        let shared = Arc::new(Shared::new(config, Primary::alone())?);
        let session = link::first(&shared).await?;
        Ok(Self { topology: Topology::One(Arc::new(Server::new(shared, Some(session)))) })
    }

    fn config(&self) -> &Config {
        match &self.topology {
            Topology::One(server) => &server.shared().config,
            Topology::Cluster(router) => router.config(),
        }
    }

    fn error(&self, failure: &Failure) -> LockError {
        failure.to_error(&self.config().address)
    }

    /// Returns an error if one of the keys cannot be a lock. Does no I/O.
    fn check_keys<'a>(&self, mut keys: impl Iterator<Item = &'a Key> + Clone) -> Result<()> {
        supported(keys.clone())?;
        match &self.topology {
            Topology::One(_) => Ok(()),
            Topology::Cluster(_) => keys.try_for_each(slot::check_key),
        }
    }

    /// Runs a call on the server that stores `key`, within the deadline of the call.
    async fn run_on<T, F>(&self, key: &Key, deadline: Duration, call: impl Fn(Arc<Server>) -> F) -> Result<T>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let answer = match &self.topology {
            Topology::One(server) => {
                server.connections.within(deadline, pin!(call(Arc::clone(server)))).await
            }
            // This future is boxed, so that the future of a call to one server stays small.
            Topology::Cluster(router) => Box::pin(router.within(deadline, key, call)).await,
        };
        answer.map_err(|failure| self.error(&failure).with_key(key))
    }
}

impl Backend for Redis {
    fn capability(&self) -> Capability {
        let durable = self.config().durability.is_some();
        Capability {
            shared: true,
            permits: true,
            several_permits: true,
            several: true,
            latches: true,
            lists: true,
            marks_sent: true,
            waiting: Waiting::Queue { waiter_lease: WAITER_LEASE, tells_holder: true, confirms: durable },
            // With `StoreTime`, a process makes tokens by itself from the time of the store. No replica has a copy of
            // such a token, so `durability` needs tokens that the server makes.
            fencing: if durable { Fencing::Counter } else { Fencing::StoreTime },
            keeps_after_release: Some(LONGEST_KEPT),
            ..Capability::exclusive("redis")
        }
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        self.check_keys(claim.keys())?;
        // A claim of several keys is not queued: it would hold one key while it waits for another key.
        let ask = if claim.more.is_empty() { ask } else { ask.without_queue() };
        let deadline = self.config().deadline(claim.ttl);
        let answer = match &self.topology {
            Topology::One(server) => {
                let attempt = pin!(server.acquire(claim, ask, deadline));
                server.connections.attempt(deadline, claim, attempt).await
            }
            Topology::Cluster(router) => Box::pin(router.acquire(claim, ask, deadline)).await,
        };
        answer.map_err(|failure| self.error(&failure).or_key(&claim.key))
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Heartbeat> {
        let deadline = self.config().deadline(claim.ttl.min(WAITER_LEASE));
        self.run_on(&claim.key, deadline, |server| async move { server.heartbeat(claim).await }).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        match &self.topology {
            Topology::One(server) => server.renew(batch).await,
            Topology::Cluster(router) => router.renew(batch).await,
        }
    }

    fn shard_of(&self, claim: &Claim) -> u64 {
        match &self.topology {
            Topology::One(_) => 0,
            Topology::Cluster(router) => router.shard_of(claim),
        }
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        let deadline = self.config().deadline_of_release(claim.ttl);
        let answer = match &self.topology {
            Topology::One(server) => {
                server.connections.within(deadline, pin!(server.release(claim, keep_for))).await
            }
            Topology::Cluster(router) => Box::pin(router.release(claim, keep_for, deadline)).await,
        };
        answer.map_err(|failure| self.error(&failure).with_key(&claim.key))
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        let deadline = self.config().deadline(claim.ttl);
        let made = match &self.topology {
            Topology::Cluster(router) if !claim.more.is_empty() => {
                let made = Box::pin(router.fence(claim, deadline)).await;
                made.map_err(|failure| self.error(&failure).with_key(&claim.key))?
            }
            _ => self.run_on(&claim.key, deadline, |server| async move { server.fence(claim).await }).await?,
        };
        made.map_err(|reason| LockError::lost(&claim.key, reason))
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        let deadline = self.config().deadline(claim.ttl);
        let answer =
            self.run_on(&claim.key, deadline, |server| async move { server.downgrade(claim).await }).await;
        answer.unwrap_or_else(Renewal::Unknown)
    }

    async fn latch(&self, key: &Key, step: &LatchStep) -> Result<LatchState> {
        self.check_keys(std::iter::once(key))?;
        let config = self.config();
        let deadline = step.ttl().map_or(config.timeout, |ttl| config.deadline(ttl));
        self.run_on(key, deadline, |server| async move { server.latch(key, step).await }).await
    }

    async fn list(&self, prefix: &str, foreign: bool, limit: usize) -> Result<Listed> {
        let listed = match &self.topology {
            Topology::One(server) => server.list(prefix, foreign, limit).await,
            Topology::Cluster(router) => router.list(prefix, foreign, limit).await,
        };
        listed.map_err(|failure| self.error(&failure))
    }

    async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>> {
        self.check_keys(std::iter::once(key))?;
        self.run_on(key, self.config().timeout, |server| async move { server.inspect(key).await }).await
    }

    async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool> {
        self.check_keys(std::iter::once(key))?;
        self.run_on(key, self.config().timeout, |server| async move { server.force_release(key, id).await })
            .await
    }

    async fn ping(&self) -> Result<Ping> {
        match &self.topology {
            Topology::One(server) => server.ping(PING_KEY).await,
            Topology::Cluster(router) => router.ping().await,
        }
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        match &self.topology {
            Topology::One(server) => server.doctor().await,
            Topology::Cluster(router) => router.doctor().await,
        }
    }

    fn attach(&self, process: u128, listener: Weak<dyn Listener>, _background: Option<&Handle>) {
        match &self.topology {
            Topology::One(server) => server.shared().listeners().add(process, listener),
            Topology::Cluster(router) => router.listeners().add(process, listener),
        }
    }

    async fn close(&self) {
        match &self.topology {
            Topology::One(server) => server.close(),
            Topology::Cluster(router) => router.close(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The library moves the backend and its futures between threads, so they must be `Send`.
    #[test]
    fn bounds() {
        fn threads<T: Send + Sync + 'static>() {}
        fn send<T: Send>(_: T) {}
        threads::<Redis>();
        send(Redis::connect("redis://127.0.0.1/"));
    }
}
