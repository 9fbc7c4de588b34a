//! The calls of the store on a Cluster. Each call runs on the node of its key, within its deadline.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::multi::parts;
use super::router::Router;
use crate::backend::redis::command::Server;
use crate::backend::redis::command::is_plain;
use crate::backend::redis::config::Config;
use crate::backend::redis::error::{Failure, Reaction, Redirect};
use crate::backend::redis::slot;
use crate::backend::{Ask, Attempt, Claim, FencingToken, Listed, Released};
use crate::clock::{Clock, Moment};
use crate::error::{LockErrorKind, LossReason, Result as LockResult};
use crate::key::Key;

impl Router {
    /// Connects to a Cluster: requests the list of nodes from the nodes of the URL, and dials every node that has
    /// slots.
    pub(crate) async fn connect(config: Config) -> LockResult<Arc<Self>> {
        let router = Self::new(config)?;
        slot::prepare();
        let give_up = Clock::Suspend.now().plus(router.config().connect_timeout);
        let met = async {
            router.find().await?;
            router.meet(give_up).await
        };
        met.await.map_err(|failure: Failure| failure.to_error(&router.config().address))?;
        Ok(router)
    }

    /// Connects to the nodes that have slots, until `give_up`. Fails if a node refuses permanently. Also fails if no
    /// node can be reached, because the Cluster may announce addresses that are valid only inside another network.
    /// Succeeds if only some nodes are down, because their replicas may replace them.
    async fn meet(&self, give_up: Moment) -> Result<(), Failure> {
        let (began, patience) = (Clock::Suspend.now(), self.config().dial_timeout);
        let (nodes, mut dials) = (self.primaries(), JoinSet::new());
        for node in &nodes {
            let node = Arc::clone(node);
            dials.spawn(async move {
                let connected = node.connections.get().await;
                connected.map(drop).map_err(|failure| (node, failure))
            });
        }
        let (mut limit, mut met) = (give_up.remaining(began).max(patience), nodes.is_empty());
        loop {
            let left = limit.saturating_sub(Clock::Suspend.now().since(began));
            match timeout(left, dials.join_next()).await {
                Ok(Some(Ok(Ok(())))) if !met => {
                    met = true;
                    // If the other nodes are up, they need about as much time as this node. So the limit is lowered to
                    // twice this time, or to `patience` if that is longer.
                    limit = limit.min((Clock::Suspend.now().since(began) * 2).max(patience));
                }
                Ok(Some(Ok(Err((node, failure))))) if failure.is_permanent() => {
                    return Err(failure.naming(node.shared().address()));
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
        if met { Ok(()) } else { Err(self.out_of_reach(&nodes)) }
    }

    /// Returns the failure of a Cluster whose announced addresses cannot be reached.
    fn out_of_reach(&self, nodes: &[Arc<Server>]) -> Failure {
        let why =
            nodes.iter().find_map(|node| Some(node.connections.failure()?.naming(node.shared().address())));
        let why = why.unwrap_or_else(|| Failure::no_answer(self.config().connect_timeout));
        let text = format!(
            "the Cluster answers, but none of the addresses that it announces for its slots can be reached within {:?} \
             ({}); behind NAT or in containers, set `cluster-announce-ip` and `cluster-announce-port` of every node",
            self.config().connect_timeout,
            why.text()
        );
        Failure::new(LockErrorKind::Unavailable, text)
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
        let mut last = None;
        let outcome = timeout(deadline, self.call(key, &mut last, call)).await;
        // The node that sent the last redirect has not executed the call. But since then, the call may have been sent
        // again and may have taken effect.
        outcome.unwrap_or_else(|_| {
            let missing = || self.missing(slot::of_key(key.as_str()));
            // Prefer the connection error over the redirect: it is more useful to the caller.
            let failure = match &last {
                Some(moved @ Redirect::Moved { .. }) => Some(missing().unwrap_or_else(|| moved.to_failure())),
                Some(other) => Some(other.to_failure()),
                None => missing(),
            };
            Err(failure.unwrap_or_else(|| Failure::no_answer(deadline)).in_doubt())
        })
    }

    pub(crate) async fn acquire(
        &self,
        claim: &Claim,
        ask: Ask,
        deadline: Duration,
    ) -> Result<Attempt, Failure> {
        let give_up = Clock::Suspend.now().plus(deadline);
        let answer = match parts(claim) {
            // If the deadline passes between two slots, the claim may hold some of its keys. The error says that the
            // request may have taken effect, so the library releases all keys of the claim by its owner.
            Some(parts) => timeout(deadline, self.acquire_parts(claim, &parts, give_up))
                .await
                .unwrap_or_else(|_| Err(Failure::no_answer(deadline))),
            None => {
                let call = |node| self.ask(node, claim, claim, ask, give_up);
                self.within(deadline, &claim.key, call).await
            }
        };
        // If the claim was never sent, there is nothing to release.
        answer.map_err(|failure| if claim.is_sent() { failure } else { failure.before_any_request() })
    }

    /// Sends the request for `claim` to one node. `claim` is `whole`, or the part of `whole` in one slot. While the
    /// slot is being moved, a key may no longer be on this node. If a plain SET suffices, the SET is then sent to the
    /// other node. A script names several keys, which may be on both nodes, so a script must wait for the end of the
    /// move.
    pub(super) async fn ask(
        &self,
        node: Arc<Server>,
        claim: &Claim,
        whole: &Claim,
        ask: Ask,
        give_up: Moment,
    ) -> Result<Attempt, Failure> {
        // All nodes share one deadline: a request must not take effect on the last node after the caller has given up.
        let deadline = give_up.remaining(Clock::Suspend.now());
        match node.acquire(claim, ask, deadline).await {
            Err(Failure { reaction: Reaction::Follow(Redirect::Ask(place)), .. })
                if is_plain(claim) && !ask.enqueues() =>
            {
                self.next_of_slot(&node, &place).set_asking(claim, deadline).await
            }
            // A second request is harmless, because a claim is granted at most once.
            Err(failure) if failure.reaction == Reaction::Again && ask != Ask::Probe => {
                // Marks the claim before the second request is sent. From now on, an answer to a release does not prove
                // that both requests have ended, so the release must be repeated.
                whole.mark_resent();
                let left = give_up.remaining(Clock::Suspend.now());
                node.acquire(claim, ask, left).await
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
                // The first request may have released the lock. Then the second request finds no lock. Only if the
                // second request succeeds is it certain that the lock was released.
                Err(failure) if failure.reaction == Reaction::Again => {
                    match node.release(claim, keep_for).await {
                        // A plain release gets the answer `Released` only once. A release that keeps the key gets it
                        // each time. In both cases this owner has released the lock.
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

    /// Returns a number that identifies the node of the claim's slot. All claims of several keys share one number.
    pub(crate) fn shard_of(&self, claim: &Claim) -> u64 {
        match self.node(slot::of_key(claim.key.as_str())) {
            Some(node) if claim.more.is_empty() => Arc::as_ptr(&node).addr() as u64,
            _ => u64::MAX,
        }
    }

    /// Lists the locks of all nodes.
    pub(crate) async fn list(&self, prefix: &str, foreign: bool, limit: usize) -> Result<Listed, Failure> {
        // A call without a key is never redirected, so the list of nodes must be refreshed first.
        let patience = self.config().timeout;
        timeout(patience, self.look()).await.unwrap_or_else(|_| Err(Failure::no_answer(patience)))?;
        // If one node fails, the list fails. Otherwise the locks of that node would look free.
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
