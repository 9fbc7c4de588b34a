//! The contract suite on a store whose grants live in sessions, and on sessions with planted bugs.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use lock_core::backend::{
    Ask, Attempt, Backend, BoxFuture, Capability, Claim, FencingToken, Listener, Released, Renew, Renewal,
};
use lock_core::clock::{Clock, Moment};
use lock_core::key::Key;
use lock_core::owner::Owner;
use lock_core::testkit::contract::{self, Report, Subject};
use lock_core::testkit::{Claims, SessionControl, SessionStore};
use lock_core::{GrantId, Listed, LockError, LockErrorKind, LockInfo, LossReason, Result};

/// Returns the cases that do not apply to a store whose grants live in sessions. In this store no lease expires, no key
/// is kept after its release, and waiters send no heartbeats. It has no latches.
fn not_applicable() -> Vec<String> {
    let plain = [
        "downgrade::has_the_lease_of_its_ttl",
        "expiry::",
        "fifo::a_holder_that_dies",
        "fifo::one_who_dies",
        "fifo::one_who_dies_with_a_short_ttl",
        "fifo::without_a_place_there_is_nothing_to_keep",
        "inspect::what_is_kept_is_listed_as_such",
        "latch::",
        "listener::one_who_is_served_is_told",
        "listener::the_opening_of_a_latch_is_told",
        "permit::permits_end_one_by_one",
        "permits::are_kept",
        "permits::end_together",
        "refusal::a_downgrade_that_it_cannot_do",
        "refusal::a_token_that_it_cannot_give",
        "refusal::more_than_it_can",
        "several::runs_out_whole",
        "shared::readers_end_one_by_one",
    ];
    let of_every_mutex = [
        "fencing::grows_over_expiry",
        "release::after_expiry",
        "release::keeps",
        "release::of_one_who_ran_out",
        "release::says_kept",
        "renewal::not_after_expiry",
        "renewal::promises_what_is_kept",
    ];
    let variants = ["", "@write", "@semaphore"];
    let of_every_mutex =
        of_every_mutex.iter().flat_map(|case| variants.map(|variant| format!("{case}{variant}")));
    plain.map(str::to_owned).into_iter().chain(of_every_mutex).collect()
}

