//! Healing the nodes that lost a grant, or never had it.

use std::sync::Arc;

use super::answers::Reply;
use super::backend::Inner;
use super::deadline::Detached;
use super::renew::{Answers, Batch, Part};
use super::round::{Disposition, RoundHandle};
use super::timing;
use crate::backend::{Ask, Attempt, Backend, Claim, Renew};

/// How often a renewal asks a node again for a grant that another has there, for all grants of the batch together.
///
/// A node that came back without its data gives the key to the first request. A contender that cannot reach a majority
/// still holds this node briefly before it rolls back, and then the next one does. With one request in each renewal the
/// holder would get in between by chance, and the lock would lack a node for many renewals.
const AGAIN: usize = 64;

impl<B: Backend> Inner<B> {
    /// Has every node healed that answered before the verdict and lacks a grant.
    pub(super) fn heal_all(self: &Arc<Self>, batch: &Arc<Batch>, answers: &[Option<Answers>]) {
        for (number, answers) in answers.iter().enumerate() {
            let wanting = batch.wanting(answers.as_ref().and_then(Option::as_deref));
            if batch.any_renewed(&wanting) {
                let (quorum, batch) = (Arc::clone(self), Arc::clone(batch));
                tokio::spawn(async move { quorum.heal(number, &batch, wanting).await });
            }
        }
    }

    /// Gives a node the grants that it lost, or never had, and that a majority has: never others, which would bring a
    /// lock back that is lost. One after another, and no further than the first that is not answered: a node that has
    /// just come back is not to be run down.
    pub(super) async fn heal(&self, number: usize, batch: &Batch, mut wanting: Vec<usize>) {
        let node = &self.nodes[number];
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
            taken.truncate(again);
            again -= taken.len();
            wanting = taken;
        }
    }

    /// Asks a node for one grant. Whether another has the key there.
    async fn is_taken(&self, number: usize, part: &Part) -> bool {
        let Some(slot) = part.tracked.free_slot(number) else { return false };
        if part.tracked.is_returned() || part.valid.is_past(self.now()) {
            return false;
        }
        let open = RoundHandle::<Reply>::with_disposition(self.nodes.len(), Disposition::Keep);
        let claim = Claim { ttl: part.ttl, fencing: false, ..part.claim.clone() };
        let limit = timing::patience(claim.ttl, self.node_timeout);
        let patience = self.patience(Detached::from_the_beginning(), self.now(), limit);
        self.ask(slot, &claim, Ask::Try, &open.share(), &patience).await;
        // There is a verdict on the lock already: what the node says changes nothing but whether it has the grant.
        let Some(said) = open.close(Disposition::Keep).swap_remove(number) else { return false };
        let taken = matches!(said.answer, Ok(Attempt::Held(_)));
        self.settle(said, Disposition::Keep, &claim).await;
        if !taken && part.claim.own_fence().is_some() && !part.tracked.is_returned() {
            // The node is to know the token as well.
            let renew = [Renew { claim: &part.claim, ttl: part.ttl }];
            let limit = timing::renewal(part.ttl, self.node_timeout);
            let _ = tokio::time::timeout(limit, self.nodes[number].backend.renew(&renew)).await;
        }
        taken
    }
}
