//! The task that adds the gathered claims to a queue, in their order of arrival.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::time::timeout;

use super::acquire::Acquire;
use super::create::{Created, Creation, New};
use super::round::{Round, Step, waiter_lease};
use crate::backend::etcd::entering::{Gathered, Wanted};
use crate::backend::etcd::entries::{Id, Lease, Told};
use crate::backend::etcd::error::Failure;
use crate::backend::etcd::line::{self, Line};
use crate::backend::etcd::plan::{Behind, Plan, Waits};
use crate::backend::etcd::session::now;
use crate::backend::etcd::store::{Store, counts};

pub(super) struct Task {
    store: Arc<Store>,
    line: Vec<u8>,
    number: u64,
    /// Whether the task has ended because no gathered claim was left.
    is_over: bool,
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.is_over {
            self.store.entering.forget_task(&self.line, self.number);
        }
    }
}

impl Task {
    pub(super) fn new(store: Arc<Store>, line: Vec<u8>, number: u64) -> Self {
        Self { store, line, number, is_over: false }
    }

    pub(super) async fn run(mut self) {
        let mut gathered = VecDeque::<Gathered>::new();
        let mut is_patient = true;
        // The queue that the last transaction has read, and the names that the transaction could not use.
        let (mut found, mut used) = (None, Vec::new());
        loop {
            // If the runtime of a claim has stopped, the turn of that claim never ends. So after one timeout, the task
            // no longer waits for turns.
            is_patient = if is_patient { self.turns_end().await } else { !self.has_turns() };
            gathered.extend(self.store.entering.gathered(&self.line, self.number, !gathered.is_empty()));
            if gathered.is_empty() {
                self.is_over = true;
                return;
            }
            retain(&mut gathered);
            let known = found.take().map(|line| self.round(&line, &gathered));
            let round = match known.filter(|round| !round.is_unproved) {
                Some(round) => round,
                None => self.look(&mut gathered).await.unwrap_or_default(),
            };
            if round.steps.is_empty() {
                // After a failure, each claim sends its own request and finds the cause.
                gathered.clear();
            }
            let mut wait = Vec::new();
            let claims: Vec<Gathered> = gathered.drain(..round.steps.len()).collect();
            for (one, step) in claims.into_iter().zip(round.steps) {
                match step {
                    Step::Told(plan) => self.tell(one, plan),
                    Step::Waits(waits) => wait.push((one, waits)),
                }
            }
            let (again, line) = self.queue(wait, round.behind, &mut used).await;
            again.into_iter().rev().for_each(|one| gathered.push_front(one));
            found = line;
        }
    }

    /// Waits until no claim has a turn. Returns `false` if this takes too long.
    async fn turns_end(&self) -> bool {
        let (entering, patience) = (&self.store.entering, self.store.timeout() / 2);
        while let Some(over) = entering.turns(&self.line) {
            let over = over.notified();
            if self.has_turns() && timeout(patience, over).await.is_err() {
                entering.forget_turns(&self.line);
                return false;
            }
        }
        true
    }

    fn has_turns(&self) -> bool {
        self.store.entering.turns(&self.line).is_some()
    }

    fn round(&self, line: &Line, gathered: &VecDeque<Gathered>) -> Round {
        let modes = line.queue.entries().iter().map(|entry| entry.mode).collect();
        let wanted = gathered.iter().map(|one| &*one.wanted);
        let mut round =
            Round::new(modes, wanted.clone(), |wanted, beside| self.acquire(wanted).plan(line, beside));
        round.is_unproved = round.steps.iter().zip(wanted).any(|(step, wanted)| match step {
            Step::Told(Ok(plan)) => !self.acquire(wanted).is_proved(plan),
            Step::Told(Err(_)) => true,
            Step::Waits(_) => false,
        });
        round
    }

    fn acquire<'a>(&'a self, wanted: &'a Wanted) -> Acquire<'a> {
        Acquire::new(&self.store, &wanted.claim, wanted.ask, wanted.began)
    }

    /// Plans the steps of gathered claims from the copy of the queue. If there is no known copy, or the copy does not
    /// prove the steps, reads the queue.
    async fn look(&self, gathered: &mut VecDeque<Gathered>) -> Result<Round, Failure> {
        let (store, Some(first)) = (&self.store, gathered.front().map(|one| Arc::clone(&one.wanted))) else {
            return Ok(Round::default());
        };
        if let Some(copy) = self.acquire(&first).copy()
            && let Some(round) = copy.look(|line| self.round(line, gathered))
            && !round.is_unproved
        {
            return Ok(round);
        }
        let line = store.connections.within(store.timeout(), store.read(&first.claim.key)).await?;
        retain(gathered);
        Ok(self.round(&line, gathered))
    }