async fn report(fault: Fault) -> Report {
    let store = Broken::with(fault);
    contract::run(|| {
        let ends = store.clone();
        let end = move |process| -> BoxFuture<'static, ()> {
            ends.end(process);
            Box::pin(std::future::ready(()))
        };
        std::future::ready(Subject::new(store.clone()).with_session_end(end))
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_store_whose_grants_live_in_sessions_keeps_the_contract() {
    for keep_alive in [false, true] {
        let (store, sessions) = if keep_alive {
            SessionStore::with_keep_alive(Duration::from_secs(30), lock_core::backend::Placement::Embedded)
        } else {
            SessionStore::new()
        };
        let report = contract::run(|| {
            let sessions = sessions.clone();
            let end = move |process| -> BoxFuture<'static, ()> {
                sessions.end(process);
                Box::pin(std::future::ready(()))
            };
            std::future::ready(Subject::new(store.clone()).with_session_end(end))
        })
        .await;
        let not_applicable = not_applicable();
        report.assert_complete(&not_applicable.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// Every broken session must fail the case about its bug, and every case about sessions must fail for at least one
/// broken session.
#[tokio::test(start_paused = true)]
async fn every_broken_session_is_caught_and_every_case_catches_one() {
    let mut catching = BTreeSet::new();
    for (fault, case) in Fault::ALL {
        let report = report(fault).await;
        let caught: BTreeSet<_> = report.failures.iter().map(|failure| failure.case).collect();
        assert!(caught.contains(case), "{fault:?} is caught by {caught:?}");
        catching.extend(caught);
    }
    let whole = report(Fault::None).await;
    assert!(whole.failures.is_empty(), "{whole}");
    let idle: Vec<_> =
        whole.ran.iter().filter(|case| case.starts_with("session::") && !catching.contains(*case)).collect();
    assert!(idle.is_empty(), "no session is broken in the way that these are about: {idle:?}");
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// The end of a session frees none of its grants.
    KeepsItsGrants,
    /// The end of a session ends all other sessions.
    EndsOthers,
    /// No listener is notified of the end of a session.
    TellsNobody,
    /// The notification of the end of a session also lists released grants.
    TellsOfReleased,
    /// A grant ends with the ttl of its claim.
    EndsByTtl,
    /// A grant of an ended session can be renewed.
    RenewsTheGone,
    /// The release of a grant whose session has ended fails.
    FailsToRelease,
    /// The release of a grant whose session has ended frees the key of the next holder.
    ReleasesTheNext,
    /// A process gets no new session after the end of its first one.
    EndsForGood,
    /// The queue entries of a session outlive it.
    KeepsItsPlaces,
    /// No watcher is notified.
    WakesNobody,
}

impl Fault {
    /// Each bug with one case that must find it. Other cases may find it too.
    const ALL: [(Self, &'static str); 11] = [
        (Self::KeepsItsGrants, "session::its_end_frees_what_it_holds"),
        (Self::EndsOthers, "session::its_end_frees_what_it_holds"),
        (Self::TellsNobody, "session::its_end_is_told_to_its_holders"),
        (Self::TellsOfReleased, "session::its_end_is_told_to_its_holders"),
        (Self::EndsByTtl, "session::nothing_ends_before_it"),
        (Self::RenewsTheGone, "session::is_renewed_until_its_end"),
        (Self::FailsToRelease, "session::a_release_after_its_end_is_answered"),
        (Self::ReleasesTheNext, "session::a_release_after_its_end_is_answered"),
        (Self::EndsForGood, "session::another_begins_after_its_end"),
        (Self::KeepsItsPlaces, "session::its_end_takes_its_queue_entries_along"),
        (Self::WakesNobody, "session::its_end_wakes_those_who_wait_for_it"),
    ];
}

/// A store with sessions and one planted bug.
#[derive(Clone, Debug)]
struct Broken {
    inner: SessionStore,
    control: SessionControl,
    fault: Fault,
    state: Arc<Mutex<State>>,
    /// The claims of a process whose session never ends.
    ghosts: Arc<Claims>,
}

#[derive(Debug, Default)]
struct State {
    /// Every granted claim, with the end of its ttl.
    granted: Vec<(Claim, Moment)>,
    /// The last granted claim of each key.
    holders: HashMap<String, Claim>,
    ended: HashSet<u128>,
    listeners: HashMap<u128, Weak<dyn Listener>>,
}

impl Broken {
    fn with(fault: Fault) -> Self {
        let (inner, control) = SessionStore::new();
        let ghosts = Arc::new(Claims::new().expect("random bytes"));
        inner.attach(ghosts.owner().process(), Weak::<Deaf>::new(), None);
        Self { inner, control, fault, state: Arc::default(), ghosts }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    fn end(&self, process: u128) {
        self.state().ended.insert(process);
        let (granted, listener) = {
            let state = self.state();
            let of_it = |claim: &Claim| claim.owner.process() == process;
            let granted: Vec<Owner> = state
                .granted
                .iter()
                .map(|(claim, _)| claim)
                .filter(|claim| of_it(claim))
                .map(|claim| claim.owner)
                .collect();
            (granted, state.listeners.get(&process).and_then(Weak::upgrade))
        };
        match self.fault {
            Fault::KeepsItsGrants => {}
            Fault::EndsOthers => self.control.end_all(),
            _ => self.control.end(process),
        }
        if self.fault == Fault::TellsOfReleased {
            let listener = listener.expect("it listens");
            granted.iter().for_each(|owner| listener.lost(*owner, LossReason::SessionEnded));
        }
    }

    fn has_ended(&self, claim: &Claim) -> bool {
        self.state().ended.contains(&claim.owner.process())
    }

    /// Ends the grants whose ttl has passed.
    fn expire(&self) {
        if self.fault != Fault::EndsByTtl {
            return;
        }
        let past = Clock::Tokio.now();
        let over: Vec<Claim> = {
            let granted = &mut self.state().granted;
            let (over, kept) = granted.drain(..).partition(|(_, end)| end.is_past(past));
            *granted = kept;
            let over: Vec<(Claim, Moment)> = over;
            over.into_iter().map(|(claim, _)| claim).collect()
        };
        for claim in over {
            drop(now(self.inner.release(&claim, None)));
        }
    }
}

/// Polls the future once. The store answers at the first poll.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(answer) => answer,
        std::task::Poll::Pending => panic!("the store does not wait"),
    }
}

fn unavailable() -> LockError {
    LockError::new(LockErrorKind::Unavailable, "the session is over").nothing_taken()
}

impl Backend for Broken {
    fn capability(&self) -> Capability {
        self.inner.capability()
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        self.expire();
        if self.fault == Fault::EndsForGood && self.has_ended(claim) {
            return Err(unavailable());
        }
        let attempt = self.inner.acquire(claim, ask).await?;
        match &attempt {
            Attempt::Granted(_) => {
                let mut state = self.state();
                state.granted.push((claim.clone(), Clock::Tokio.now().plus(claim.ttl)));
                state.holders.insert(claim.key.as_str().to_owned(), claim.clone());
            }
            Attempt::Held(held) if held.queued_at.is_some() && self.fault == Fault::KeepsItsPlaces => {
                // A process whose session never ends adds an entry behind this one. That entry outlives the session of
                // the claim.
                let ghost = self.ghosts.claim(&claim.key, claim.mode, claim.queue, claim.ttl);
                drop(now(self.inner.acquire(&ghost, ask)));
            }
            Attempt::Held(_) => {}
        }
        Ok(attempt)
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        let mut answers = self.inner.renew(batch).await;
        for (Renew { claim, ttl }, answer) in batch.iter().zip(&mut answers) {
            if self.fault == Fault::RenewsTheGone && self.has_ended(claim) {
                *answer = Renewal::Renewed { sent: Clock::Tokio.now(), lease: *ttl, waiters: None };
            }
        }
        answers
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.expire();
        if self.has_ended(claim) {
            let next = self.state().holders.get(claim.key.as_str()).cloned();
            match (self.fault, next) {
                (Fault::FailsToRelease, _) => return Err(unavailable()),
                (Fault::ReleasesTheNext, Some(next)) => {
                    self.inner.release(&next, None).await?;
                    return Ok(Released::Taken);
                }
                _ => {}
            }
        }
        self.inner.release(claim, keep_for).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.inner.fence(claim).await
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        self.inner.downgrade(claim).await
    }

    async fn list(&self, prefix: &str, foreign: bool, limit: usize) -> Result<Listed> {
        self.inner.list(prefix, foreign, limit).await
    }

    async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>> {
        self.inner.inspect(key).await
    }

    async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool> {
        self.inner.force_release(key, id).await
    }

    fn attach(
        &self,
        process: u128,
        listener: Weak<dyn Listener>,
        background: Option<&tokio::runtime::Handle>,
    ) {
        self.state().listeners.insert(process, Weak::clone(&listener));
        let deaf: Weak<dyn Listener> = Weak::<Deaf>::new();
        let listener = if self.fault == Fault::TellsNobody { deaf } else { listener };
        self.inner.attach(process, listener, background);
    }

    async fn changed(&self, claim: &Claim) {
        if self.fault == Fault::WakesNobody {
            std::future::pending::<()>().await;
        }
        self.inner.changed(claim).await;
    }
}

#[derive(Debug)]
struct Deaf;

impl Listener for Deaf {
    fn granted(&self, _owner: Owner, _waiters: usize) {}

    fn contended(&self, _key: &str) {}

    fn opened(&self, _key: &str) {}

    fn reconnected(&self) {}
}
