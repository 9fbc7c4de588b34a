//! Releases and downgrades a claim on every node.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::acquire::silent;
use super::backend::Inner;
use super::fanout::Fanout;
use super::fence::Answer;
use super::round::{Disposition, RoundHandle};
use super::timing::{self, Waiting};
use super::votes::{GivenBack, Releases};
use crate::backend::{Backend, Claim, Released, Renewal};
use crate::error::{LockError, LossReason, Result};

impl<B: Backend> Inner<B> {
    /// Releases the claim on every node. If a late attempt, or the healing of a node, gets a grant afterwards, that
    /// grant is also released.
    pub(super) async fn give_back(
        self: &Arc<Self>,
        claim: &Claim,
        keep_for: Option<Duration>,
    ) -> Result<Released> {
        let sent = self.now();
        let tracked = self.ledger.track(claim.owner, sent, claim.ttl);
        let is_held = tracked.left(sent).is_some();
        // The release is recorded first: an attempt or a healing that gets a grant from now on checks this and releases
        // the grant.
        tracked.returns();
        let open = RoundHandle::<Result<Released>>::new(self.nodes.len());
        let shared = Arc::new(claim.clone());
        let waits = timing::release(claim.ttl, self.node_timeout);
        let mut fanout = Fanout::with_capacity(self.nodes.len());
        for number in 0..self.nodes.len() {
            let (quorum, claim, round) = (Arc::clone(self), Arc::clone(&shared), open.share());
            let tracked = tracked.clone();
            // The caller may be dropped, or have its verdict, before the call ends. Then this deadline ends the call.
            // Otherwise a silent node would keep the task of the call running forever.
            let mut patience = self.patience(fanout.alone(), sent, waits.majority);
            fanout.add(async move {
                let node = &quorum.nodes[number];
                // A holder may release before every node has answered its attempt. Then this call waits for the answer
                // of the node, so that one release is enough.
                if is_held && tracked.is_busy(number) {
                    tracked.follows(number, true);
                    // This wait is as short as the wait for a slow node, because a silent node may never answer the
                    // attempt.
                    patience.limit = waits.node;
                    let _ = patience.with(pin!(tracked.slot(number))).await;
                    // If the attempt is still in progress, it frees its grant itself.
                    tracked.follows(number, false);
                    (patience.from, patience.limit) = (quorum.now(), waits.majority);
                }
                tracked.releasing(number);
                let answer = patience.with(pin!(node.backend.release(&claim, keep_for))).await;
                let answer = answer.unwrap_or_else(|| Err(silent("no answer in time")));
                if answer.is_ok() {
                    tracked.released(number);
                }
                node.heard(&answer);
                // An answer after the verdict needs no handling, because a release grants nothing.
                let _ = round.put(number, answer);
            });
        }
        let decide = |answers: &[Option<Result<Released>>], waiting: Waiting| {
            let verdict = self.releases(answers, waiting).verdict();
            (verdict != GivenBack::Open).then_some(verdict)
        };
        let verdict = open.decided(waits, fanout, decide).await;
        let answers = open.close(Disposition::Keep);
        match verdict {
            Some(GivenBack::Released) => Ok(Released::Released),
            Some(GivenBack::Taken) => Ok(Released::Taken),
            Some(GivenBack::Expired) => Ok(Released::Expired),
            Some(GivenBack::Unknown | GivenBack::Open) | None => {
                Err(self.no_majority("answer the release", answers).with_key(&claim.key))
            }
        }
    }

    fn releases(&self, answers: &[Option<Result<Released>>], waiting: Waiting) -> Releases {
        let answered = answers.iter().filter(|answer| matches!(answer, Some(Ok(_)))).count();
        let over = waiting.is_over(answered, self.nodes.len());
        let skipped = self.skipped(|node| matches!(answers[node], Some(Err(_))));
        let mut releases = Releases { nodes: self.nodes.len(), ..Releases::default() };
        for (node, answer) in answers.iter().enumerate() {
            match answer {
                Some(Ok(Released::Released | Released::StillHeld)) => releases.released += 1,
                Some(Ok(Released::Taken)) => releases.taken += 1,
                Some(Ok(Released::Expired)) => releases.expired += 1,
                Some(Err(_)) => releases.failed += 1,
                None if over || skipped(node) => releases.failed += 1,
                None => {}
            }
        }
        releases
    }

    /// Turns an exclusive grant into a shared grant. The downgrade is complete when a majority has executed it. Until
    /// then, the grant is exclusive.
    pub(super) async fn downgrade(self: &Arc<Self>, claim: &Claim) -> Renewal {
        let sent = self.now();
        let tracked = self.ledger.track(claim.owner, sent, claim.ttl);
        let shared = Arc::new(claim.clone());
        let answers = self
            .ask_holders(claim, &tracked, move |quorum: Arc<Self>, node| {
                let claim = Arc::clone(&shared);
                async move {
                    match quorum.nodes[node].backend.downgrade(&claim).await {
                        Renewal::Renewed { lease, .. } => Answer::Yes(lease),
                        Renewal::NotOwned => Answer::No(LockError::lost(&claim.key, LossReason::Taken)),
                        Renewal::Unknown(error) => Answer::Failed(error),
                    }
                }
            })
            .await;
        match self.sort(claim, "share the lock", answers) {
            Ok(leases) => {
                // The shortest lease counts, as for a grant: when it ends, the other nodes may not be a majority.
                let lease = leases.into_iter().fold(claim.ttl, Duration::min);
                tracked.kept(sent, self.valid(sent, lease));
                Renewal::Renewed { sent, lease, waiters: None }
            }
            Err(error) if error.is_lost() => Renewal::NotOwned,
            // Nodes may have downgraded the grant without answering. Such a node answers a repeated request with yes,
            // so the caller repeats the request. Until then, the requests of the caller must name both forms of the
            // grant: see `Claim::mark_shared`.
            Err(error) => Renewal::Unknown(error),
        }
    }
}
