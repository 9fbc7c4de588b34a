//! Makes the fencing tokens of a quorum. The token of a grant is the largest token that the nodes of a majority return.
//! It is written to a majority before the owner receives it.
//!
//! Tokens grow for this reason. A majority stores the token F of an owner before the owner receives F. The next owner
//! receives the largest token of a majority. The two majorities have a node in common, and this node makes a token
//! larger than F for the next owner. The node cannot have made this token before F was written, because F is written to
//! a node only while the owner of F has the grant there.

use std::sync::Arc;

use super::acquire::silent;
use super::answers::{no_quorum, refusal};
use super::backend::Inner;
use super::fanout::Fanout;
use super::ledger::Tracked;
use super::round::{Disposition, RoundHandle};
use super::timing::{self, Waiting};
use super::votes::{Kept, majority, max_failures, renewal_verdict};
use crate::backend::{Backend, Claim, FencingToken, Renew, Renewal};
use crate::error::{LockError, LossReason, Result};

impl<B: Backend> Inner<B> {
    pub(super) async fn fence_of(self: &Arc<Self>, claim: &Claim) -> Result<FencingToken> {
        let start = self.now();
        let tracked = self.ledger.track(claim.owner, start, claim.ttl);
        let (largest, count) = self.ask_for_tokens(claim, &tracked).await?;
        // A majority has just confirmed the grant. If the ledger shows no gap in the grant, an earlier token is still
        // valid.
        match tracked.fence(claim.handoffs, start) {
            Some(known) => Ok(known),
            None => self.spread(claim, &tracked, largest, count).await,
        }
    }

    /// Requests tokens from the nodes. Returns the largest token of a majority, and the number of nodes that sent it.
    async fn ask_for_tokens(
        self: &Arc<Self>,
        claim: &Claim,
        tracked: &Tracked,
    ) -> Result<(FencingToken, usize)> {
        let shared = Arc::new(claim.clone());
        let answers = self
            .ask_holders(claim, tracked, move |quorum: Arc<Self>, node| {
                let claim = Arc::clone(&shared);
                async move {
                    match quorum.nodes[node].backend.fence(&claim).await {
                        Ok(token) => Answer::Yes(token),
                        Err(error) if error.is_lost() => Answer::No(error),
                        Err(error) => Answer::Failed(error),
                    }
                }
            })
            .await;
        let tokens = self.sort(claim, "give a fencing token", answers)?;
        let largest = tokens.iter().copied().max().expect("BUG: a majority is not empty");
        Ok((largest, tokens.iter().filter(|token| **token == largest).count()))
    }

    /// Writes the token `largest` to a majority, and returns the token. From then on, the owner may use the token.
    /// `known` is the number of nodes that already store this token.
    pub(super) async fn spread(
        self: &Arc<Self>,
        claim: &Claim,
        tracked: &Tracked,
        largest: FencingToken,
        known: usize,
    ) -> Result<FencingToken> {
        // From here on, each renewal and the release carry the token to the nodes that do not have it yet.
        claim.number_fence(largest);
        // The owner must not receive the token before a majority stores it. Otherwise the next owner could get a
        // smaller token, from a majority without this token.
        if known < majority(self.nodes.len()) {
            let shared = Arc::new(claim.clone());
            // The renewal that writes the token uses only the rest of the lease, because a request for a token must not
            // extend the grant. After the lease there is no token, even if a majority still has the grant: the next
            // owner must not wait longer than the lease.
            let Some(ttl) = tracked.left(self.now()) else {
                return Err(LockError::lost(&claim.key, LossReason::Expired));
            };
            let answers = self
                .ask_holders(claim, tracked, move |quorum: Arc<Self>, node| {
                    let claim = Arc::clone(&shared);
                    async move {
                        // A renewal raises the stored token only if the owner has the grant, and never creates a
                        // missing key.
                        let batch = [Renew { claim: &claim, ttl }];
                        let answer = quorum.nodes[node].backend.renew(&batch).await.into_iter().next();
                        match answer {
                            Some(Renewal::Renewed { .. }) => Answer::Yes(()),
                            Some(Renewal::NotOwned) => {
                                Answer::No(LockError::lost(&claim.key, LossReason::Taken))
                            }
                            Some(Renewal::Unknown(error)) => Answer::Failed(error),
                            None => Answer::Failed(silent("it did not answer the renewal")),
                        }
                    }
                })
                .await;
            self.sort(claim, "note the fencing token", answers)?;
        }
        // The token is recorded only now: if fewer nodes than a majority have it, the next request must write it again.
        tracked.set_fence(claim.handoffs, largest);
        Ok(largest)
    }

