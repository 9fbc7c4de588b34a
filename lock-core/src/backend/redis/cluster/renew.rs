//! Renewing a batch: for each node one pipeline, all at once, each with a deadline of its own.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::router::Router;
use crate::backend::redis::command::Server;
use crate::backend::redis::command::{Lock, PER_SCRIPT, Verdict, deadline, of_claims};
use crate::backend::redis::error::{Failure, Reaction, Redirect};
use crate::backend::redis::slot;
use crate::backend::remote::join_all;
use crate::backend::{BoxFuture, Renew, Renewal};

/// How often a lock is asked for, in all, where one node sends it on to the next.
const ROUNDS: usize = 3;

/// One key of one grant.
struct Part<'a> {
    /// Its place in the batch.
    at: usize,
    lock: Lock<'a>,
    slot: u16,
    /// The node that the slot is being moved to, where the key is there already.
    asking: Option<Arc<Server>>,
    /// What it was sent on with the last time.
    redirect: Option<Redirect>,
}

/// What is known so far.
type Verdicts = Vec<(usize, Verdict)>;

impl Router {
    pub(crate) async fn renew(&self, batch: &[Renew<'_>]) -> Vec<Renewal> {
        let Some(shortest) = batch.iter().map(|renew| renew.ttl).min() else {
            return Vec::new();
        };
        let deadline = deadline(shortest, self.config().timeout);
        let part = |(at, lock): (usize, _)| {
            let lock: Lock<'_> = lock;
            Part { at, lock, slot: slot::of(lock.key.as_str()), asking: None, redirect: None }
        };
        let parts: Vec<_> = batch.iter().flat_map(Lock::of).enumerate().map(part).collect();
        let mut verdicts = vec![Verdict::Unknown(Failure::no_answer(deadline)); parts.len()];
        // A node that hangs costs the locks of the others nothing but that their answers wait for its deadline.
        let group = |parts| -> BoxFuture<'_, _> { Box::pin(self.renew_group(parts, deadline)) };
        let groups = self.by_node(parts).into_iter().map(group);
        for (at, verdict) in join_all(groups.collect()).await.into_iter().flatten() {
            verdicts[at] = verdict;
        }
        of_claims(batch, verdicts, |failure| failure.to_error(&self.config().address))
    }

    /// By the node where each is asked for, and those of a slot side by side.
    fn by_node<'a>(&self, mut parts: Vec<Part<'a>>) -> Vec<Vec<Part<'a>>> {
        parts.sort_by_key(|part| part.slot);
        let mut groups: Vec<(Option<Arc<Server>>, Vec<Part<'a>>)> = Vec::new();
        for part in parts {
            let node = part.asking.clone().or_else(|| self.node(part.slot));
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

    /// Those that are one node's as far as is known, and what it sends on.
    async fn renew_group(&self, parts: Vec<Part<'_>>, deadline: Duration) -> Verdicts {
        let mut verdicts = Vec::with_capacity(parts.len());
        // What is not there by then stays unknown.
        let _ = timeout(deadline, self.follow(parts, &mut verdicts)).await;
        verdicts
    }

    async fn follow(&self, parts: Vec<Part<'_>>, verdicts: &mut Verdicts) {
        // A script for several keys is refused where some of them have been moved already.
        let (mut pending, mut per_script) = (vec![parts], PER_SCRIPT);
        for _ in 0..ROUNDS {
            let mut again = Vec::new();
            for group in pending {
                self.renew_at_once(group, per_script, verdicts, &mut again).await;
            }
            if again.iter().any(|part| part.redirect == Some(Redirect::Down)) {
                // It may have lost its slots to another one, which nobody else needs to have asked for.
                let _ = self.look_again().await;
            }
            (pending, per_script) = (self.by_node(again), 1);
        }
        for part in pending.into_iter().flatten() {
            let redirect = part.redirect.unwrap_or(Redirect::Later);
            verdicts.push((part.at, Verdict::Unknown(redirect.to_failure())));
        }
    }

    /// One round at one node. What it did nothing about goes to `again`.
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
                let locks: Vec<Lock<'_>> = parts.iter().map(|part| part.lock).collect();
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
                (Ok(node), Verdict::Unknown(Failure { reaction: Reaction::Follow(redirect), .. })) => {
                    let asking = self.sent_on(node, &redirect);
                    again.push(Part { asking, redirect: Some(redirect), ..part });
                }
                (_, verdict) => verdicts.push((part.at, verdict)),
            }
        }
    }

    /// Takes note of where a node has sent on to. A node to which the slot is only being moved is to be asked as such.
    fn sent_on(&self, by: &Server, redirect: &Redirect) -> Option<Arc<Server>> {
        match redirect {
            Redirect::Ask(place) => Some(self.at(by, place)),
            Redirect::Moved { slot, place } => {
                self.moved(*slot, by, place);
                None
            }
            Redirect::Later | Redirect::Down => None,
        }
    }
}
