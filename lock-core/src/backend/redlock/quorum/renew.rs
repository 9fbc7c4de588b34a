//! Renews a batch of grants by majority.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::acquire::silent;
use super::backend::Inner;
use super::fanout::Fanout;
use super::ledger::Tracked;
use super::round::{Disposition, RoundHandle};
use super::timing::{self, Waiting, Waits};
use super::votes::{Kept, renewal_verdict};
use crate::backend::{Backend, Claim, Renew, Renewal};
use crate::clock::Moment;
use crate::error::LockError;

/// One grant of a batch.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) claim: Claim,
    pub(super) ttl: Duration,
    pub(super) tracked: Tracked,
    /// The time until which the owner certainly has the grant if this renewal succeeds.
    pub(super) valid: Moment,
}

/// A batch that the tasks of all nodes share.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) parts: Vec<Part>,
    /// For each grant, whether a majority has it. The list is set together with the verdict.
    renewed: OnceLock<Vec<bool>>,
}

/// The answers of one node to the parts of a batch; `None` if the node did not answer.
pub(super) type Answers = Option<Vec<Renewal>>;

/// The answer of one node to one part, as a vote.
enum Vote {
    Yes,
    No,
    Neither,
    Pending,
}

impl<B: Backend> Inner<B> {
    pub(super) async fn renew_all(self: &Arc<Self>, batch: &[Renew<'_>]) -> Vec<Renewal> {
        let Some(shortest) = batch.iter().map(|renew| renew.ttl).min() else { return Vec::new() };
        let sent = self.now();
        let part = |Renew { claim, ttl }: &Renew<'_>| Part {
            claim: Claim::clone(claim),
            ttl: *ttl,
            // The owner is tracked before the request is sent, so that a later healing notices a release in between.
            tracked: self.ledger.track(claim.owner, sent, *ttl),
            valid: self.valid(sent, *ttl),
        };
        let batch = Arc::new(Batch { parts: batch.iter().map(part).collect(), renewed: OnceLock::new() });
        let open = RoundHandle::<Answers>::new(self.nodes.len());
        // A node gets the batch in one request, so the shortest lease limits the wait for the whole batch.
        let limit = timing::renewal(shortest, self.node_timeout);
        let mut fanout = Fanout::with_capacity(self.nodes.len());
        for number in 0..self.nodes.len() {
            let (quorum, batch, round) = (Arc::clone(self), Arc::clone(&batch), open.share());
            fanout.add(async move {
                let answers = quorum.renew_on(number, &batch, limit).await;
                let wanting = batch.wanting(answers.as_deref());
                match round.put(number, answers) {
                    // If the answer was in time, `heal_all` restores the missing grants. A dropped renewal has no
                    // verdict, so no grant may be restored after it.
                    Ok(()) | Err((Disposition::GiveBack, _)) => {}
                    // The answer arrived after the verdict, so this call heals its node.
                    Err((Disposition::Keep, _)) => quorum.heal(number, &batch, wanting).await,
                }
            });
        }
        let decide = |answers: &[Option<Answers>], waiting: Waiting| {
            // Unlike an attempt, a renewal continues to wait after a majority has answered. The wait delays no caller,
            // and a shorter wait could miss a late yes, which may cost the lock.
            let over = waiting == Waiting::Nobody;
            let verdicts: Vec<_> =
                (0..batch.parts.len()).map(|part| self.verdict(&batch, part, answers, over)).collect();
            (!verdicts.contains(&Kept::Open)).then_some(verdicts)
        };
        let Some(verdicts) = open.decided(Waits::equal(limit), fanout, decide).await else {
            unreachable!("BUG: with nobody left to wait for there is a verdict");
        };
        let renewed = verdicts.iter().map(|verdict| *verdict == Kept::Yes).collect();
        batch.renewed.set(renewed).expect("BUG: there is one verdict");
        // From here on, a late call heals its own node, so the verdicts must already be set.
        let mut answers = open.close(Disposition::Keep);
        // The healing starts before the results are made, because `not_renewed` replaces the errors in the answers by
        // `NotOwned`. The nodes of these errors would then look like nodes without the grant.
        self.heal_all(&batch, &answers);
        let parts = batch.parts.iter().zip(verdicts).enumerate();
        parts
            .map(|(number, (part, verdict))| match verdict {
                Kept::Yes => {
                    let lease = self.shortest(part, number, &answers);
                    part.tracked.kept(sent, self.valid(sent, lease));
                    Renewal::Renewed { sent, lease, waiters: None }
                }
                Kept::No => {
                    // A token of the lost grant must not be returned for a later grant.
                    part.tracked.loses();
                    Renewal::NotOwned
                }
                Kept::Unknown | Kept::Open => Renewal::Unknown(self.not_renewed(part, number, &mut answers)),
            })
            .collect()
    }

