//! Has the claims of this process that may wait for a key enter its queue in their order of arrival.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::acquire::{Acquire, WAITER_LEASE};
use super::create::{Created, Creation, New};
use crate::backend::Mode;
use crate::backend::etcd::entering::{Arrival, Gathered, Place, Wanted, Word};
use crate::backend::etcd::entries::{Id, Lease, Told};
use crate::backend::etcd::error::Failure;
use crate::backend::etcd::line::{self, Line};
use crate::backend::etcd::plan::{Behind, Plan, Put, Waits};
use crate::backend::etcd::session::now;
use crate::backend::etcd::store::{OPS, Store, counts};
use crate::backend::etcd::ttl;
use crate::backend::remote::deadline;
use crate::backend::remote::wait_queue::WaitQueue;
use crate::error::LockErrorKind;

/// The largest number of entries in one transaction, which also checks the queue and reads it.
const TOGETHER: usize = OPS - 1;

impl Acquire<'_> {
    /// Returns the first step of a claim that has no entry. A claim that may wait takes its turn among the claims of
    /// this process, and requests its entry within its turn.
    pub(super) async fn enter(&self) -> Word {
        let (store, claim, line) = (self.store, self.claim, &self.id.line);
        let for_copy = store.timeout() / 4;
        if !self.ask.enqueues() {
            return Ok((self.first_plan(for_copy).await?, None));
        }
        let wanted = || Wanted::new(claim.clone(), self.ask, self.began);
        let (place, starts_task) = match store.entering.arrive(line, claim.mode, wanted) {
            Arrival::Enters(turn) => return Ok((self.first_plan(for_copy).await?, Some(turn))),
            Arrival::Gathers { place, starts_task } => (place, starts_task),
        };
        let mut gathering = Gathering { acquire: self, place, is_over: false };
        if starts_task {
            let number = gathering.place.task;
            let task = Task { store: Arc::clone(store), line: line.clone(), number, is_over: false };
            store.runtime_of(claim).spawn(task.run());
        }
        let word = gathering.word().await;
        gathering.is_over = true;
        // This drops a word that came too late, with its turn.
        drop(gathering);
        match word {
            // No time is left to wait for a copy of the queue.
            None => Ok((self.first_plan(Duration::ZERO).await?, None)),
            Some(word) => {
                if matches!(&word, Ok((Plan::Waits(..), _))) || word.as_ref().is_err_and(Failure::is_in_doubt)
                {
                    claim.mark_sent();
                }
                word
            }
        }
    }
}

/// A gathered claim that is waiting for its word.
struct Gathering<'a> {
    acquire: &'a Acquire<'a>,
    place: Place,
    /// Whether the claim no longer waits.
    is_over: bool,
}

impl Gathering<'_> {
    /// Returns what the claim is told. `None` if it is to enter by itself, and no request contains it.
    async fn word(&mut self) -> Option<Word> {
        let Acquire { store, claim, id, .. } = self.acquire;
        let patience = deadline::of_call(store.timeout(), claim.ttl) / 4;
        let looks = |place: &Place| store.entering.looks(&id.line, place.task);
        // The claims before it are waited for while there is progress. A quarter of the time is left for a request of its
        // own, with which it may overtake them.
        for _ in 0..3 {
            let before = looks(&self.place);
            match timeout(patience, self.place.told()).await {
                Ok(Some(word)) => return Some(word),
                Ok(None) if self.place.withdraw() => return None,
                // The task was dropped during the request.
                Ok(None) => return Some(Err(ended())),
                Err(_) if before.is_some() && looks(&self.place) > before => {}
                Err(_) => {
                    store.entering.forget_task(&id.line, self.place.task);
                    break;
                }
            }
        }
        if self.place.withdraw() {
            return None;
        }
        // The answer to its request is still to come.
        Some(self.place.told().await.unwrap_or_else(|| Err(ended())))
    }
}

fn ended() -> Failure {
    Failure::new(LockErrorKind::Unavailable, "the runtime is shutting down").in_doubt()
}

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        if self.is_over || self.place.withdraw() {
            return;
        }
        let Acquire { store, claim, id, .. } = self.acquire;
        claim.mark_sent();
        // The entry may be created after the release of the claim, as that of any request that is dropped.
        if let Some(mine) = store.entries.get(id).filter(|mine| mine.created.is_none())
            && let Some(session) = mine.lease.session()
        {
            session.retire();
        }
    }
}