    /// Calls every node to which no release of this owner can still be in flight. The answers of the other nodes do not
    /// count. Returns the answers when a majority says yes, when a majority for yes is no longer possible, or when the
    /// wait is over.
    pub(super) async fn ask_holders<T, F>(
        self: &Arc<Self>,
        claim: &Claim,
        tracked: &Tracked,
        call: impl Fn(Arc<Self>, usize) -> F,
    ) -> Vec<Option<Answer<T>>>
    where
        T: Send + 'static,
        F: Future<Output = Answer<T>> + Send + 'static,
    {
        let open = RoundHandle::new(self.nodes.len());
        let waits = timing::attempt(claim.ttl, self.node_timeout);
        let limit = timing::patience(claim.ttl, self.node_timeout);
        let mut fanout = Fanout::with_capacity(self.nodes.len());
        for number in 0..self.nodes.len() {
            if !tracked.is_sure(number) {
                let error =
                    silent("a release of this owner was not answered there, so its answers do not count");
                let _ = open.put(number, Answer::Failed(error));
                continue;
            }
            let (quorum, round, tracked) = (Arc::clone(self), open.share(), tracked.clone());
            let call = call(Arc::clone(self), number);
            fanout.add(async move {
                let answer = tokio::time::timeout(limit, call).await;
                let answer = answer.unwrap_or_else(|_| Answer::Failed(silent("no answer in time")));
                match &answer {
                    Answer::Failed(error) if error.is_temporary() => quorum.nodes[number].failed(),
                    _ => quorum.nodes[number].answered(),
                }
                let _ = round.put(number, answer);
                // `tracked` is dropped last, so that the ledger keeps the owner while one of its requests is in
                // progress.
                drop(tracked);
            });
        }
        let decide = |answers: &[Option<Answer<T>>], waiting: Waiting| {
            let (yes, no) = (yes(answers), no(answers));
            let verdict = renewal_verdict(answers.len(), yes, no, self.awaited(answers));
            (verdict != Kept::Open || waiting.is_over(yes + no, answers.len())).then_some(())
        };
        open.decided(waits, fanout, decide).await;
        open.close(Disposition::Keep)
    }

    /// Returns the number of nodes whose answers are still awaited.
    fn awaited<T>(&self, answers: &[Option<Answer<T>>]) -> usize {
        let skipped = self.skipped(|node| matches!(answers[node], Some(Answer::Failed(_))));
        let missing = |(node, answer): &(usize, &Option<_>)| answer.is_none() && !skipped(*node);
        answers.iter().enumerate().filter(missing).count()
    }

    /// Returns the values of a majority. Without a majority, returns an error: a loss if a majority does not have the
    /// grant, a refusal if too many nodes refuse permanently, otherwise no quorum.
    pub(super) fn sort<T>(
        &self,
        claim: &Claim,
        what: &str,
        answers: Vec<Option<Answer<T>>>,
    ) -> Result<Vec<T>> {
        let nodes = self.nodes.len();
        // The wait is over, so a node without an answer counts as neither yes nor no.
        let verdict = renewal_verdict(nodes, yes(&answers), no(&answers), 0);
        let (mut said, mut failures, mut refused, mut loss) = (Vec::new(), Vec::new(), 0, None);
        for (node, answer) in self.nodes.iter().zip(answers) {
            match answer {
                Some(Answer::Yes(value)) => said.push(value),
                Some(Answer::No(error)) => {
                    failures.push((node.name(), Some(silent("it does not have the grant"))));
                    loss = loss.or(Some(error));
                }
                Some(Answer::Failed(error)) => {
                    refused += usize::from(!error.is_temporary());
                    failures.push((node.name(), Some(error)));
                }
                None => failures.push((node.name(), None)),
            }
        }
        match (verdict, loss) {
            (Kept::Yes, _) => Ok(said),
            // Only a majority without the grant proves the loss. Otherwise the holder keeps the lock until its
            // deadline.
            (Kept::No, Some(loss)) => Err(loss.or_key(&claim.key)),
            // The other nodes are not a majority, so a repeated request would fail too.
            _ if refused > max_failures(nodes) => Err(refusal(failures).or_key(&claim.key)),
            _ => Err(no_quorum(nodes, what, failures).with_key(&claim.key)),
        }
    }
}

/// The answer of one node to a request of the holder.
#[derive(Debug)]
pub(super) enum Answer<T> {
    Yes(T),
    /// The owner does not have the grant on this node.
    No(LockError),
    Failed(LockError),
}

fn yes<T>(answers: &[Option<Answer<T>>]) -> usize {
    answers.iter().filter(|answer| matches!(answer, Some(Answer::Yes(_)))).count()
}

fn no<T>(answers: &[Option<Answer<T>>]) -> usize {
    answers.iter().filter(|answer| matches!(answer, Some(Answer::No(_)))).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::memory::Memory;
    use crate::backend::redlock::quorum::Quorum;
    use crate::error::LockErrorKind;
    use crate::key::Key;
    use crate::owner::{Identity, OwnerRecord, OwnerSource};

    #[test]
    fn a_majority_of_answers_is_needed_for_a_loss_and_for_a_refusal() {
        let quorum = Quorum::new(vec![Memory::new(), Memory::new(), Memory::new()]).expect("odd");
        let (key, owner) = (Key::new("k").expect("a key"), OwnerSource::new().expect("random bytes").mint());
        let record = OwnerRecord::new(Arc::new(Identity::of_this_process("test")), None);
        let claim = Claim::new(key, owner, std::time::Duration::from_secs(10), record);
        let answer = |letter| match letter {
            'y' => Some(Answer::Yes(())),
            'n' => Some(Answer::No(LockError::lost(&claim.key, LossReason::Taken))),
            'r' => {
                let refusal = LockError::new(LockErrorKind::InvalidRequest, "another mode");
                Some(Answer::Failed(refusal.nothing_taken()))
            }
            'u' => Some(Answer::Failed(silent("no answer"))),
            _ => None,
        };
        let table = [
            (None, "yyy yyn y.y ryy"),
            (Some(LockErrorKind::Lost), "nnn nny rnn n.n"),
            (Some(LockErrorKind::InvalidRequest), "rrr yrr rnr r.r"),
            (Some(LockErrorKind::NoQuorum), "uuu yur yn. rnu ynr ... r.."),
        ];
        for (expected, cases) in table {
            for case in cases.split(' ') {
                let sorted = quorum.0.sort(&claim, "answer", case.chars().map(answer).collect());
                assert_eq!(sorted.as_ref().err().map(LockError::kind), expected, "{case}");
                assert!(
                    !sorted.is_err_and(|error| !error.is_ambiguous()),
                    "{case}: a node may have the grant"
                );
            }
        }
    }
}
