//! Has the claims of this process that may wait for a key enter its queue in their order of arrival.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::acquire::{Acquire, WAITER_LEASE};
use super::create::{Created, Creation, New};
use crate::backend::Mode;
use crate::backend::etcd::entering::{Arrival, Gathered, Place, Wanted, Word};
use crate::backend::etcd::entries::{Id, Lease, Told};
use crate::backend::etcd::error::Failure;
use crate::backend::etcd::keyspace;
use crate::backend::etcd::line::{self, Line};
use crate::backend::etcd::plan::{Behind, Plan, Put, Waits};
use crate::backend::etcd::session::now;
use crate::backend::etcd::store::{OPS, Store, counts};
use crate::backend::remote::wait_queue::WaitQueue;
use crate::error::LockErrorKind;

/// How long the gathered claims wait for those that are requesting their entries themselves, whose runtime may have
/// stopped. After this time only the order is lost.
const PATIENCE: Duration = Duration::from_secs(1);

/// The largest number of entries in one transaction, which also checks the queue and reads it.
const TOGETHER: usize = OPS - 1;

impl Acquire<'_> {
    /// Returns the first step of a claim that has no entry. A claim that may wait takes its turn among the claims of
    /// this process, and requests its entry within its turn.
    pub(super) async fn enter(&self) -> Word {
        let (store, claim) = (self.store, self.claim);
        if !self.ask.enqueues() {
            return Ok((self.first_plan().await?, None));
        }
        let wanted = || Wanted { claim: claim.clone(), ask: self.ask, began: self.began };
        let (place, starts_task) = match store.entering.arrive(&self.id.line, claim.mode, wanted) {
            Arrival::Enters(turn) => return Ok((self.first_plan().await?, Some(turn))),
            Arrival::Gathers { place, starts_task } => (place, starts_task),
        };
        let mut gathering = Gathering { acquire: self, place, is_over: false };
        if starts_task {
            let task = Task { store: Arc::clone(store), line: self.id.line.clone(), is_over: false };
            store.runtime_of(claim).spawn(task.run());
        }
        let word = gathering.place.told().await;
        match word {
            None if store.entries.get(&self.id).is_none() => {
                gathering.is_over = true;
                Ok((self.first_plan().await?, None))
            }
            None => Err(Failure::new(LockErrorKind::Unavailable, "the runtime is shutting down").in_doubt()),
            Some(word) => {
                gathering.is_over = true;
                match word {
                    Err(failure) if !failure.is_in_doubt() => Ok((self.or_refusal(failure).await?, None)),
                    word => {
                        if matches!(word, Err(_) | Ok((Plan::Waits(..), _))) {
                            claim.mark_sent();
                        }
                        word
                    }
                }
            }
        }
    }
}

/// A gathered claim that is waiting for its word.
struct Gathering<'a> {
    acquire: &'a Acquire<'a>,
    place: Place,
    /// Whether the claim has its word.
    is_over: bool,
}

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        if self.is_over || self.place.withdraw() {
            return;
        }
        let Acquire { store, claim, id, .. } = self.acquire;
        claim.mark_sent();
        // As for a request of its own that is dropped: the entry may be created after the claim is released.
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
    /// The claims that go on by themselves, by number.
    told: Vec<(u64, Result<Plan, Failure>)>,
    /// The claims that wait, by number.
    wait: Vec<(u64, Waits)>,
    behind: Behind,
}

impl Round {
    /// Plans the steps of gathered claims, as far as they do not depend on the steps before. `plan` returns the step of
    /// one claim at a queue of these `modes`. The claims that hold the key at once request their entries themselves,
    /// beside each other. The claims that wait enter together, under one lease.
    fn new(
        modes: Vec<Mode>,
        gathered: &[(u64, Arc<Wanted>)],
        plan: impl Fn(&Wanted) -> Result<Plan, Failure>,
    ) -> Self {
        let (mut round, mut queue) = (Self::default(), WaitQueue::new(modes));
        let (mut admitted, mut lease) = (false, None);
        for (number, wanted) in gathered {
            match plan(wanted) {
                Ok(Plan::Put(Put { behind, waits: Some(waits) })) => {
                    let is_alike = *lease.get_or_insert(waiter_lease(wanted)) == waiter_lease(wanted);
                    if admitted || !is_alike || round.wait.len() == TOGETHER {
                        break;
                    }
                    round.behind = behind;
                    round.wait.push((*number, waits));
                }
                Ok(plan @ Plan::Put(_)) => {
                    if !round.wait.is_empty() || !queue.admits(wanted.claim.mode) {
                        break;
                    }
                    queue.entries_mut().push(wanted.claim.mode);
                    admitted = true;
                    round.told.push((*number, Ok(plan)));
                }
                refused => round.told.push((*number, refused)),
            }
        }
        round
    }

    /// Returns whether a claim is refused. A copy of the queue may be older than an answer to this process, so it alone
    /// cannot prove that.
    fn refuses(&self) -> bool {
        self.told.iter().any(|(_, plan)| matches!(plan, Err(_) | Ok(Plan::Refused(_))))
    }
}