/// The first steps of gathered claims, from the first claim on.
#[derive(Default)]
struct Round {
    steps: Vec<Step>,
    behind: Behind,
    /// Whether a copy of the queue is not enough for a step.
    is_unproved: bool,
}

/// The step of a gathered claim.
enum Step {
    /// The claim goes on by itself.
    Told(Result<Plan, Failure>),
    Waits(Waits),
}

impl Round {
    /// Plans the steps of gathered claims, as far as they do not depend on the answers to the steps before. `plan`
    /// returns the step of one claim at a queue of these `modes`; it is given the number of claims that wait before it.
    /// The claims that hold the key at once request their entries themselves, beside each other. The claims that wait
    /// enter together, under one lease.
    fn new<'a>(
        modes: Vec<Mode>,
        gathered: impl Iterator<Item = &'a Wanted>,
        plan: impl Fn(&Wanted, usize) -> Result<Plan, Failure>,
    ) -> Self {
        let (mut round, mut queue) = (Self::default(), WaitQueue::new(modes));
        let (mut admitted, mut waiting, mut lease) = (false, 0, None);
        for wanted in gathered {
            let step = match plan(wanted, waiting) {
                Ok(Plan::Put(Put { behind, waits: Some(waits) })) => {
                    let is_alike = *lease.get_or_insert(waiter_lease(wanted)) == waiter_lease(wanted);
                    if admitted || !is_alike || waiting == TOGETHER {
                        break;
                    }
                    round.behind = behind;
                    waiting += 1;
                    Step::Waits(waits)
                }
                Ok(plan @ Plan::Put(_)) => {
                    if waiting > 0 || !queue.admits(wanted.claim.mode) {
                        break;
                    }
                    queue.entries_mut().push(wanted.claim.mode);
                    admitted = true;
                    Step::Told(Ok(plan))
                }
                refused => Step::Told(refused),
            };
            round.steps.push(step);
        }
        round
    }
}

/// Drops the claims that were dropped, or have gone on by themselves.
fn retain(gathered: &mut VecDeque<Gathered>) {
    gathered.retain(|one| !one.wanted.is_gone());
}

fn waiter_lease(wanted: &Wanted) -> Duration {
    ttl::rounded_up(wanted.claim.ttl.min(WAITER_LEASE))
}

