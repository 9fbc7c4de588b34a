//! Renews a batch of leases. Each node gets one pipeline with its own deadline, and all pipelines run at the same time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::router::Router;
use crate::backend::redis::command::Server;
use crate::backend::redis::command::{PER_SCRIPT, Verdict};
use crate::backend::redis::error::{Failure, Reaction, Redirect};
use crate::backend::redis::slot;
use crate::backend::remote::renewal::{KeyLease, of_grants};
use crate::backend::remote::{deadline, join_all};
use crate::backend::{Renew, Renewal};

/// The maximum number of times that one renewal is sent while nodes redirect it.
const ROUNDS: usize = 3;

/// One key of one grant.
struct Part<'a> {
    /// The position of the key among the keys of the batch.
    at: usize,
    lock: KeyLease<'a>,
    slot: u16,
    /// The node that the slot is being moved to, if the key is already there.
    asking: Option<Arc<Server>>,
    redirect: Option<Redirect>,
}

/// The verdicts so far, each with the position of its part.
type Verdicts = Vec<(usize, Verdict)>;

impl Router {
    pub(crate) async fn renew(&self, batch: &[Renew<'_>]) -> Vec<Renewal> {
        let Some(shortest) = batch.iter().map(|renew| renew.ttl).min() else {
            return Vec::new();
        };
        let deadline = deadline::of_renewal(self.config().timeout, shortest);
        let part = |(at, lock): (usize, _)| {
            let lock: KeyLease<'_> = lock;
            Part { at, lock, slot: slot::of_key(lock.key.as_str()), asking: None, redirect: None }
        };
        let parts: Vec<_> = batch.iter().flat_map(KeyLease::of_grant).enumerate().map(part).collect();
        // Each verdict is `Unknown` until an answer arrives, because a missing answer must not count as a renewal.
        let mut verdicts = vec![Verdict::Unknown(Failure::no_answer(deadline)); parts.len()];
        // If a node hangs, the locks on the other nodes are still renewed. Only the return of this call is delayed, at
        // most until the deadline.
        let groups = self.by_node(parts).into_iter().map(|parts| self.renew_group(parts, deadline));
        for (at, verdict) in join_all(groups).await.into_iter().flatten() {
            verdicts[at] = verdict;
        }
        of_grants(batch, verdicts, |failure| failure.to_error(&self.config().address))
    }

    /// Groups the parts by their nodes. In a group, parts of the same slot are adjacent.
    fn by_node<'a>(&self, mut parts: Vec<Part<'a>>) -> Vec<Vec<Part<'a>>> {
        // A script can name only keys of one slot, so the keys of a slot must be adjacent.
        parts.sort_by_key(|part| part.slot);
        let mut groups: Vec<(Option<Arc<Server>>, Vec<Part<'a>>)> = Vec::new();
        for part in parts {
            // A node from an ASK redirect takes precedence. The router keeps the old node until the whole slot has
            // moved.
            let node = part.asking.clone().or_else(|| self.node(part.slot));
            // A pipeline is sent either with ASKING or without, so the two kinds of parts are separated.
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

    /// Renews the parts that the router assigns to one node, and follows redirects.
    async fn renew_group(&self, parts: Vec<Part<'_>>, deadline: Duration) -> Verdicts {
        let mut verdicts = Vec::with_capacity(parts.len());
        // The list of verdicts is outside of the future, so that the verdicts before the deadline are kept. The other
        // verdicts stay unknown.
        let _ = timeout(deadline, self.follow(parts, &mut verdicts)).await;
        verdicts
    }

    async fn follow(&self, parts: Vec<Part<'_>>, verdicts: &mut Verdicts) {
        // If some keys have already moved, a node refuses a script for several keys. So only the first round uses such
        // scripts.
        let (mut pending, mut per_script) = (vec![parts], PER_SCRIPT);
        for _ in 0..ROUNDS {
            let mut again = Vec::new();
            for group in pending {
                self.renew_at_once(group, per_script, verdicts, &mut again).await;
            }
            if again.iter().any(|part| part.redirect == Some(Redirect::Down)) {
                // The slots may have moved to another node.
                let _ = self.look_again().await;
            }
            (pending, per_script) = (self.by_node(again), 1);
        }
        for part in pending.into_iter().flatten() {
            let redirect = part.redirect.unwrap_or(Redirect::Later);
            // Every round was redirected. This is not a loss, because no node has answered for this lock.
            verdicts.push((part.at, Verdict::Unknown(redirect.to_failure())));
        }
    }

    /// Sends the renewal to one node once. Adds the redirected parts to `again`.
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
                // A redirect proves that the node did nothing for this lock. After any other failure, the node may have
                // renewed it, so the verdict stays unknown.
                (Ok(node), Verdict::Unknown(Failure { reaction: Reaction::Follow(redirect), .. })) => {
                    let asking = self.sent_on(node, &redirect);
                    again.push(Part { asking, redirect: Some(redirect), ..part });
                }
                (_, verdict) => verdicts.push((part.at, verdict)),
            }
        }
    }

    /// Records a redirect. For an ASK redirect, returns the node that the slot is being moved to. That node accepts the
    /// renewal only after `ASKING`.
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
