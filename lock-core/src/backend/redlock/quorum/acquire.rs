//! Makes one attempt: sends a claim to all nodes at once, and a majority decides.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::answers::{Reply, grants, largest_token, merge, no_quorum, refusal};
use super::backend::Inner;
use super::deadline::{Deadline, Detached};
use super::fanout::Fanout;
use super::ledger::{Slot, Tracked};
use super::round::{Disposition, Round, RoundHandle};
use super::timing::{self, Waiting, Waits};
use super::votes::{Tally, Verdict, Vote, Why, max_failures};
use crate::backend::{Ask, Attempt, Backend, Claim, Grant};
use crate::clock::Moment;
use crate::error::{LockError, LockErrorKind, Result};

/// The longest time that a call waits for a late answer from its node.
const PATIENCE: Duration = Duration::from_secs(30);

struct Try<'a> {
    claim: &'a Claim,
    sent: Moment,
    tracked: Tracked,
    open: RoundHandle<Reply>,
}

impl<B: Backend> Inner<B> {
    pub(super) async fn acquire(self: &Arc<Self>, claim: &Claim, ask: Ask) -> Result<Attempt> {
        self.supports(claim)?;
        // The time is read before the first request is sent. All leases, and the validity of the grant, count from this
        // time. So in this process a lease ends before it ends on any node, even if a request was delayed.
        let sent = self.now();
        let tracked = self.ledger.track(claim.owner, sent, claim.ttl);
        // Clears the mark of an earlier release of this owner. With that mark, the ledger would not record the grant,
        // and late grants would be released although the attempt has won.
        tracked.wants();
        // If the owner already has the grant and the repeated attempt fails, the owner keeps the grant. For example,
        // the attempt may have requested a mode that it cannot get.
        let unwanted = if tracked.left(sent).is_some() { Disposition::Keep } else { Disposition::GiveBack };
        let open = RoundHandle::with_disposition(self.nodes.len(), unwanted);
        let attempt = Try { claim, sent, tracked, open };
        let fanout = self.ask_all(&attempt, ask);
        let verdict = |answers: &[Option<Reply>], waiting| match self.tally(answers, waiting).verdict() {
            Verdict::Open => None,
            verdict => Some(verdict),
        };
        let waits = timing::attempt(claim.ttl, self.node_timeout);
        match attempt.open.decided(waits, fanout, verdict).await {
            Some(Verdict::Won) => self.won(attempt).await,
            Some(Verdict::Lost(why)) => self.lost(attempt, why).await,
            Some(Verdict::Open) | None => {
                unreachable!("BUG: with nobody left to wait for there is a verdict")
            }
        }
    }

    /// Creates a call for each node. After the verdict, or if the caller is dropped, the calls continue without the
    /// caller.
    fn ask_all(
        self: &Arc<Self>,
        attempt: &Try<'_>,
        ask: Ask,
    ) -> Fanout<impl Future<Output = ()> + Send + use<B>> {
        // The calls may outlive the caller, so they use a copy of the claim. Marks on the copy do not reach the
        // caller's claim, which is marked below.
        let claim = Arc::new(attempt.claim.clone());
        let mut fanout = Fanout::with_capacity(self.nodes.len());
        for (number, node) in self.nodes.iter().enumerate() {
            // An earlier request is still waiting for this node. Another request would only make the node's queue
            // longer.
            if node.is_stuck() {
                let said = Reply::nothing("it does not answer, and an earlier request still waits for it");
                let _ = attempt.open.put(number, said);
                continue;
            }
            // From here on, a request may have been sent, so a dropped attempt must be cleaned up.
            attempt.claim.mark_sent();
            let (quorum, claim, round) = (Arc::clone(self), Arc::clone(&claim), attempt.open.share());
            let tracked = attempt.tracked.clone();
            let is_suspect = node.is_suspect();
            let alone = if is_suspect { Detached::from_the_beginning() } else { fanout.alone() };
            let limit = timing::patience(claim.ttl, self.node_timeout);
            // If the caller times out, the missing answer of this node counts as a failure at once. Otherwise the
            // failure would count only at the deadline of the call, and attempts that begin before that deadline would
            // also wait for the node.
            let patience = Deadline { with_caller: true, ..self.patience(alone, attempt.sent, limit) };
            let call = async move {
                // An earlier attempt of this owner, or its release, may still be running on this node. This attempt
                // must wait for its end.
                let slot = match tracked.free_slot(number) {
                    Some(slot) => Some(slot),
                    None => {
                        let limit = timing::patience(claim.ttl, quorum.node_timeout);
                        Box::pin(tokio::time::timeout(limit, tracked.slot(number))).await.ok()
                    }
                };
                if let Some(slot) = slot {
                    quorum.ask(slot, &claim, ask, &round, &patience).await;
                } else {
                    let said = Reply::nothing("an earlier request of this owner is not settled there");
                    let _ = round.put(number, said);
                }
            };
            // A suspect node (see `Node::is_suspect`) is called in a task, because other attempts skip the node until
            // this call ends. A task continues even if the caller's future is neither polled nor dropped.
            match is_suspect {
                true => fanout.send_off(call),
                false => fanout.add(call),
            }
        }
        fanout
    }