/// The task that has the gathered claims of a key enter.
struct Task {
    store: Arc<Store>,
    line: Vec<u8>,
    number: u64,
    /// Whether no claim was gathered any more.
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
    async fn run(mut self) {
        let mut gathered = VecDeque::<Gathered>::new();
        let (mut is_patient, mut for_copy) = (true, self.store.timeout() / 4);
        // The queue that the last transaction has found, and the names in it that the transaction could not use.
        let (mut found, mut used) = (None, Vec::new());
        loop {
            // If a runtime has stopped, its other claims are not waited for either.
            is_patient = if is_patient { self.nobody_inside().await } else { self.is_nobody_inside() };
            gathered.extend(self.store.entering.gathered(&self.line, self.number, !gathered.is_empty()));
            if gathered.is_empty() {
                self.is_over = true;
                return;
            }
            retain(&mut gathered);
            let known = found.take().map(|line| self.round(&line, &gathered));
            let round = match known.filter(|round| !round.is_unproved) {
                Some(round) => round,
                None => self.look(&mut gathered, &mut for_copy).await.unwrap_or_default(),
            };
            if round.steps.is_empty() {
                // After a failure, each claim goes on by itself, and finds out what is wrong.
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

    /// Waits until no claim is requesting its entry itself. Returns `false` if that takes too long.
    async fn nobody_inside(&self) -> bool {
        let (entering, patience) = (&self.store.entering, self.store.timeout() / 2);
        while let Some(left) = entering.inside(&self.line) {
            let left = left.notified();
            if !self.is_nobody_inside() && timeout(patience, left).await.is_err() {
                entering.forget_inside(&self.line);
                return false;
            }
        }
        true
    }

    fn is_nobody_inside(&self) -> bool {
        self.store.entering.inside(&self.line).is_none()
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

    /// Plans the steps of gathered claims from the copy of the queue, or reads the queue. `for_copy` is how long this
    /// waits for the copy.
    async fn look(
        &self,
        gathered: &mut VecDeque<Gathered>,
        for_copy: &mut Duration,
    ) -> Result<Round, Failure> {
        let (store, Some(first)) = (&self.store, gathered.front().map(|one| Arc::clone(&one.wanted))) else {
            return Ok(Round::default());
        };
        if let Some(copy) = self.acquire(&first).copy() {
            let is_known = copy.is_known(*for_copy).await;
            // A watch that does not begin is waited for once.
            *for_copy = if is_known { store.timeout() / 4 } else { Duration::ZERO };
            retain(gathered);
            if is_known
                && let Some(round) = copy.look(|line| self.round(line, gathered))
                && !round.is_unproved
            {
                return Ok(round);
            }
        }
        let line = store.within(store.timeout(), store.read(&first.claim.key)).await?;
        retain(gathered);
        Ok(self.round(&line, gathered))
    }

    /// Tells a claim its step. A claim that requests its entry itself gets a turn.
    fn tell(&self, one: Gathered, plan: Result<Plan, Failure>) {
        let turn = match plan {
            _ if one.wanted.is_gone() => return,
            Ok(Plan::Put(_)) => self.store.entering.turn_of(&self.line, one.wanted.claim.mode),
            _ => None,
        };
        one.tell(plan.map(|plan| (plan, turn)));
    }

    /// Adds entries of claims that wait, in one transaction. If the queue has changed, returns the claims, and the queue
    /// if it was read. Records the names that others use in `used`.
    async fn queue(
        &self,
        wait: Vec<(Gathered, Waits)>,
        behind: Behind,
        used: &mut Vec<Vec<u8>>,
    ) -> (Vec<Gathered>, Option<Line>) {
        let nothing = (Vec::new(), None);
        let Some((first, _)) = wait.first() else { return nothing };
        let (store, key) = (&self.store, first.wanted.claim.key.clone());
        let Ok(session) = store.within(store.timeout(), store.session(waiter_lease(&first.wanted))).await
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
        match store.within(store.timeout(), store.create(creation)).await {
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
                // Each claim goes on by itself, and finds out what is wrong.
                drop::<Vec<Gathered>>(again(taken));
                nothing
            }
        }
    }

    /// Records the entries of claims that have not been dropped. A claim that is dropped later finds its record.
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

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use super::*;
    use crate::backend::etcd::config::Config;
    use crate::backend::etcd::entries::Entries;
    use crate::backend::etcd::link::Members;
    use crate::backend::etcd::session::{Session, Sessions};
    use crate::backend::remote::PerRuntime;
    use crate::backend::remote::queue_copy::QueueCopies;
    use crate::backend::{Ask, Attempt, Claim, Held};
    use crate::key::Key;
    use crate::owner::{Identity, OwnerRecord, OwnerSource};

    const TTL: Duration = Duration::from_secs(2);

    fn wanted(mode: Mode, ttl: Duration) -> Wanted {
        let owner = OwnerSource::new().expect("random bytes").mint();
        let record = OwnerRecord::new(Identity::of_this_process("").into(), None);
        let mut claim = Claim::new(Key::new("k").expect("a key"), owner, ttl, record);
        claim.mode = mode;
        Wanted::new(claim, Ask::Enqueue { room: None }, now())
    }

    /// Each letter is a claim: `x` exclusive, `r` a reader, a digit a permit of a semaphore of this size. Capitals have
    /// another lease while they wait. `-` is refused. The round covers the claims before the `|`.
    #[test]
    fn a_round_ends_where_a_step_depends_on_the_steps_before() {
        for (queue, gathered) in [
            ("", "x|x"),
            ("", "rrr|x"),
            ("", "x|r"),
            ("", "r|2"),
            ("", "22|22"),
            ("2", "2|22"),
            ("22", "222|"),
            ("x", "xrx|"),
            ("x", "xx|Xx"),
            ("r", "rr|xr"),
            ("rx", "rxr|"),
            ("x", "--x-|"),
            ("", "-x-|x"),
            ("", "|"),
        ] {
            let mode = |letter: char| match letter.to_ascii_lowercase() {
                'x' | '-' => Mode::Exclusive,
                'r' => Mode::Shared,
                number => Mode::Permit { of: number.to_digit(10).expect("a digit") },
            };
            let modes: Vec<Mode> = queue.chars().map(mode).collect();
            let letters: Vec<char> = gathered.chars().filter(|letter| *letter != '|').collect();
            let ttl = |letter: &char| if letter.is_uppercase() { TTL * 3 } else { TTL };
            let claims: Vec<_> = letters.iter().map(|letter| wanted(mode(*letter), ttl(letter))).collect();
            let plan = |wanted: &Wanted, _| {
                let at = claims.iter().position(|claim| std::ptr::eq(claim, wanted)).expect("one of them");
                if letters[at] == '-' {
                    return Ok(Plan::Refused(Attempt::Held(Held::default())));
                }
                let holds = WaitQueue::new(modes.clone()).admits(wanted.claim.mode);
                let waits = (!holds).then(|| Waits { held: Held::default(), holding: 1 });
                Ok(Plan::Put(Put { behind: None, waits }))
            };
            let round = Round::new(modes.clone(), claims.iter(), plan);
            assert_eq!(round.steps.len(), gathered.find('|').expect("a mark"), "{queue} {gathered}");
        }
    }

    #[test]
    fn a_transaction_and_a_queue_have_a_limit() {
        let claims: Vec<_> = (0..300).map(|_| wanted(Mode::Exclusive, TTL)).collect();
        let waits =
            || Ok(Plan::Put(Put { behind: None, waits: Some(Waits { held: Held::default(), holding: 1 }) }));
        let count = |round: Round| round.steps.iter().filter(|step| matches!(step, Step::Waits(_))).count();
        assert_eq!(count(Round::new(vec![Mode::Exclusive], claims.iter(), |_, _| waits())), TOGETHER);
        let has_room = |_: &Wanted, beside| match beside {
            0..5 => waits(),
            _ => Ok(Plan::Refused(Attempt::Held(Held::default()))),
        };
        let round = Round::new(vec![Mode::Exclusive], claims.iter(), has_room);
        assert_eq!((round.steps.len(), count(round)), (300, 5), "those before it take the room");
    }

    /// Returns a store that never gets a connection.
    fn store() -> Arc<Store> {
        let config = Config::parse("etcd://127.0.0.1:1").expect("a URL");
        let members = Arc::new(Members::new(config).expect("no certificates"));
        Arc::new_cyclic(|own| Store {
            connections: PerRuntime::new(members, None),
            sessions: Sessions::default(),
            entries: Entries::default(),
            entering: Arc::default(),
            copies: QueueCopies::default(),
            runtimes: crate::sync::Mutex::default(),
            own: Weak::clone(own),
            min_ttl: TTL,
        })
    }

    /// Returns the number of the task at a queue.
    fn enters_task(store: &Store, line: &[u8]) -> u64 {
        (0..9).find(|number| store.entering.looks(line, *number).is_some()).expect("a task")
    }

    /// A claim that has gone on by itself keeps the record of its own entry.
    #[test]
    fn a_claim_with_a_record_is_not_recorded_again() {
        let wanted = [(); 3].map(|()| wanted(Mode::Exclusive, TTL));
        let ids = wanted.map(|wanted| Id::new(&wanted.claim.key, wanted.claim.owner));
        let entries = Entries::default();
        let lease = |id| Lease::Shared(Arc::new(Session::new(id, TTL, now())));
        let own = entries.begin(&ids[1], &lease(7), Told::Done, &[], now());
        let names = entries.begin_all(&ids, &lease(8), Told::Waits, &[], now());
        assert!(names[0].is_some() && names[1].is_none() && names[2].is_some(), "{names:?}");
        assert_eq!(entries.get(&ids[1]).map(|mine| mine.stored), Some(own));
    }

    /// The release of such a claim may be answered before its entry is created.
    #[tokio::test]
    async fn a_claim_that_is_dropped_retires_the_lease_only_if_its_request_is_sent() {
        for (is_taken, is_answered) in [(false, false), (true, false), (true, true)] {
            let (store, wanted) = (store(), wanted(Mode::Exclusive, TTL));
            let acquire = Acquire::new(&store, &wanted.claim, wanted.ask, wanted.began);
            let line = &acquire.id.line;
            let before = store.entering.arrive(line, Mode::Exclusive, || panic!("it does not gather"));
            let mut enters = Box::pin(acquire.enter());
            assert!(timeout(Duration::ZERO, &mut enters).await.is_err(), "it has gathered");
            let session = Arc::new(Session::new(1, TTL, now()));
            let gathered = store.entering.gathered(line, enters_task(&store, line), false);
            if is_taken {
                store.entries.begin(
                    &acquire.id,
                    &Lease::Shared(Arc::clone(&session)),
                    Told::Waits,
                    &[],
                    now(),
                );
                assert!(gathered[0].wanted.take());
            }
            if is_answered {
                store.entries.change(&acquire.id, |mine| mine.created = Some(7));
            }
            drop(enters);
            assert_eq!(session.is_retired(), is_taken && !is_answered, "{is_taken} {is_answered}");
            assert_eq!(wanted.claim.is_sent(), is_taken, "{is_taken} {is_answered}");
            assert!(!gathered[0].wanted.put_back(), "it does not gather again");
            drop(before);
        }
    }
}