    /// Sends the batch to one node. Returns its answers, or `None` if they are late or their number is wrong.
    async fn renew_on(&self, number: usize, batch: &Batch, limit: Duration) -> Answers {
        let node = &self.nodes[number];
        let renews: Vec<_> =
            batch.parts.iter().map(|part| Renew { claim: &part.claim, ttl: part.ttl }).collect();
        let answers = tokio::time::timeout(limit, node.backend.renew(&renews)).await.ok();
        // Answers are matched by their position, so a wrong number of answers counts as no answer.
        let answers = answers.filter(|answers| answers.len() == renews.len());
        let unanswered = |answer: &Renewal| matches!(answer, Renewal::Unknown(error) if error.is_temporary());
        match &answers {
            Some(answers) if !answers.iter().all(unanswered) => node.answered(),
            _ => node.failed(),
        }
        answers
    }

    fn verdict(&self, batch: &Batch, part: usize, answers: &[Option<Answers>], over: bool) -> Kept {
        let (mut yes, mut no, mut pending) = (0, 0, 0);
        let skipped = self.skipped(|node| matches!(vote(&answers[node], part), Vote::Neither));
        for (node, answers) in answers.iter().enumerate() {
            match vote(answers, part) {
                // An answer of yes does not count if a release may be in flight: the release would end the grant that
                // the node has just renewed.
                Vote::Yes if batch.parts[part].tracked.is_sure(node) => yes += 1,
                // An answer of no counts even if a release may be in flight: a release never restores a grant.
                Vote::No => no += 1,
                Vote::Pending if !over && !skipped(node) => pending += 1,
                Vote::Yes | Vote::Neither | Vote::Pending => {}
            }
        }
        renewal_verdict(self.nodes.len(), yes, no, pending)
    }

    /// Returns the shortest lease that a node granted. A node that granted less than requested forgets the grant
    /// sooner.
    fn shortest(&self, part: &Part, number: usize, answers: &[Option<Answers>]) -> Duration {
        let given = answers.iter().flatten().flatten().filter_map(|answers| match answers[number] {
            Renewal::Renewed { lease, .. } => Some(lease),
            Renewal::NotOwned | Renewal::Unknown(_) => None,
        });
        given.min().map_or(part.ttl, |shortest| shortest.min(part.ttl))
    }

    fn not_renewed(&self, part: &Part, number: usize, answers: &mut [Option<Answers>]) -> LockError {
        let answers = answers.iter_mut().map(|answers| {
            let answer = answers.as_mut()?.as_mut()?.get_mut(number)?;
            Some(match std::mem::replace(answer, Renewal::NotOwned) {
                Renewal::Renewed { .. } => Ok(()),
                Renewal::NotOwned => Err(silent("it does not have the grant")),
                Renewal::Unknown(error) => Err(error),
            })
        });
        self.no_majority("renew the lease", answers).with_key(&part.claim.key)
    }
}

impl Batch {
    /// Returns the parts for which the node answered that it does not have the grant.
    pub(super) fn wanting(&self, answers: Option<&[Renewal]>) -> Vec<usize> {
        let answers = answers.unwrap_or_default().iter().zip(&self.parts).enumerate();
        let wanting = answers.filter(|(_, (answer, _))| matches!(answer, Renewal::NotOwned));
        wanting.map(|(part, _)| part).collect()
    }

    pub(super) fn is_renewed(&self, part: usize) -> bool {
        self.renewed.get().is_some_and(|renewed| renewed[part])
    }

    pub(super) fn any_renewed(&self, parts: &[usize]) -> bool {
        parts.iter().any(|part| self.is_renewed(*part))
    }
}

fn vote(answers: &Option<Answers>, part: usize) -> Vote {
    match answers.as_ref().map(|answers| answers.as_ref().map(|answers| &answers[part])) {
        Some(Some(Renewal::Renewed { .. })) => Vote::Yes,
        Some(Some(Renewal::NotOwned)) => Vote::No,
        Some(Some(Renewal::Unknown(_)) | None) => Vote::Neither,
        None => Vote::Pending,
    }
}