    /// Sends the claim to one node and handles the answer, even a late answer. The rare paths are boxed to keep this
    /// future small, because every attempt stores such a future for each node.
    pub(super) async fn ask(
        &self,
        slot: Slot,
        claim: &Claim,
        ask: Ask,
        round: &Round<Reply>,
        patience: &Deadline,
    ) {
        let number = slot.node;
        // An earlier release that was not answered may still reach the node. If it arrives after this request, it
        // removes a vote that was counted.
        if !slot.tracked.is_sure(number) {
            let said =
                Reply::nothing("a release of this owner was not answered there, so its answers do not count");
            let _ = round.put(number, said);
            return;
        }
        // The attempt failed while this call waited for its slot. Nothing was sent, so there is nothing to release.
        if round.fate() == Some(Disposition::GiveBack) {
            return;
        }
        let node = &self.nodes[number];
        // A call to a suspect node is counted while it runs, so that other attempts do not queue for the same node.
        let waiting = node.is_suspect().then(|| node.waits());
        // The call is pinned in place, because moving it would make this future larger.
        let mut call = std::pin::pin!(async { node.backend.acquire(claim, ask).await });
        let answer = match patience.with(call.as_mut()).await {
            Some(answer) => answer,
            None => {
                node.failed();
                Box::pin(self.late(call, &slot, claim, round)).await
            }
        };
        node.heard(&answer);
        // The count ends before the clean-up below: the node has answered, so the next attempt may send its request.
        drop(waiting);
        // After the verdict, the round returns the answer, and this call must release an unwanted grant itself.
        if let Err((fate, said)) = round.put(number, Reply { answer, slot: Some(slot) }) {
            Box::pin(self.settle(said, fate, claim)).await;
        }
    }

    /// Waits for a node's answer after the caller has stopped waiting. Even without an answer, the node may have
    /// granted the claim. So if the attempt has failed, a release is sent before the answer arrives. Otherwise the key
    /// would stay locked until then.
    async fn late(
        &self,
        mut call: Pin<&mut (impl Future<Output = Result<Attempt>> + Send)>,
        slot: &Slot,
        claim: &Claim,
        round: &Round<Reply>,
    ) -> Result<Attempt> {
        let limit = timing::patience(claim.ttl, self.node_timeout);
        // The answer may just be late. If it arrives, it shows whether there is a grant to release.
        if let Ok(answer) = tokio::time::timeout(limit, &mut call).await {
            return answer;
        }
        if round.fate() == Some(Disposition::GiveBack) {
            self.clean(slot, claim).await;
        }
        // The slot is kept until the answer arrives, so that no later attempt of this owner overlaps with this attempt.
        let answer = tokio::time::timeout(claim.ttl.min(PATIENCE), call).await;
        answer.unwrap_or_else(|_| Err(silent("it did not answer at all")))
    }

    /// Releases a possible grant of one node, if the attempt failed or the owner has released the claim.
    pub(super) async fn settle(&self, said: Reply, fate: Disposition, claim: &Claim) {
        let taken = said.may_be_taken();
        let Some(slot) = said.slot else { return };
        // Even with `Keep`, a grant may be unwanted: the owner may have released the claim while this request was being
        // sent. If that release reached the node before this request, no later release would undo the grant.
        let unwanted = fate == Disposition::GiveBack || slot.tracked.is_returned();
        // If a release of the owner waits for this slot, that release frees the grant. The release is sent even if its
        // wait has timed out.
        if taken && unwanted && !slot.tracked.is_followed(slot.node) {
            self.clean(&slot, claim).await;
        }
    }