fn waiter_lease(wanted: &Wanted) -> Duration {
    wanted.claim.ttl.min(WAITER_LEASE)
}

/// The task that has the gathered claims of a key enter.
struct Task {
    store: Arc<Store>,
    line: Vec<u8>,
    /// Whether no claim was gathered any more. Then another task may have begun.
    is_over: bool,
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.is_over {
            self.store.entering.end_task(&self.line);
        }
    }
}

impl Task {
    async fn run(mut self) {
        // The queue that the last transaction has found, and the names in it that it could not use.
        let (mut found, mut used) = (None, Vec::new());
        loop {
            self.nobody_inside().await;
            let gathered = self.store.entering.gathered(&self.line);
            if gathered.is_empty() {
                self.is_over = true;
                return;
            }
            let round = match found.take() {
                Some(line) => Ok(self.round(&line, &gathered)),
                None => self.look(&gathered).await,
            };
            match round {
                Ok(round) => {
                    self.tell(round.told);
                    found = self.queue(&gathered, round.wait, round.behind, &mut used).await;
                }
                Err(failure) => {
                    self.tell(gathered.iter().map(|(number, _)| (*number, Err(failure.clone()))).collect());
                }
            }
        }
    }

    /// Waits until no claim is requesting its entry itself.
    async fn nobody_inside(&self) {
        let entering = &self.store.entering;
        while let Some(left) = entering.inside(&self.line) {
            let left = left.notified();
            if entering.inside(&self.line).is_some() && timeout(PATIENCE, left).await.is_err() {
                entering.forget_inside(&self.line);
            }
        }
    }

    fn round(&self, line: &Line, gathered: &[(u64, Arc<Wanted>)]) -> Round {
        let modes = line.queue.entries().iter().map(|entry| entry.mode).collect();
        Round::new(modes, gathered, |wanted| self.acquire(wanted).plan(line))
    }

    fn acquire<'a>(&'a self, wanted: &'a Wanted) -> Acquire<'a> {
        Acquire::new(&self.store, &wanted.claim, wanted.ask, wanted.began)
    }

    /// Plans the steps of gathered claims from the copy of the queue, or reads the queue.
    async fn look(&self, gathered: &[(u64, Arc<Wanted>)]) -> Result<Round, Failure> {
        let Some((_, first)) = gathered.first() else { return Ok(Round::default()) };
        let store = &self.store;
        if let Some(copy) = self.acquire(first).copy()
            && copy.is_known(store.timeout() / 4).await
            && let Some(round) = copy.look(|line| self.round(line, gathered))
            && !round.refuses()
        {
            return Ok(round);
        }
        let line = store.within(store.timeout(), store.read(&first.claim.key)).await;
        Ok(self.round(&line.map_err(Failure::before_any_request)?, gathered))
    }

    /// Tells gathered claims their steps. A claim that requests its entry itself gets a turn.
    fn tell(&self, told: Vec<(u64, Result<Plan, Failure>)>) {
        let numbers: Vec<u64> = told.iter().map(|(number, _)| *number).collect();
        let taken = self.store.entering.take(&self.line, &numbers, |_| {});
        for (one, plan) in matching(taken, told) {
            let turn = match plan {
                Ok(Plan::Put(_)) => self.store.entering.turn_of(&self.line, one.wanted.claim.mode),
                _ => None,
            };
            one.tell(plan.map(|plan| (plan, turn)));
        }
    }

    /// Adds entries of claims that wait, in one transaction. If the queue has changed, the claims stay gathered, and
    /// this returns the queue. Records the names that are in use by others in `used`.
    async fn queue(
        &self,
        gathered: &[(u64, Arc<Wanted>)],
        wait: Vec<(u64, Waits)>,
        behind: Behind,
        used: &mut Vec<Vec<u8>>,
    ) -> Option<Line> {
        let (store, numbers) = (&self.store, wait.iter().map(|(number, _)| *number).collect::<Vec<u64>>());
        let (_, first) = gathered.iter().find(|(number, _)| numbers.first() == Some(number))?;
        let session = match store.within(store.timeout(), store.session(waiter_lease(first))).await {
            Ok(session) => session,
            Err(failure) => {
                let failure = failure.before_any_request();
                self.tell(numbers.iter().map(|number| (*number, Err(failure.clone()))).collect());
                return None;
            }
        };
        let (lease, mut entries) = (Lease::Shared(session), Vec::<New>::new());
        // A claim that is dropped from here on finds the record of its entry.
        let taken = store.entering.take(&self.line, &numbers, |wanted| {
            let id = Id::new(&wanted.claim.key, wanted.claim.owner);
            let fits = |name: &[u8]| {
                let last = entries.last().map(|last| keyspace::order(&last.stored));
                last < Some(keyspace::order(name)) && !used.iter().any(|used| used == name)
            };
            let stored = store.entries.begin(&id, lease.clone(), Told::Waits, fits, now());
            let value = line::value(&wanted.claim, wanted.claim.mode, None, false);
            entries.push(New { id, stored, value });
        });
        if taken.is_empty() {
            return None;
        }
        let names: Vec<Vec<u8>> = entries.iter().map(|entry| entry.stored.clone()).collect();
        let (key, read) = (&first.claim.key, Some(counts(&first.claim.key)));
        let creation = Creation { key, lease: &lease, entries, behind, read };
        match store.within(store.timeout(), store.create(creation)).await {
            Ok(Created::At(_, read)) => {
                let count = read.and_then(|read| usize::try_from(read.count).ok()).unwrap_or_default();
                let before = count.saturating_sub(taken.len());
                for (at, (one, waits)) in matching(taken, wait).enumerate() {
                    let held = waits.behind(before + at, one.wanted.began);
                    one.tell(Ok((Plan::Waits(held, before + at), None)));
                }
                None
            }
            Ok(Created::Changed(line)) => {
                used.extend(names.into_iter().filter(|name| line.has(name)));
                store.entering.put_back(&self.line, taken);
                Some(line)
            }
            Ok(Created::Over) => {
                store.entering.put_back(&self.line, taken);
                None
            }
            Err(failure) => {
                taken.into_iter().for_each(|one| one.tell(Err(failure.clone())));
                None
            }
        }
    }
}