    /// Sends a claim its step. A claim that requests its entry itself gets a turn.
    fn tell(&self, one: Gathered, plan: Result<Plan, Failure>) {
        let turn = match plan {
            _ if one.wanted.is_gone() => return,
            Ok(Plan::Put(_)) => self.store.entering.turn_of(&self.line, one.wanted.claim.mode),
            _ => None,
        };
        one.tell(plan.map(|plan| (plan, turn)));
    }

    /// Adds the entries of waiting claims in one transaction. If the queue has changed or the lease is over, returns
    /// the claims for another attempt, with the queue if it was read. Adds the names that other entries use to `used`.
    async fn queue(
        &self,
        wait: Vec<(Gathered, Waits)>,
        behind: Behind,
        used: &mut Vec<Vec<u8>>,
    ) -> (Vec<Gathered>, Option<Line>) {
        let nothing = (Vec::new(), None);
        let Some((first, _)) = wait.first() else { return nothing };
        let (store, key) = (&self.store, first.wanted.claim.key.clone());
        let Ok(session) =
            store.connections.within(store.timeout(), store.session(waiter_lease(&first.wanted))).await
        else {
            return nothing;
        };
        let lease = Lease::Shared(session);
        let (taken, entries) = self.take(wait, &lease, used);
        if taken.is_empty() {
            return nothing;
        }
        let names: Vec<Vec<u8>> = entries.iter().map(|entry| entry.stored.clone()).collect();
        let creation = Creation { key: &key, lease: &lease, entries, behind, read: Some(counts(&key)) };
        let again = |taken: Vec<(Gathered, Waits)>| {
            taken.into_iter().map(|(one, _)| one).filter(|one| one.wanted.put_back()).collect()
        };
        match store.connections.within(store.timeout(), store.create(creation)).await {
            Ok(Created::At(_, read)) => {
                used.clear();
                let count = read.and_then(|read| usize::try_from(read.count).ok()).unwrap_or_default();
                let before = count.saturating_sub(taken.len());
                for (before, (one, waits)) in (before..).zip(taken) {
                    let held = waits.behind(before, one.wanted.began);
                    one.tell(Ok((Plan::Waits(held, before), None)));
                }
                nothing
            }
            Ok(Created::Changed(line)) => {
                used.extend(names.into_iter().filter(|name| line.has(name)));
                (again(taken), Some(line))
            }
            Ok(Created::Over) => (again(taken), None),
            Err(failure) if failure.is_in_doubt() => {
                taken.into_iter().for_each(|(one, _)| one.tell(Err(failure.clone())));
                nothing
            }
            Err(_) => {
                // Each claim sends its own request and finds the cause.
                drop::<Vec<Gathered>>(again(taken));
                nothing
            }
        }
    }

    /// Records the entries of claims that have not been dropped. If a claim is dropped after this call, its drop finds
    /// the record.
    fn take(
        &self,
        wait: Vec<(Gathered, Waits)>,
        lease: &Lease,
        used: &[Vec<u8>],
    ) -> (Vec<(Gathered, Waits)>, Vec<New>) {
        let id = |one: &Gathered| Id::new(&one.wanted.claim.key, one.wanted.claim.owner);
        let ids: Vec<Id> = wait.iter().map(|(one, _)| id(one)).collect();
        let names = self.store.entries.begin_all(&ids, lease, Told::Waits, used, now());
        let all = wait.into_iter().zip(ids.into_iter().zip(names));
        let taken = all.filter_map(|(one, (id, stored))| {
            let (wanted, stored) = (&one.0.wanted, stored?);
            if !wanted.take() {
                self.store.entries.not_created(&id, &stored);
                return None;
            }
            let value = line::value(&wanted.claim, wanted.claim.mode, None, false);
            Some((one, New { id, stored, value }))
        });
        taken.unzip()
    }
}

/// Removes the claims that were dropped or withdrawn.
fn retain(gathered: &mut VecDeque<Gathered>) {
    gathered.retain(|one| !one.wanted.is_gone());
}