    /// Releases the claim on one node. The caller holds the slot, so no other request of this owner overtakes the
    /// release. Returns whether the node answered.
    async fn clean(&self, slot: &Slot, claim: &Claim) -> bool {
        let node = &self.nodes[slot.node];
        // The release is recorded before it is sent. If no answer arrives, the node no longer has a vote for this
        // owner.
        slot.tracked.releasing(slot.node);
        let limit = timing::patience(claim.ttl, self.node_timeout);
        match tokio::time::timeout(limit, node.backend.release(claim, None)).await {
            Ok(Ok(_)) => {
                slot.tracked.released(slot.node);
                true
            }
            Ok(Err(_)) | Err(_) => false,
        }
    }

    fn tally(&self, answers: &[Option<Reply>], waiting: Waiting) -> Tally {
        let vote = |node: usize| answers[node].as_ref().map(Reply::vote);
        let said = |node: &usize| vote(*node).is_some_and(|vote| vote != Vote::Unavailable);
        // During the second wait (`Waiting::Majority`), the attempt ends as soon as a majority has answered. Temporary
        // errors do not count towards this majority: such an error does not describe the key, and a missing node may
        // still decide.
        let over = waiting.is_over((0..answers.len()).filter(said).count(), answers.len());
        let skipped = self.skipped(|node| vote(node) == Some(Vote::Unavailable));
        let votes = (0..answers.len()).filter_map(|node| match vote(node) {
            Some(vote) => Some(vote),
            None if over || skipped(node) => Some(Vote::Unavailable),
            None => None,
        });
        Tally::new(self.nodes.len(), votes)
    }

    /// Completes an attempt that a majority granted. The attempt still fails if the fencing token is missing, or if too
    /// little of the lease is left.
    async fn won(self: &Arc<Self>, attempt: Try<'_>) -> Result<Attempt> {
        let given = attempt.open.look(grants);
        // The shortest lease counts: when it ends, the other nodes may not be a majority.
        let lease = given.iter().map(|grant| grant.lease).min().unwrap_or(attempt.claim.ttl);
        let mut grant = Grant::new(attempt.sent, lease);
        // The grant is recorded before the token is requested, because `spread` reads the remaining lease from the
        // ledger. A request for a token must not extend the lease.
        attempt.tracked.kept(attempt.sent, self.valid(attempt.sent, lease));
        if attempt.claim.fencing {
            let token = self.token_of(attempt.claim, &attempt.tracked, attempt.sent, &given);
            match token.await {
                Ok(token) => grant.fence = Some(token),
                Err(error) => {
                    self.give_up(&attempt).await;
                    return Err(error);
                }
            }
        }
        // The time is measured after the round for the token, which also uses a part of the lease.
        let elapsed = self.now().since(attempt.sent);
        let left = timing::validity(lease, self.drift(lease), elapsed);
        if timing::is_too_little(left, lease) {
            self.give_up(&attempt).await;
            let detail = format!(
                "the nodes granted it after {elapsed:?}, which leaves {left:?} of a lease of {lease:?}: choose a longer \
                 ttl, or nodes that are nearer"
            );
            return Err(LockError::new(LockErrorKind::Unavailable, detail).with_key(&attempt.claim.key));
        }
        // Late grants are kept: they make the majority larger, and the release reaches every node.
        attempt.open.close(Disposition::Keep);
        Ok(Attempt::Granted(grant))
    }

