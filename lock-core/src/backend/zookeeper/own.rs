//! Finds the node of a claim in the present session, and its nodes of earlier sessions.

use zookeeper_client::Error;

use super::error::Failure;
use super::grants::Entry;
use super::line::Line;
use super::places::{Seen, Site};
use crate::backend::Queue;

impl Site<'_> {
    /// Returns the entry of the claim in this session.
    pub(super) fn entry(&self) -> Result<Option<Entry>, Failure> {
        self.session.with(|grants| grants.get(&self.prefix).cloned())
    }

    /// Reads the queue, and finds the node of the claim in it. `known` is the name of the node, if an answer has
    /// contained it.
    pub(super) async fn look_for_own(
        &self,
        known: Option<String>,
        certain: bool,
    ) -> Result<(Seen, Option<String>), Error> {
        let seen = match known.as_deref().filter(|_| certain).and_then(|node| self.seen_in_copy(node)) {
            Some(seen) => seen,
            None if certain => self.look().await?,
            None => self.look_again().await?,
        };
        let own = match known.filter(|node| seen.line.place_named(node).is_some()) {
            Some(node) => Some(node),
            // A downgrade whose answer was lost may have renamed the node.
            None => self.own_node(&seen.line).await?,
        };
        match own {
            Some(node) => Ok((self.without_others(&node, Ok(seen)).await?, Some(node))),
            None => Ok((seen, None)),
        }
    }

    /// Returns the copy of the queue, if there is a copy that contains this node. No node is ever added before this
    /// node. So if the node holds the key in the copy, it also holds the key in the store.
    fn seen_in_copy(&self, node: &str) -> Option<Seen> {
        let copy = self.session.copies.existing(self.directory.as_bytes())?;
        let read = copy.look(|seen| {
            let is_in = seen.queue.place_named(node).is_some();
            is_in.then(|| Seen { line: seen.queue.clone(), changed: seen.revision })
        });
        read.flatten()
    }

    /// Reads the queue for a claim without a node in this session.
    pub(super) async fn look_without_node(&self) -> Result<Seen, Error> {
        // A claim of a fair lock must find all earlier nodes. Even after this read, the claim can miss a node that the
        // leader has committed but does not yet show to its own clients. Other servers may show that node earlier.
        let seen = match self.claim.queue {
            Queue::Fifo => self.look_again().await,
            Queue::Barging => self.look().await,
        };
        self.without_others("", seen).await
    }

    /// Deletes the nodes of the claim except `own`. These nodes belong to an earlier session, which the servers may
    /// keep for a while. If these nodes stayed, the claim could wait for itself, or mistake a node of another session
    /// for its own.
    pub(super) async fn without_others(&self, own: &str, seen: Result<Seen, Error>) -> Result<Seen, Error> {
        let seen = seen?;
        let mut found = false;
        for name in seen.line.nodes_of(&self.mark).filter(|name| *name != own) {
            found = true;
            self.delete(name).await?;
        }
        if found { self.look_again().await } else { Ok(seen) }
    }

    /// Returns the claim's node that this session has created. This is needed if the answer with the name of the node
    /// was lost.
    async fn own_node(&self, line: &Line) -> Result<Option<String>, Error> {
        let client = self.session.client();
        for name in line.nodes_of(&self.mark) {
            let stat = client.check_stat(&self.path(name)).await?;
            if stat.is_some_and(|stat| stat.ephemeral_owner == client.session_id().0) {
                return Ok(Some(name.to_owned()));
            }
        }
        Ok(None)
    }
}
