//! The renewal of a batch: one pipeline for each node, all at once, each with its own deadline.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::router::Router;
use crate::backend::redis::command::Server;
use crate::backend::redis::command::{PER_SCRIPT, Verdict, deadline};
use crate::backend::redis::error::{Failure, Reaction, Redirect};
use crate::backend::redis::slot;
use crate::backend::remote::join_all;
use crate::backend::remote::renewal::{KeyLease, of_grants};
use crate::backend::{BoxFuture, Renew, Renewal};

/// The most times that one renewal is sent while nodes redirect it.
const ROUNDS: usize = 3;

/// One key of one grant.
struct Part<'a> {
    /// Its position among the keys of the batch.
    at: usize,
    lock: KeyLease<'a>,
    slot: u16,
    /// The node that the slot is being moved to, if the key is already there.
    asking: Option<Arc<Server>>,
    /// The last redirect.
    redirect: Option<Redirect>,
}

/// The verdicts so far, each with the position of its part.
type Verdicts = Vec<(usize, Verdict)>;

impl Router {
    pub(crate) async fn renew(&self, batch: &[Renew<'_>]) -> Vec<Renewal> {
        let Some(shortest) = batch.iter().map(|renew| renew.ttl).min() else {
            return Vec::new();
        };
        let deadline = deadline(shortest, self.config().timeout);
        let part = |(at, lock): (usize, _)| {
            let lock: KeyLease<'_> = lock;
            Part { at, lock, slot: slot::of_key(lock.key.as_str()), asking: None, redirect: None }
        };
        let parts: Vec<_> = batch.iter().flat_map(KeyLease::of_grant).enumerate().map(part).collect();
        // Unknown until an answer is there: a missing answer must not count as a renewal.
        let mut verdicts = vec![Verdict::Unknown(Failure::no_answer(deadline)); parts.len()];
        // A node that hangs does not harm the locks of the others: their answers only wait for its deadline.
        let group = |parts| -> BoxFuture<'_, _> { Box::pin(self.renew_group(parts, deadline)) };
        let groups = self.by_node(parts).into_iter().map(group);
        for (at, verdict) in join_all(groups.collect()).await.into_iter().flatten() {
            verdicts[at] = verdict;
        }
        of_grants(batch, verdicts, |failure| failure.to_error(&self.config().address))
    }

    /// Groups the parts by the node that is asked for them, with the parts of one slot side by side.
    fn by_node<'a>(&self, mut parts: Vec<Part<'a>>) -> Vec<Vec<Part<'a>>> {
        // A script can name keys of one slot only, so these must be neighbours.
        parts.sort_by_key(|part| part.slot);
        let mut groups: Vec<(Option<Arc<Server>>, Vec<Part<'a>>)> = Vec::new();
        for part in parts {
            // The node that was named by ASK goes first: until the slot has moved as a whole, the router still knows
            // the old node.
            let node = part.asking.clone().or_else(|| self.node(part.slot));
            // A pipeline is sent with ASKING or without it, so parts of both sorts are kept apart.
            let belongs = |(of, others): &&mut (Option<Arc<Server>>, Vec<Part<'a>>)| {
                of.as_ref().map(Arc::as_ptr) == node.as_ref().map(Arc::as_ptr)
                    && others.first().is_some_and(|other| other.asking.is_some() == part.asking.is_some())
            };
            match groups.iter_mut().find(belongs) {
                Some((_, parts)) => parts.push(part),
                None => groups.push((node, vec![part])),
            }
        }
        groups.into_iter().map(|(_, parts)| parts).collect()
    }

    /// Renews the parts that one node is believed to have, and follows its redirects.
    async fn renew_group(&self, parts: Vec<Part<'_>>, deadline: Duration) -> Verdicts {
        let mut verdicts = Vec::with_capacity(parts.len());
        // A verdict that is missing at the deadline stays unknown.
        // The list is outside the future, so that a deadline keeps the verdicts that are there.
        let _ = timeout(deadline, self.follow(parts, &mut verdicts)).await;
        verdicts
    }

    async fn follow(&self, parts: Vec<Part<'_>>, verdicts: &mut Verdicts) {
        // A node refuses a script for several keys if some of them have moved already, so only the first round uses
        // such scripts.
        let (mut pending, mut per_script) = (vec![parts], PER_SCRIPT);
        for _ in 0..ROUNDS {
            let mut again = Vec::new();
            for group in pending {
                self.renew_at_once(group, per_script, verdicts, &mut again).await;
            }
            if again.iter().any(|part| part.redirect == Some(Redirect::Down)) {
                // The node may have lost its slots to another one, and perhaps no other caller has looked yet.
                let _ = self.look_again().await;
            }
            (pending, per_script) = (self.by_node(again), 1);
        }
        for part in pending.into_iter().flatten() {
            let redirect = part.redirect.unwrap_or(Redirect::Later);
            // The renewal was redirected in every round. No node has answered for this lock, and that is not a loss.
            verdicts.push((part.at, Verdict::Unknown(redirect.to_failure())));
        }
    }

    /// Runs one round at one node. Parts that it redirected go to `again`.
    async fn renew_at_once<'a>(
        &self,
        parts: Vec<Part<'a>>,
        per_script: usize,
        verdicts: &mut Verdicts,
        again: &mut Vec<Part<'a>>,
    ) {
        let Some(first) = parts.first() else { return };
        let asking = first.asking.clone();
        let node = match &asking {
            Some(node) => Ok(Arc::clone(node)),
            None => self.ready(first.slot).await,
        };
        let answers = match &node {
            Ok(node) => {
                let locks: Vec<KeyLease<'_>> = parts.iter().map(|part| part.lock).collect();
                let mut rest = locks.as_slice();
                let mut chunks = Vec::new();
                for of_slot in parts.chunk_by(|one, other| one.slot == other.slot) {
                    let (these, others) = rest.split_at(of_slot.len());
                    chunks.extend(these.chunks(per_script));
                    rest = others;
                }
                node.renew_chunks(&chunks, asking.is_some()).await
            }
            Err(failure) => Err(failure.clone()),
        };
        let answers = answers.unwrap_or_else(|failure| vec![Verdict::Unknown(failure); parts.len()]);
        for (part, verdict) in parts.into_iter().zip(answers) {
            match (&node, verdict) {
                // A redirect proves that the node did nothing for this lock. Any other failure may follow an execution,
                // and stays unknown.
                (Ok(node), Verdict::Unknown(Failure { reaction: Reaction::Follow(redirect), .. })) => {
                    let asking = self.sent_on(node, &redirect);
                    again.push(Part { asking, redirect: Some(redirect), ..part });
                }
                (_, verdict) => verdicts.push((part.at, verdict)),
            }
        }
    }

    /// Records a redirect. Returns the node that the slot is still being moved to, which must be asked with ASKING.
    fn sent_on(&self, by: &Server, redirect: &Redirect) -> Option<Arc<Server>> {
        match redirect {
            Redirect::Ask(place) => Some(self.next_of_slot(by, place)),
            Redirect::Moved { slot, place } => {
                self.moved(*slot, by, place);
                None
            }
            Redirect::Later | Redirect::Down => None,
        }
    }
}