    async fn lost(self: &Arc<Self>, attempt: Try<'_>, why: Why) -> Result<Attempt> {
        let (said, clean) = self.give_up(&attempt).await;
        let (mut held, mut failures, mut missing, mut granted) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for (node, said) in self.nodes.iter().zip(said) {
            match said {
                Some(Ok(Attempt::Granted(_))) => granted += 1,
                Some(Ok(Attempt::Held(one))) => held.push(one),
                Some(Err(error)) => failures.push((node.name(), Some(error))),
                None => missing.push((node.name(), None)),
            }
        }
        if failures.len() <= max_failures(self.nodes.len()) {
            // With more failures than that, these alone decided the verdict, and the missing nodes might still have
            // answered in time.
            failures.append(&mut missing);
        }
        let error = match why {
            Why::Contended => {
                if !self.all_count(&attempt.tracked) {
                    attempt.claim.mark_resent();
                }
                return Ok(Attempt::Held(merge(self.nodes.len(), &held, granted)));
            }
            Why::Refused => refusal(failures).or_key(&attempt.claim.key),
            Why::NoQuorum => {
                let answered = |(_, error): &(_, Option<LockError>)| {
                    error.as_ref().is_some_and(|error| !error.is_temporary() || error.retry_after().is_some())
                };
                let what = if failures.iter().any(answered) { "vote" } else { "answer" };
                no_quorum(self.nodes.len(), what, failures).with_key(&attempt.claim.key)
            }
        };
        // Without the mark `nothing_taken`, the library repeats the release in the background. So the mark is set only
        // if every possible grant was released and its node confirmed the release.
        Err(if clean { error.nothing_taken() } else { error })
    }

    /// Ends a failed attempt. Releases the grants that nodes have reported, and waits a limited time for the answers to
    /// these releases. Grants that are only possible, or that arrive late, are released in the background. Returns the
    /// answers of the nodes, and whether it is certain that no grant remains.
    async fn give_up(self: &Arc<Self>, attempt: &Try<'_>) -> (Vec<Option<Result<Attempt>>>, bool) {
        let claim = Arc::new(attempt.claim.clone());
        let fate = attempt.open.unwanted();
        let counts = self.all_count(&attempt.tracked);
        let (mut answers, mut cleaning) = (Vec::new(), Vec::new());
        let mut clean = counts && fate == Disposition::GiveBack;
        if fate == Disposition::GiveBack {
            // The releases below may break up the majority, so the ledger must no longer confirm the grant or its
            // token.
            attempt.tracked.loses();
        }
        for said in attempt.open.close(fate) {
            let Some(Reply { answer, slot }) = said else {
                clean = false;
                answers.push(None);
                continue;
            };
            let said = Reply { answer, slot: None };
            if let Some(slot) = slot.filter(|_| fate == Disposition::GiveBack && said.may_be_taken()) {
                let (quorum, claim) = (Arc::clone(self), Arc::clone(&claim));
                // The release is a task, because the caller may be dropped at the await below. The task owns the slot,
                // so no later request of this owner comes between the grant and its release.
                let release = tokio::spawn(async move { quorum.clean(&slot, &claim).await });
                // The caller waits only for the releases of reported grants. A node with an ambiguous answer is slow or
                // down, so its answer to the release would also be late.
                if said.vote() == Vote::Granted {
                    cleaning.push(release);
                } else {
                    clean = false;
                }
            }
            answers.push(Some(said.answer));
        }
        // The limit is at least the time that the nodes needed to grant the claim.
        let Waits { node, .. } = timing::release(attempt.claim.ttl, self.node_timeout);
        let limit = node.max(self.now().since(attempt.sent));
        let cleaned = async {
            let mut clean = true;
            for release in cleaning {
                clean &= release.await.unwrap_or(false);
            }
            clean
        };
        // The releases are tasks: they run concurrently, and a slow release continues after the limit.
        clean &= tokio::time::timeout(limit, cleaned).await.unwrap_or(false);
        (answers, clean)
    }

    /// Returns whether the answers of all nodes count for this owner. If not, the caller replaces the owner by a new
    /// owner. The old owner could wait forever for a majority of the other nodes, or get a majority that tolerates
    /// fewer failures.
    fn all_count(&self, tracked: &Tracked) -> bool {
        (0..self.nodes.len()).all(|node| tracked.is_sure(node))
    }

    /// Returns the fencing token of a grant, computed from the tokens that the nodes sent with it.
    async fn token_of(
        self: &Arc<Self>,
        claim: &Claim,
        tracked: &Tracked,
        sent: Moment,
        given: &[Grant],
    ) -> Result<crate::backend::FencingToken> {
        // If the owner already had the grant, a repeated request must return the same token, even if other nodes answer
        // this time.
        if let Some(known) = tracked.fence(claim.handoffs, sent) {
            return Ok(known);
        }
        match largest_token(self.nodes.len(), given) {
            Some((largest, count)) => self.spread(claim, tracked, largest, count).await,
            None => self.fence_of(claim).await,
        }
    }
}

pub(super) fn silent(detail: &'static str) -> LockError {
    LockError::new(LockErrorKind::Unavailable, detail)
}
