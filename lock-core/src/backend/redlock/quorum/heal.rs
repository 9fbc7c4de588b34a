//! Heals nodes: restores a grant on nodes that lost it or never had it.

use std::sync::Arc;

use super::answers::Reply;
use super::backend::Inner;
use super::deadline::Detached;
use super::renew::{Answers, Batch, Part};
use super::round::{Disposition, RoundHandle};
use super::timing;
use crate::backend::{Ask, Attempt, Backend, Claim, Renew};

/// The largest number of repeated requests to a node in one renewal, for all grants of the batch together. A request is
/// repeated if another owner holds the key on the node.
///
/// A node that returns without its data grants the key to the first request. A contender without a majority may hold
/// the key on this node briefly, until the contender releases it. Then the next contender does the same. With a single
/// request per renewal, the holder would get the key on this node only by chance, possibly after many renewals.
const AGAIN: usize = 64;

impl<B: Backend> Inner<B> {
    /// Starts healing every node that answered before the verdict and lacks a grant.
    pub(super) fn heal_all(self: &Arc<Self>, batch: &Arc<Batch>, answers: &[Option<Answers>]) {
        for (number, answers) in answers.iter().enumerate() {
            let wanting = batch.wanting(answers.as_ref().and_then(Option::as_deref));
            if batch.any_renewed(&wanting) {
                let (quorum, batch) = (Arc::clone(self), Arc::clone(batch));
                tokio::spawn(async move { quorum.heal(number, &batch, wanting).await });
            }
        }
    }

    /// Restores grants on a node that lost them or never had them. Restores only grants that a majority has, because
    /// otherwise a lost lock would come back. Sends the requests one after another, and stops when the node counts as
    /// unresponsive. So a node that has just returned is not overloaded.
    pub(super) async fn heal(&self, number: usize, batch: &Batch, mut wanting: Vec<usize>) {
        let node = &self.nodes[number];
        // Without this guard, two concurrent renewals would request the same grants from a node twice.
        let Some(_healing) = node.heals() else { return };
        let mut again = AGAIN;
        while !wanting.is_empty() {
            let mut taken = Vec::new();
            for at in wanting {
                if node.is_suspect() {
                    return;
                }
                if batch.is_renewed(at) && self.is_taken(number, &batch.parts[at]).await {
                    taken.push(at);
                }
            }
            // The limit is for all grants together. A grant is requested again only if another owner holds its key on
            // the node.
            taken.truncate(again);
            again -= taken.len();
            wanting = taken;
        }
    }

    /// Requests one grant from a node. Returns whether another owner holds the key there.
    async fn is_taken(&self, number: usize, part: &Part) -> bool {
        // If a request of this owner to the node is in progress, the next renewal tries again.
        let Some(slot) = part.tracked.free_slot(number) else { return false };
        // A released or expired lock must not come back on this node.
        if part.tracked.is_returned() || part.valid.is_past(self.now()) {
            return false;
        }
        let open = RoundHandle::<Reply>::with_disposition(self.nodes.len(), Disposition::Keep);
        let claim = Claim { ttl: part.ttl, fencing: false, ..part.claim.clone() };
        let limit = timing::patience(claim.ttl, self.node_timeout);
        let patience = self.patience(Detached::from_the_beginning(), self.now(), limit);
        self.ask(slot, &claim, Ask::Try, &open.share(), &patience).await;
        // The verdict on the lock is final. The answer shows only whether this node has the grant now.
        let Some(said) = open.close(Disposition::Keep).swap_remove(number) else { return false };
        let taken = matches!(said.answer, Ok(Attempt::Held(_)));
        // If the owner has released the lock meanwhile, the new grant is released too.
        self.settle(said, Disposition::Keep, &claim).await;
        if !taken && part.claim.own_fence().is_some() && !part.tracked.is_returned() {
            // The new grant lacks the fencing token of its owner. A renewal writes this token to the node, so that the
            // next token of the node is larger.
            let renew = [Renew { claim: &part.claim, ttl: part.ttl }];
            let limit = timing::renewal(part.ttl, self.node_timeout);
            let _ = tokio::time::timeout(limit, self.nodes[number].backend.renew(&renew)).await;
        }
        taken
    }
}
