//! Claims keys in several slots. A script can access only one slot.
//!
//! The slots are claimed one after another. If a key in a slot is held, the slots that were claimed before it are
//! released. When the call returns, the claim holds all keys or none. During the call, some keys may be locked for a
//! short time, even if the claim fails in the end. Such a claim never queues, so two such claims never wait for each
//! other.

use std::sync::Arc;
use std::time::Duration;

use super::router::Router;
use crate::backend::redis::command::Server;
use crate::backend::redis::command::fence_of;
use crate::backend::redis::error::Failure;
use crate::backend::redis::slot;
use crate::backend::remote::join_all;
use crate::backend::{Ask, Attempt, Claim, FencingToken, Grant, Released};
use crate::clock::{Clock, Moment};
use crate::error::{LockErrorKind, LossReason};
use crate::key::Key;

/// Splits a claim into one claim for each slot. Returns `None` if all keys are in one slot.
pub(super) fn parts(claim: &Claim) -> Option<Vec<Claim>> {
    if claim.more.is_empty() {
        return None;
    }
    let mut slots: Vec<(u16, Vec<Key>)> = Vec::new();
    for key in claim.keys() {
        let slot = slot::of_key(key.as_str());
        match slots.iter_mut().find(|(of, _)| *of == slot) {
            Some((_, keys)) => keys.push(key.clone()),
            None => slots.push((slot, vec![key.clone()])),
        }
    }
    let part = |(_, keys): (u16, Vec<_>)| {
        let mut keys = keys.into_iter();
        let key = keys.next().expect("BUG: a slot is there for a key");
        Claim { key, more: keys.collect(), ..claim.clone() }
    };
    (slots.len() > 1).then(|| slots.into_iter().map(part).collect())
}

impl Router {
    pub(super) async fn acquire_parts(
        &self,
        claim: &Claim,
        parts: &[Claim],
        give_up: Moment,
    ) -> Result<Attempt, Failure> {
        // Marks the whole claim as sent. Each part marks only itself.
        claim.mark_sent();
        // All slots share one deadline, because the lease counts from the first request.
        let deadline = give_up.remaining(Clock::Suspend.now());
        let mut grants = Vec::with_capacity(parts.len());
        for (number, part) in parts.iter().enumerate() {
            // A part is never queued: two claims that each hold some keys could wait for each other.
            let call = |node| self.ask(node, part, claim, Ask::Try, give_up);
            match self.within(deadline, &part.key, call).await {
                Ok(Attempt::Granted(grant)) => grants.push(grant),
                answer => {
                    let answer = match answer {
                        Ok(Attempt::Held(held)) => Ok(Attempt::Held(held.on_key(claim, &part.key))),
                        answer => answer.map_err(|failure| failure.on_key(&part.key)),
                    };
                    // Releases only the parts before the failed part. A refused part holds nothing. If the error of the
                    // part is in doubt, the part may hold its keys, and the caller releases the whole claim. If a
                    // release fails here, keys may stay locked, so its error is in doubt too.
                    let back = self.release_parts(&parts[..number], None, deadline).await;
                    return match back {
                        Ok(_) => answer,
                        Err(failure) => Err(failure.in_doubt()),
                    };
                }
            }
        }
        let waiters = grants.iter().map(|grant| grant.waiters).sum::<Option<usize>>();
        let fence = match claim.fencing {
            false => None,
            true => {
                let fences = grants.iter().zip(parts).filter_map(|(grant, part)| Some((part, grant.fence?)));
                match self.level(claim, fences.collect(), deadline).await {
                    Ok(Ok(fence)) => Some(fence),
                    Ok(Err(_)) => {
                        let text = "one of the keys was lost before the others were there";
                        return Err(Failure::new(LockErrorKind::Unavailable, text).in_doubt());
                    }
                    // There is no common token. The claim holds all keys, so the caller must release them.
                    Err(failure) => return Err(failure.in_doubt()),
                }
            }
        };
        // The lease of the whole claim counts from the first request, because the lease of the first part ends first.
        let sent = grants.first().expect("BUG: a claim has keys").sent;
        Ok(Attempt::Granted(Grant::new(sent, claim.ttl).with_fence(fence).with_waiters(waiters)))
    }

    pub(super) async fn release_parts(
        &self,
        parts: &[Claim],
        keep_for: Option<Duration>,
        deadline: Duration,
    ) -> Result<Released, Failure> {
        let calls = parts.iter().map(|part| self.release_one(part, keep_for, deadline));
        let mut answer = Released::Released;
        // Waits for all releases before it returns the first failure. If one node fails, the keys on the other nodes
        // must still be released.
        for released in join_all(calls).await {
            // The worst answer among the parts is the answer of the claim.
            answer = match (answer, released?) {
                (Released::Taken, _) | (_, Released::Taken) => Released::Taken,
                (Released::Expired, _) | (_, Released::Expired) => Released::Expired,
                _ => Released::Released,
            };
        }
        Ok(answer)
    }

    /// Makes one token for all keys.
    pub(super) async fn fence_parts(
        &self,
        claim: &Claim,
        parts: &[Claim],
        deadline: Duration,
    ) -> Result<Result<FencingToken, LossReason>, Failure> {
        let mut fences = Vec::with_capacity(parts.len());
        for part in parts {
            let call = |node: Arc<Server>| async move { node.fence(part).await };
            match self.within(deadline, &part.key, call).await? {
                Ok(fence) => fences.push((part, fence)),
                Err(reason) => return Ok(Err(reason)),
            }
        }
        self.level(claim, fences, deadline).await
    }

    /// Raises the tokens of all keys to the largest of them, which becomes the token of the grant. Then the next owner
    /// of each key gets a larger token. The time alone would not ensure this, because each node has its own clock.
    async fn level(
        &self,
        claim: &Claim,
        fences: Vec<(&Claim, FencingToken)>,
        deadline: Duration,
    ) -> Result<Result<FencingToken, LossReason>, Failure> {
        let Some(largest) = fences.iter().map(|(_, fence)| *fence).max() else {
            return Err(
                Failure::new(LockErrorKind::Unavailable, "the nodes gave no fencing token").in_doubt()
            );
        };
        let of = fence_of(claim);
        for (part, fence) in fences {
            // The key with the largest token needs no second request.
            if fence < largest {
                let of = of.as_str();
                let call =
                    |node: Arc<Server>| async move { node.fence_above(part, largest.get() - 1, of).await };
                if let Err(reason) = self.within(deadline, &part.key, call).await? {
                    return Ok(Err(reason));
                }
            }
            // Marks the whole claim, because the parts are dropped at the end of this call. Because of the mark, a
            // renewal also extends the time for which the server remembers the token.
            claim.mark_fenced();
            if part.is_fence_ahead() {
                claim.mark_fence_ahead();
            }
        }
        Ok(Ok(largest))
    }
}