/// Returns the gathered claims with what is planned for them. Both are in the same order, but some claims may have been
/// dropped.
fn matching<T>(taken: Vec<Gathered>, planned: Vec<(u64, T)>) -> impl Iterator<Item = (Gathered, T)> {
    let mut planned = planned.into_iter();
    taken.into_iter().filter_map(move |one| {
        let (_, plan) = planned.find(|(number, _)| *number == one.number)?;
        Some((one, plan))
    })
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

    fn wanted(mode: Mode, ttl: Duration) -> Arc<Wanted> {
        let owner = OwnerSource::new().expect("random bytes").mint();
        let record = OwnerRecord::new(Identity::of_this_process("").into(), None);
        let mut claim = Claim::new(Key::new("k").expect("a key"), owner, ttl, record);
        claim.mode = mode;
        Arc::new(Wanted { claim, ask: Ask::Enqueue { room: None }, began: now() })
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
            let claim = |(number, letter): (u64, &char)| {
                (number, wanted(mode(*letter), if letter.is_uppercase() { TTL * 3 } else { TTL }))
            };
            let claims: Vec<_> = (0..).zip(&letters).map(claim).collect();
            let plan = |wanted: &Wanted| {
                let is_it = |(_, claim): &&(u64, Arc<Wanted>)| std::ptr::eq(&**claim, wanted);
                let (number, _) = claims.iter().find(is_it).expect("one of them");
                if letters[usize::try_from(*number).expect("few")] == '-' {
                    return Ok(Plan::Refused(Attempt::Held(Held::default())));
                }
                let holds = WaitQueue::new(modes.clone()).admits(wanted.claim.mode);
                let waits = (!holds).then(|| Waits { held: Held::default(), holding: 1 });
                Ok(Plan::Put(Put { behind: None, waits }))
            };
            let round = Round::new(modes.clone(), &claims, plan);
            let told = round.told.iter().map(|(number, _)| *number);
            let mut planned: Vec<u64> = told.chain(round.wait.iter().map(|(number, _)| *number)).collect();
            planned.sort_unstable();
            let expected = u64::try_from(gathered.find('|').expect("a mark")).expect("few");
            assert_eq!(planned, Vec::from_iter(0..expected), "{queue} {gathered}");
            assert_eq!(
                round.refuses(),
                gathered.split('|').next().expect("text").contains('-'),
                "{gathered}"
            );
        }
    }

    #[test]
    fn a_transaction_has_a_limit() {
        let claims: Vec<_> = (0..300).map(|number| (number, wanted(Mode::Exclusive, TTL))).collect();
        let waits = |_: &Wanted| {
            let waits = Some(Waits { held: Held::default(), holding: 1 });
            Ok(Plan::Put(Put { behind: None, waits }))
        };
        assert_eq!(Round::new(vec![Mode::Exclusive], &claims, waits).wait.len(), TOGETHER);
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
            let begin = |_: &Wanted| {
                let lease = Lease::Shared(Arc::clone(&session));
                drop(store.entries.begin(&acquire.id, lease, Told::Waits, |_| true, now()));
            };
            let taken = if is_taken { store.entering.take(line, &[1], begin) } else { Vec::new() };
            if is_answered {
                store.entries.change(&acquire.id, |mine| mine.created = Some(7));
            }
            drop(enters);
            assert_eq!(session.is_retired(), is_taken && !is_answered, "{is_taken} {is_answered}");
            assert_eq!(wanted.claim.is_sent(), is_taken, "{is_taken} {is_answered}");
            drop((before, taken));
        }
    }
}
