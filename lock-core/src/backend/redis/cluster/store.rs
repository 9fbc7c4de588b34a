//! The backend: each call at the node of its key, within its deadline.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::timeout;

use super::route::Last;
use super::router::Router;
use super::slot;
use crate::backend::redis::acquire::is_plain;
use crate::backend::redis::capability::capability;
use crate::backend::redis::config::Config;
use crate::backend::redis::error::{Failure, Reaction, Redirect};
use crate::backend::redis::keys::{has_shared_mode, supported};
use crate::backend::redis::latch;
use crate::backend::redis::server::Server;
use crate::backend::remote::join_all;
use crate::backend::{
    Ask, Attempt, Backend, BoxFuture, Capability, Claim, FencingToken, GrantId, Heartbeat, LatchState,
    LatchStep, Listed, Listener, LockInfo, Released, Renew, Renewal, WAITER_LEASE,
};
use crate::clock::{Clock, Moment};
use crate::error::{LockError, LockErrorKind, Result};
use crate::key::Key;

/// A Redis Cluster as a lock store.
///
/// See the [module](super) for what it does and what it cannot promise. One value is enough for a process: it keeps one
/// connection to each node for each tokio runtime that uses it.
pub struct Cluster {
    pub(super) router: Arc<Router>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("config", self.router.config()).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Connects to the Cluster of which the URL names some nodes: `redis+cluster://[user:password@]host[:port],host..`,
    /// or `rediss+cluster://` with TLS. The options are those of [`Redis::connect`].
    ///
    /// One of the named nodes must answer; the others are asked for. Every node that has slots is connected to at once,
    /// so that a user who lacks a permission is told now.
    ///
    /// # Errors
    ///
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest): the URL is wrong. [`Unsupported`](LockErrorKind::Unsupported):
    /// what answers is no Cluster, or one before Redis 7.0. [`Unavailable`](LockErrorKind::Unavailable): nobody answers
    /// (temporary), or the password is refused or the user lacks a permission (permanent).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with its I/O and time drivers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn connect() -> lock_core::Result<()> {
    /// use lock_core::backend::redis::cluster::Cluster;
    ///
    /// let cluster = Cluster::connect("redis+cluster://10.0.0.1:6379,10.0.0.2:6379").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Self> {
        let router = Router::new(Config::parse(url)?)?;
        slot::prepare();
        let cluster = Self { router };
        cluster.router.find().await.map_err(|failure| cluster.error(&failure))?;
        cluster.meet().await.map_err(|failure| cluster.error(&failure))?;
        Ok(cluster)
    }

    /// Connects to every node that has slots. One that is down may be replaced; one that refuses stays so.
    async fn meet(&self) -> Result<(), Failure> {
        let patience = self.router.config().connect_timeout;
        let nodes = self.router.primaries();
        let dials = nodes
            .iter()
            .map(|node| -> BoxFuture<'_, _> { Box::pin(timeout(patience, node.connections.get())) });
        for dialled in join_all(dials.collect()).await {
            match dialled {
                Ok(Err(failure)) if failure.is_permanent() => return Err(failure),
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn timeout(&self) -> Duration {
        self.router.config().timeout
    }

    pub(super) fn error(&self, failure: &Failure) -> LockError {
        failure.to_error(&self.router.config().address)
    }

    /// Runs a call on the node of its key within its deadline.
    pub(super) async fn within<T, F>(
        &self,
        deadline: Duration,
        key: &Key,
        call: impl Fn(Arc<Server>) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let last = Last::default();
        match timeout(deadline, self.router.call(key, &last, call)).await {
            Ok(answer) => answer,
            // It did nothing the last time, and may have been sent once more since.
            Err(_) => {
                let missing = || self.router.missing(slot::of(key.as_str()));
                let failure = last.take().or_else(missing).unwrap_or_else(|| Failure::no_answer(deadline));
                Err(failure.in_doubt())
            }
        }
    }

    async fn attempt(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        takes(claim.keys())?;
        let deadline = self.timeout().min(claim.ttl / 2);
        let give_up = Clock::Suspend.now().plus(deadline);
        let answer = match self.parts(claim) {
            Some(parts) => timeout(deadline, self.acquire_parts(claim, &parts, give_up))
                .await
                .unwrap_or_else(|_| Err(Failure::no_answer(deadline))),
            None => {
                self.within(deadline, &claim.key, |node| self.ask(node, claim, claim, ask, give_up)).await
            }
        };
        answer.map_err(|failure| {
            // A call that never got a connection leaves nothing to clean up.
            let failure = if claim.is_sent() { failure } else { failure.before_any_request() };
            self.error(&failure).with_key(&claim.key)
        })
    }

    /// One attempt at one node for `claim`, which is `whole` or the part of it in one slot. Of a slot that is being moved, a key that is not there any more is asked for at the other
    /// node, as far as a plain SET will do; the scripts name keys that are on both sides, and have to wait.
    pub(super) async fn ask(
        &self,
        node: Arc<Server>,
        claim: &Claim,
        whole: &Claim,
        ask: Ask,
        give_up: Moment,
    ) -> Result<Attempt, Failure> {
        // Not a deadline of its own for each node: what reaches the last one must not take effect after the caller has
        // given up.
        let deadline = give_up.remaining(Clock::Suspend.now());
        match node.acquire(claim, ask, deadline).await {
            Err(Failure { reaction: Reaction::Follow(Redirect::Ask(place)), .. })
                if is_plain(claim) && !ask.enqueues() =>
            {
                self.router.at(&node, &place).set_asking(claim, deadline).await
            }
            // One that is not granted yet is granted once at most, however often it is asked for.
            Err(failure) if failure.reaction == Reaction::Again && ask != Ask::Probe => {
                whole.mark_resent();
                node.acquire(claim, ask, deadline).await
            }
            answer => answer,
        }
    }

    async fn one<T, F>(&self, deadline: Duration, key: &Key, call: impl Fn(Arc<Server>) -> F) -> Result<T>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        self.within(deadline, key, call).await.map_err(|failure| self.error(&failure).with_key(key))
    }
}

/// Refuses keys that cannot be locks on a Cluster, before any I/O.
fn takes<'a>(mut keys: impl Iterator<Item = &'a Key> + Clone) -> Result<()> {
    supported(keys.clone())?;
    match keys.find(|key| !slot::can_have_helpers(key.as_str())) {
        None => Ok(()),
        Some(key) => {
            let detail = "a key with a `}` and no hash tag cannot be a lock on a Redis Cluster, because nothing else \
                          could be stored in its slot: write it as `{tag}rest`, or without the `}`";
            Err(LockError::new(LockErrorKind::InvalidKey, detail).with_key(key))
        }
    }
}

impl Backend for Cluster {
    fn capability(&self) -> Capability {
        capability(self.router.config())
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        // Those of several keys have no place of their own: they would wait for one key while they hold another.
        self.attempt(claim, if claim.more.is_empty() { ask } else { ask.without_queue() }).await
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Heartbeat> {
        let deadline = self.timeout().min(claim.ttl.min(WAITER_LEASE) / 2);
        self.one(deadline, &claim.key, |node| async move { node.heartbeat(claim).await }).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        self.renew_all(batch).await
    }

    /// The node of its slot; those of several slots have one together.
    fn shard_of(&self, claim: &Claim) -> u64 {
        match self.router.node(slot::of(claim.key.as_str())) {
            Some(node) if claim.more.is_empty() => Arc::as_ptr(&node).addr() as u64,
            _ => u64::MAX,
        }
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        const SHORTEST: Duration = Duration::from_millis(50);
        let deadline = self.timeout().min(claim.ttl.max(SHORTEST));
        let keep = keep_for.filter(|keep| !keep.is_zero());
        match self.parts(claim) {
            Some(parts) => self.release_parts(&parts, keep, deadline).await,
            None => self.release_one(claim, keep, deadline).await,
        }
        .map_err(|failure| self.error(&failure).with_key(&claim.key))
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        let deadline = self.timeout().min(claim.ttl / 2);
        let made = match self.parts(claim) {
            Some(parts) => timeout(deadline, self.fence_parts(claim, &parts, deadline))
                .await
                .unwrap_or_else(|_| Err(Failure::no_answer(deadline))),
            None => self.within(deadline, &claim.key, |node| async move { node.fence(claim).await }).await,
        };
        match made.map_err(|failure| self.error(&failure).with_key(&claim.key))? {
            Ok(token) => Ok(token),
            Err(reason) => Err(LockError::lost(&claim.key, reason)),
        }
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        if let Err(error) = has_shared_mode(claim) {
            return Renewal::Unknown(error);
        }
        let deadline = self.timeout().min(claim.ttl / 2);
        let shared = self.one(deadline, &claim.key, |node| async move { node.downgrade(claim).await }).await;
        shared.unwrap_or_else(Renewal::Unknown)
    }

    async fn latch(&self, key: &Key, step: &LatchStep) -> Result<LatchState> {
        takes(std::iter::once(key))?;
        let deadline = latch::lease(step).map_or(self.timeout(), |lease| self.timeout().min(lease / 2));
        self.one(deadline, key, |node| async move { node.latch(key, step).await }).await
    }

    async fn list(&self, prefix: &str, foreign: bool, limit: usize) -> Result<Listed> {
        // Nothing else tells who asks for no key which nodes there are by now.
        let looked = timeout(self.timeout(), self.router.look()).await;
        looked
            .unwrap_or_else(|_| Err(Failure::no_answer(self.timeout())))
            .map_err(|failure| self.error(&failure))?;
        let (mut locks, mut truncated) = (Vec::new(), false);
        for node in self.router.primaries() {
            let listed = node.list(prefix, foreign, limit).await.map_err(|failure| self.error(&failure))?;
            truncated |= listed.truncated;
            locks.extend(listed.locks);
        }
        let mut listed = Listed::new(locks, limit);
        listed.truncated |= truncated;
        Ok(listed)
    }

    async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>> {
        takes(std::iter::once(key))?;
        self.one(self.timeout(), key, |node| async move { node.inspect(key).await }).await
    }

    async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool> {
        takes(std::iter::once(key))?;
        self.one(self.timeout(), key, |node| async move { node.force_release(key, id).await }).await
    }

    fn attach(
        &self,
        process: u128,
        listener: Weak<dyn Listener>,
        _background: Option<&tokio::runtime::Handle>,
    ) {
        self.router.listeners().add(process, listener);
    }

    async fn close(&self) {
        self.router.close();
    }
}
