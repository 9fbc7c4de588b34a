//! The calls of the store on a Cluster: each runs on the node of its key, within its deadline.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::follow::Last;
use super::multi::parts;
use super::router::Router;
use crate::backend::redis::command::Server;
use crate::backend::redis::command::is_plain;
use crate::backend::redis::config::Config;
use crate::backend::redis::error::{Failure, Reaction, Redirect};
use crate::backend::redis::slot;
use crate::backend::remote::join_all;
use crate::backend::{Ask, Attempt, BoxFuture, Claim, FencingToken, Listed, Released};
use crate::clock::{Clock, Moment};
use crate::error::{LossReason, Result as LockResult};
use crate::key::Key;

impl Router {
    /// Connects to a Cluster: asks the nodes of the URL for the others, and dials every node that has slots.
    pub(crate) async fn connect(config: Config) -> LockResult<Arc<Self>> {
        let router = Self::new(config)?;
        slot::prepare();
        let met = async {
            router.find().await?;
            router.meet().await
        };
        met.await.map_err(|failure: Failure| failure.to_error(&router.config().address))?;
        Ok(router)
    }

    /// Connects to every node that has slots. Fails only if a node refuses permanently: a node that is down may yet be
    /// replaced.
    async fn meet(&self) -> Result<(), Failure> {
        let patience = self.config().connect_timeout;
        let nodes = self.primaries();
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

    /// Runs a call on the node of its key, within its deadline.
    pub(crate) async fn within<T, F>(
        &self,
        deadline: Duration,
        key: &Key,
        call: impl Fn(Arc<Server>) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let last = Last::default();
        match timeout(deadline, self.call(key, &last, call)).await {
            Ok(answer) => answer,
            // The last redirect shows that its node did nothing, but the call may have been sent again since.
            Err(_) => {
                let (last, missing) = (last.take(), || self.missing(slot::of(key.as_str())));
                // Where the node that was named cannot be reached, that says more than that it was named.
                let failure = match last {
                    Some((Redirect::Moved { .. }, failure)) => Some(missing().unwrap_or(failure)),
                    Some((_, failure)) => Some(failure),
                    None => missing(),
                };
                let failure = failure.unwrap_or_else(|| Failure::no_answer(deadline));
                Err(failure.in_doubt())
            }
        }
    }

    pub(crate) async fn acquire(
        &self,
        claim: &Claim,
        ask: Ask,
        deadline: Duration,
    ) -> Result<Attempt, Failure> {
        let give_up = Clock::Suspend.now().plus(deadline);
        let answer = match parts(claim) {
            // Cut off between two slots, the claim may have some of its keys. No answer means doubt, so the library
            // releases the whole claim by its owner.
            Some(parts) => timeout(deadline, self.acquire_parts(claim, &parts, give_up))
                .await
                .unwrap_or_else(|_| Err(Failure::no_answer(deadline))),
            None => {
                let call = |node| self.ask(node, claim, claim, ask, give_up);
                self.within(deadline, &claim.key, call).await
            }
        };
        // A claim that was never sent leaves nothing to clean up.
        answer.map_err(|failure| if claim.is_sent() { failure } else { failure.before_any_request() })
    }

    /// Asks one node for `claim`, which is `whole` or its part in one slot. While the slot is being moved, a key that
    /// is no longer on this node is requested from the other node if a plain SET suffices. The scripts name keys that
    /// are on both sides, and must wait.
    pub(super) async fn ask(
        &self,
        node: Arc<Server>,
        claim: &Claim,
        whole: &Claim,
        ask: Ask,
        give_up: Moment,
    ) -> Result<Attempt, Failure> {
        // One deadline for all nodes: a request that reaches the last node must not take effect after the caller has
        // given up.
        let deadline = give_up.remaining(Clock::Suspend.now());
        match node.acquire(node.connections.current().as_ref(), claim, ask, deadline).await {
            Err(Failure { reaction: Reaction::Follow(Redirect::Ask(place)), .. })
                if is_plain(claim) && !ask.enqueues() =>
            {
                self.next_of_slot(&node, &place).set_asking(claim, deadline).await
            }
            // A second request is harmless: a claim that is not granted yet is granted at most once, however often it
            // is sent.
            Err(failure) if failure.reaction == Reaction::Again && ask != Ask::Probe => {
                // Before the second request: from now on an answered release does not prove that neither request is
                // still on its way, and the release must be repeated.
                whole.mark_resent();
                let left = give_up.remaining(Clock::Suspend.now());
                node.acquire(node.connections.current().as_ref(), claim, ask, left).await
            }
            answer => answer,
        }
    }

    pub(crate) async fn release(
        &self,
        claim: &Claim,
        keep_for: Option<Duration>,
        deadline: Duration,
    ) -> Result<Released, Failure> {
        match parts(claim) {
            Some(parts) => self.release_parts(&parts, keep_for, deadline).await,
            None => self.release_one(claim, keep_for, deadline).await,
        }
    }

    pub(super) async fn release_one(
        &self,
        claim: &Claim,
        keep_for: Option<Duration>,
        deadline: Duration,
    ) -> Result<Released, Failure> {
        let call = |node: Arc<Server>| async move {
            match node.release(claim, keep_for).await {
                // The first request may have released the lock, and the second then finds nothing. Only a success of
                // the second removes the doubt.
                Err(failure) if failure.reaction == Reaction::Again => {
                    match node.release(claim, keep_for).await {
                        // A lock that is free answers this only once, and one that is kept each time. Either way this
                        // owner has released it.
                        Ok(Released::Released) => Ok(Released::Released),
                        _ => Err(failure),
                    }
                }
                answer => answer,
            }
        };
        self.within(deadline, &claim.key, call).await
    }

    /// Makes the fencing token of a claim of several keys.
    pub(crate) async fn fence(
        &self,
        claim: &Claim,
        deadline: Duration,
    ) -> Result<Result<FencingToken, LossReason>, Failure> {
        match parts(claim) {
            Some(parts) => timeout(deadline, self.fence_parts(claim, &parts, deadline))
                .await
                .unwrap_or_else(|_| Err(Failure::no_answer(deadline))),
            None => self.within(deadline, &claim.key, |node| async move { node.fence(claim).await }).await,
        }
    }

    /// Returns a number for the node of the claim's slot. All claims of several keys share one number.
    pub(crate) fn shard_of(&self, claim: &Claim) -> u64 {
        match self.node(slot::of(claim.key.as_str())) {
            Some(node) if claim.more.is_empty() => Arc::as_ptr(&node).addr() as u64,
            _ => u64::MAX,
        }
    }

    /// Lists the locks of all nodes.
    pub(crate) async fn list(&self, prefix: &str, foreign: bool, limit: usize) -> Result<Listed, Failure> {
        // A call without a key is never redirected, so the nodes must be looked up first.
        let patience = self.config().timeout;
        timeout(patience, self.look()).await.unwrap_or_else(|_| Err(Failure::no_answer(patience)))?;
        // The failure of one node fails the list. Without its locks their keys would look free.
        let (mut locks, mut truncated) = (Vec::new(), false);
        for node in self.primaries() {
            let listed = node.list(prefix, foreign, limit).await?;
            truncated |= listed.truncated;
            locks.extend(listed.locks);
        }
        let mut listed = Listed::new(locks, limit);
        listed.truncated |= truncated;
        Ok(listed)
    }
}
