//! Asking the store behind the releases of this process that nobody waits for.
//!
//! `pending/under_way.rs` has the two rules: a question waits until each release of its keys is ahead of it or
//! answered, and a question that was refused while one of them fell behind is asked again.

use std::sync::Arc;

use tokio::runtime::{Handle, Id};

use super::event::Answer;
use super::run::Acquire;
use crate::backend::{Ask, Queue};
use crate::error::{LockErrorKind, Result};
use crate::pending::{Earlier, Refusal};

impl Acquire<'_> {
    /// Asks the store, and does not take a release of this process for another holder.
    pub(super) async fn answer_behind(&mut self, ask: Ask) -> Result<Answer> {
        // The release serves what waits in the store's queue, whenever it arrives.
        let is_served = self.claim.is_queued() || takes_place(ask, self.plan.queue());
        let mut earlier = match is_served {
            true => Vec::new(),
            false => self.engine.cleanup.under_way.of(self.plan.keys()),
        };
        if !earlier.is_empty() {
            let runtime = Handle::current().id();
            while let Some(release) = self.first_in_the_way(&earlier, runtime) {
                // Boxed, because it is rare, and the future of every acquisition would hold it.
                Box::pin(self.outwait(&release)).await?;
            }
            earlier.retain(|release| !release.is_over());
        }
        let answer = self.answer(ask).await;
        self.unless_in_doubt(ask, answer, &earlier).await
    }

    /// Returns the answer to a question that was asked behind the releases `earlier`. Asks once more where it is a
    /// refusal that may be due to one of them.
    pub(super) async fn unless_in_doubt(
        &mut self,
        ask: Ask,
        answer: Result<Answer>,
        earlier: &[Arc<Earlier>],
    ) -> Result<Answer> {
        let is_refused = match &answer {
            Ok(Answer::Held(held)) => held.queued_at.is_none(),
            // The grant that is being released may be of another kind.
            Err(error) => error.kind() == LockErrorKind::InvalidRequest,
            Ok(_) => false,
        };
        if earlier.is_empty() || !is_refused || !Box::pin(self.is_in_doubt(earlier)).await? {
            return answer;
        }
        // The same attempt: its caller has not waited for another holder.
        self.answer(ask).await
    }

    /// Asks the store. Meanwhile the local queue does not take its head for stalled.
    async fn answer(&mut self, ask: Ask) -> Result<Answer> {
        self.set_asking(true);
        let answer = self.claim.ask(self.engine, ask).await;
        self.set_asking(false);
        answer
    }

    /// Notes in the local queue whether this waiter awaits an answer of the store.
    fn set_asking(&self, asking: bool) {
        if let Some(waiter) = &self.waiter {
            waiter.set_asking(asking, self.engine.clock.now());
        }
    }

    /// Returns a release that a question which `runtime` sends now could overtake. One that has kept others waiting for
    /// long enough does not count.
    fn first_in_the_way(&self, earlier: &[Arc<Earlier>], runtime: Id) -> Option<Arc<Earlier>> {
        let in_the_way = |release: &&Arc<Earlier>| {
            !release.lets_ask(runtime) && !release.until().is_past(self.engine.clock.now())
        };
        earlier.iter().find(in_the_way).cloned()
    }

    /// Returns whether one of the releases that were ahead of a question has fallen behind it, so that the store may
    /// have refused the question because of it. Waits until that is known.
    async fn is_in_doubt(&self, earlier: &[Arc<Earlier>]) -> Result<bool> {
        for release in earlier {
            if release.refusal() == Refusal::Open {
                self.outwait(release).await?;
            }
            if release.refusal() == Refusal::AskAgain {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits until `release` is over, or has kept others waiting for long enough.
    async fn outwait(&self, release: &Earlier) -> Result<()> {
        let engine = self.engine;
        loop {
            let mut changed = std::pin::pin!(engine.changed.notified());
            changed.as_mut().enable();
            engine.check_open()?;
            let left = release.until().remaining(engine.clock.now());
            if left.is_zero() {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = release.over() => return Ok(()),
                () = changed => {}
                () = tokio::time::sleep(left) => return Ok(()),
            }
        }
    }
}

/// Returns whether the request takes a place in order of arrival. It is sent at once: while it waited for the answer to
/// a release, requests of other processes would overtake it.
fn takes_place(ask: Ask, queue: Queue) -> bool {
    matches!(ask, Ask::Enqueue { .. }) && queue == Queue::Fifo
}
