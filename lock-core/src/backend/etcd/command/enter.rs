//! Adds a claim to the queue of its key, in the order in which the claims of this process have arrived (see
//! `entering`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::acquire::Acquire;
use super::enter_task::Task;
use crate::backend::etcd::entering::{Arrival, Place, Wanted, Word};
use crate::backend::etcd::error::Failure;
use crate::backend::etcd::plan::Plan;
use crate::backend::remote::deadline;
use crate::error::LockErrorKind;

/// A gathered claim waits at most three quarters of its time limit for the task that enters it, and only while the task
/// makes progress. In the last quarter, the claim sends its own request, and may overtake earlier claims.
const PATIENT_FOR: u32 = 3;

impl Acquire<'_> {
    /// Returns the first step of a claim that has no entry. A claim that may wait enters the queue in its order of
    /// arrival. If the claim requests its entry itself, also returns its turn.
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
            let task = Task::new(Arc::clone(store), line.clone(), gathering.place.task);
            store.runtime_of(claim).spawn(task.run());
        }
        let word = gathering.word().await;
        gathering.is_over = true;
        // This drops a message that arrived too late, together with the turn in the message.
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

/// A gathered claim that waits for the message of its task.
struct Gathering<'a> {
    acquire: &'a Acquire<'a>,
    place: Place,
    /// Whether the claim no longer waits.
    is_over: bool,
}

impl Gathering<'_> {
    /// Returns the message of the task. Returns `None` if no request contains the claim, so that the claim must send
    /// its own request.
    async fn word(&mut self) -> Option<Word> {
        let Acquire { store, claim, id, .. } = self.acquire;
        let patience = deadline::of_call(store.timeout(), claim.ttl) / (PATIENT_FOR + 1);
        let looks = |place: &Place| store.entering.looks(&id.line, place.task);
        let mut tries = 0;
        loop {
            let before = looks(&self.place);
            match timeout(patience, self.place.told()).await {
                Ok(Some(word)) => return Some(word),
                Ok(None) if self.place.withdraw() => return None,
                // The task was dropped during the request, whose outcome is unknown.
                Ok(None) => return Some(Err(ended())),
                Err(_) => {
                    tries += 1;
                    let progresses = before.is_some() && looks(&self.place) > before;
                    if !progresses {
                        store.entering.forget_task(&id.line, self.place.task);
                    }
                    // A claim that is part of a request is not withdrawn now: the request may still be answered. If the
                    // request is refused, a later iteration withdraws the claim.
                    if (!progresses || tries >= PATIENT_FOR) && self.place.withdraw() {
                        return None;
                    }
                }
            }
        }
    }
}

fn ended() -> Failure {
    Failure::new(LockErrorKind::Unavailable, "the runtime is shutting down").in_doubt()
}

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        if self.is_over || self.place.leave() {
            return;
        }
        let Acquire { store, claim, id, .. } = self.acquire;
        claim.mark_sent();
        // As after any dropped request, the entry may still be created after the release of the claim. So the session
        // is retired.
        if let Some(mine) = store.entries.get(id).filter(|mine| mine.created.is_none())
            && let Some(session) = mine.lease.session()
        {
            session.retire();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use super::*;
    use crate::backend::etcd::config::Config;
    use crate::backend::etcd::entering::Gathered;
    use crate::backend::etcd::entering::tests::wanted;
    use crate::backend::etcd::entries::{Entries, Id, Lease, Told};
    use crate::backend::etcd::link::Members;
    use crate::backend::etcd::session::{Session, Sessions, now};
    use crate::backend::etcd::store::Store;
    use crate::backend::remote::PerRuntime;
    use crate::backend::remote::queue_copy::QueueCopies;
    use crate::backend::{Claim, Mode};

    const TTL: Duration = Duration::from_secs(2);

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

    /// Returns the number of the task of a queue.
    fn enters_task(store: &Store, line: &[u8]) -> u64 {
        (0..9).find(|number| store.entering.looks(line, *number).is_some()).expect("a task")
    }

    /// A claim that has sent its own request keeps the record of its own entry.
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

    /// The release of a dropped claim may be answered before its entry is created.
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

    /// Makes a claim gather behind another one. Returns its place, and the claims that the task collects.
    fn gathers(acquire: &Acquire<'_>) -> (Place, Vec<Gathered>) {
        let Acquire { store, claim, id, .. } = acquire;
        let copy = || Wanted::new(Claim::clone(claim), acquire.ask, acquire.began);
        let Arrival::Gathers { place, .. } = store.entering.arrive(&id.line, claim.mode, copy) else {
            panic!("another is before it")
        };
        let gathered = store.entering.gathered(&id.line, place.task, false);
        (place, gathered)
    }

    /// A claim stops waiting while a request that contains it is in flight. If this request is refused, no request
    /// contains the claim any more, so the claim must send its own.
    #[tokio::test(start_paused = true)]
    async fn a_claim_whose_request_was_refused_enters_by_itself() {
        for (is_refused, is_dropped) in [(true, true), (true, false), (false, true)] {
            let (store, wanted) = (store(), wanted(Mode::Exclusive, TTL));
            let acquire = Acquire::new(&store, &wanted.claim, wanted.ask, wanted.began);
            let _before =
                store.entering.arrive(&acquire.id.line, Mode::Exclusive, || panic!("it does not gather"));
            let (place, gathered) = gathers(&acquire);
            assert!(gathered[0].wanted.take());
            let mut gathering = Gathering { acquire: &acquire, place, is_over: false };
            let request = async {
                tokio::time::sleep(TTL).await;
                if is_refused {
                    assert!(gathered[0].wanted.put_back());
                }
                // A task that continues keeps the claim.
                (!is_dropped).then_some(gathered)
            };
            let both = async { tokio::join!(gathering.word(), request) };
            let (word, _kept) = timeout(TTL * 10, both).await.expect("it enters long before that");
            match is_refused {
                true => assert!(word.is_none(), "it enters by itself"),
                false => assert!(word.is_some_and(|word| word.is_err_and(|failure| failure.is_in_doubt()))),
            }
        }
    }

    /// A claim that stops waiting ends the task only if the task makes no progress.
    #[tokio::test(start_paused = true)]
    async fn a_task_that_makes_progress_is_not_forgotten() {
        for progresses in [true, false] {
            let (store, wanted) = (store(), wanted(Mode::Exclusive, TTL));
            let acquire = Acquire::new(&store, &wanted.claim, wanted.ask, wanted.began);
            let line = &acquire.id.line;
            let _before = store.entering.arrive(line, Mode::Exclusive, || panic!("it does not gather"));
            let (place, _kept) = gathers(&acquire);
            let task = place.task;
            let mut gathering = Gathering { acquire: &acquire, place, is_over: false };
            let goes_on = async {
                loop {
                    tokio::time::sleep(TTL / 100).await;
                    if progresses {
                        drop(store.entering.gathered(line, task, true));
                    }
                }
            };
            tokio::select! {
                word = gathering.word() => assert!(word.is_none(), "its patience is over"),
                () = goes_on => {}
            }
            assert_eq!(store.entering.looks(line, task).is_some(), progresses);
        }
    }
}
