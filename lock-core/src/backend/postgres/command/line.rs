//! The requests for one key that wait until a call for it may be sent.
//!
//! Few calls for a key are under way at once (see [`stuck`](super::stuck)), and each takes along all that was asked
//! meanwhile. So a crowd of waiters keeps its places with a few calls, however long a round trip is.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::answer::{Answer, code, record_of};
use super::server::{Server, micros_of, texts};
use super::stuck::{Entry, Turn};
use crate::backend::postgres::error::Failure;
use crate::backend::postgres::link::{Connection, Parameter, text};
use crate::backend::{Ask, Claim, Queue};
use crate::clock::{Clock, Moment};
use crate::error::LockErrorKind;
use crate::key::Key;
use crate::sync::survives;

/// How many requests one call takes: so few that it keeps neither the row of the key nor the connection for long.
const PER_CALL: usize = 100;

/// What is asked of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An attempt at one key.
    Attempt,
    /// An attempt at several keys. The name of their entry is all of them.
    AttemptAll,
    /// A heartbeat of a claim that is queued.
    Heartbeat,
}

/// One request.
#[derive(Debug)]
struct Asked {
    owner: String,
    record: String,
    mode: Cow<'static, str>,
    ttl: i64,
    fenced: bool,
    room: Option<i32>,
    barges: bool,
}

/// A request that waits for a call.
#[derive(Debug)]
pub(super) struct Waiting {
    number: u64,
    what: What,
    asked: Asked,
    told: oneshot::Sender<Result<Answer, Failure>>,
}

/// The requests for one key, in their order of arrival.
#[derive(Debug, Default)]
pub(super) struct Line {
    last: u64,
    waiting: VecDeque<Waiting>,
}

impl Line {
    /// Takes the first request and those of its kind behind it; of one that finds out whether the row is free, that alone.
    fn take(&mut self, alone: Option<u64>) -> Vec<Waiting> {
        if let Some(number) = alone {
            return self.withdraw(number).into_iter().collect();
        }
        let Some(what) = self.waiting.front().map(|first| first.what) else { return Vec::new() };
        let (mut taken, mut left) = (Vec::new(), VecDeque::new());
        for one in self.waiting.drain(..) {
            if one.what == what && taken.len() < PER_CALL { taken.push(one) } else { left.push_back(one) }
        }
        self.waiting = left;
        taken
    }

    fn withdraw(&mut self, number: u64) -> Option<Waiting> {
        let at = self.waiting.iter().position(|one| one.number == number)?;
        self.waiting.remove(at)
    }
}

/// The place of a request in the line, until it is sent.
struct Place<'a> {
    entry: Entry,
    number: u64,
    claim: &'a Claim,
    withdrawn: bool,
}

impl<'a> Place<'a> {
    fn new(
        entry: Entry,
        claim: &'a Claim,
        what: What,
        asked: Asked,
        told: oneshot::Sender<Result<Answer, Failure>>,
    ) -> Self {
        let number = entry.with(|calls| {
            let number = calls.line.last + 1;
            calls.line.last = number;
            calls.line.waiting.push_back(Waiting { number, what, asked, told });
            number
        });
        Self { entry, number, claim, withdrawn: false }
    }

    /// Takes the request out of the line. Returns `false` where it was sent.
    fn withdraw(&mut self) -> bool {
        let found = self.entry.with(|calls| calls.line.withdraw(self.number));
        self.withdrawn |= found.is_some();
        self.withdrawn
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // A request that was sent may take effect, so a dropped claim must be released.
        if !self.withdraw() {
            self.claim.mark_sent();
        }
    }
}

impl Server {
    /// Sends a request for the key of a claim, in one call with those that others of its runtime make meanwhile.
    pub(super) async fn ask(&self, claim: &Claim, what: What, ask: Ask) -> Result<Answer, Failure> {
        let (told, mut answer) = oneshot::channel();
        let mut place = Place::new(self.stuck.entry(name_of(claim)), claim, what, asked_of(claim, ask), told);
        loop {
            let next = tokio::select! {
                biased;
                answer = &mut answer => return heard(answer),
                next = self.next_call(&place.entry) => next,
            };
            let (turn, live) = match next {
                Ok(next) => next,
                Err(failure) if place.withdraw() => return Err(failure),
                // Another caller has sent it meanwhile.
                Err(_) => return heard(answer.await),
            };
            // From here on nothing is awaited until the requests are with the driver.
            let alone = turn.finds_out().then_some(place.number);
            let batch = place.entry.with(|calls| calls.line.take(alone));
            if batch.is_empty() {
                drop(turn);
                return heard(answer.await);
            }
            tokio::select! {
                biased;
                () = self.send(&live, claim, batch, turn) => {}
                answer = &mut answer => return heard(answer),
            }
        }
    }

    /// Waits until a call may be sent over the connection of this runtime.
    async fn next_call(&self, entry: &Entry) -> Result<(Turn, Arc<Connection>), Failure> {
        let turn = entry.turn().await?;
        // A caller that waits for a connection here has sent nothing.
        Ok((turn, self.connections.get().await?))
    }

    /// Sends requests for the keys of a claim, and tells each caller its answer. That goes on when this is dropped, once
    /// it was polled.
    async fn send(&self, live: &Arc<Connection>, claim: &Claim, batch: Vec<Waiting>, turn: Turn) {
        let statements = &self.shared().statements;
        let what = batch.first().map_or(What::Attempt, |one| one.what);
        let (statement, parameters) = match (what, batch.as_slice()) {
            // Most keys have no crowd.
            (What::Attempt, [one]) => {
                (statements.attempt.of(live.is_own()), parameters_of_one(claim, &one.asked))
            }
            (What::Attempt, _) => (statements.attempts.as_str(), parameters_of(what, claim, &batch)),
            (What::AttemptAll, _) => (statements.acquire_alls.as_str(), parameters_of(what, claim, &batch)),
            (What::Heartbeat, _) => (statements.heartbeats.as_str(), parameters_of(what, claim, &batch)),
        };
        // Before the requests leave, because a lease counts from here.
        let sent = Clock::Suspend.now();
        let connection = Arc::clone(live);
        let answered = move |answer: Result<&[Row], &Failure>| {
            turn.settle(answer.err());
            if tell(batch, answer, sent) {
                connection.note_commit();
            }
        };
        // Whatever comes is told to the callers.
        let _ = live.query_with(statement, parameters, answered).await;
    }
}

/// Sends each caller its answer. Returns whether one of them is a grant, which the server answers once it is on disk.
fn tell(batch: Vec<Waiting>, answer: Result<&[Row], &Failure>, sent: Moment) -> bool {
    let mut granted = false;
    let rows = match answer {
        Ok(rows) if rows.len() == batch.len() => Ok(rows),
        Ok(_) => Err(Failure::unexpected("another number of rows")),
        Err(failure) => Err(failure.clone()),
    };
    for (number, one) in batch.into_iter().enumerate() {
        let answer = match &rows {
            Ok(rows) => rows
                .get(number..=number)
                .map_or_else(|| Err(Failure::unexpected("no row")), |row| Answer::read_flat(row, sent)),
            Err(failure) => Err(failure.clone()),
        };
        granted |= answer.as_ref().is_ok_and(|answer| answer.verdict == 1);
        // It wakes the caller's task, whose waker may be one of the application.
        let _ = survives(|| one.told.send(answer).is_ok());
    }
    granted
}

fn heard(answer: Result<Result<Answer, Failure>, oneshot::error::RecvError>) -> Result<Answer, Failure> {
    let ended = || Failure::new(LockErrorKind::Unavailable, "the runtime is shutting down").in_doubt();
    answer.unwrap_or_else(|_| Err(ended()))
}

/// Returns the name of the entry of a claim. A claim of several keys has an entry of its own: which of them is stuck is not
/// known.
pub(super) fn name_of(claim: &Claim) -> String {
    match claim.more.is_empty() {
        true => claim.key.as_str().to_owned(),
        false => claim.keys().map(Key::as_str).collect::<Vec<_>>().join("\0"),
    }
}

fn asked_of(claim: &Claim, ask: Ask) -> Asked {
    Asked {
        owner: claim.owner.token().as_str().to_owned(),
        record: record_of(claim),
        mode: code(claim.mode),
        ttl: micros_of(claim.ttl),
        fenced: claim.fencing,
        room: match ask {
            Ask::Probe | Ask::Try => None,
            Ask::Enqueue { room } => Some(room.and_then(|room| i32::try_from(room).ok()).unwrap_or(i32::MAX)),
        },
        barges: claim.queue == Queue::Barging,
    }
}

/// Returns the parameters of an attempt that is sent alone.
fn parameters_of_one(claim: &Claim, asked: &Asked) -> Vec<Parameter> {
    vec![
        text(claim.key.as_str()),
        text(asked.owner.clone()),
        text(asked.record.clone()),
        text(asked.mode.clone()),
        (Box::new(asked.ttl), Type::INT8),
        (Box::new(asked.fenced), Type::BOOL),
        (Box::new(asked.room), Type::INT4),
        (Box::new(asked.barges), Type::BOOL),
    ]
}

/// Returns the parameters of requests that are sent together.
fn parameters_of(what: What, claim: &Claim, batch: &[Waiting]) -> Vec<Parameter> {
    fn all<T: ToSql + Send + Sync + 'static>(
        batch: &[Waiting],
        kind: Type,
        of: impl Fn(&Asked) -> T,
    ) -> Parameter
    where
        Vec<T>: ToSql,
    {
        (Box::new(batch.iter().map(|one| of(&one.asked)).collect::<Vec<T>>()), kind)
    }
    let owners = all(batch, Type::TEXT_ARRAY, |one| one.owner.clone());
    let records = all(batch, Type::TEXT_ARRAY, |one| one.record.clone());
    let modes = all(batch, Type::TEXT_ARRAY, |one| one.mode.to_string());
    let ttls = all(batch, Type::INT8_ARRAY, |one| one.ttl);
    let fenced = all(batch, Type::BOOL_ARRAY, |one| one.fenced);
    match what {
        What::Attempt => vec![
            text(claim.key.as_str()),
            owners,
            records,
            modes,
            ttls,
            fenced,
            all(batch, Type::INT4_ARRAY, |one| one.room),
            all(batch, Type::BOOL_ARRAY, |one| one.barges),
        ],
        What::AttemptAll => vec![texts(claim.keys()), owners, records, ttls, fenced],
        What::Heartbeat => vec![text(claim.key.as_str()), owners, records, modes, ttls],
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::stuck::StuckKeys;
    use super::*;
    use crate::owner::{Identity, OwnerRecord, OwnerSource};

    fn claim() -> Claim {
        let owners = OwnerSource::new().expect("random bytes");
        let record = OwnerRecord::new(Arc::new(Identity::of_this_process("test")), None);
        Claim::new(Key::new("k").expect("a key"), owners.mint(), Duration::from_secs(1), record)
    }

    #[tokio::test]
    async fn a_call_takes_the_requests_of_one_kind_in_their_order() {
        let (keys, claim) = (Arc::<StuckKeys>::default(), claim());
        let place = |what| {
            let (told, _) = oneshot::channel();
            Place::new(keys.entry(name_of(&claim)), &claim, what, asked_of(&claim, Ask::Try), told)
        };
        let mut places: Vec<_> = (0..PER_CALL + 2)
            .map(|number| place(if number == 1 { What::Heartbeat } else { What::Attempt }))
            .collect();
        let take = |alone| -> Vec<u64> {
            let taken = keys.entry(name_of(&claim)).with(|calls| calls.line.take(alone));
            taken.iter().map(|one| one.number).collect()
        };
        let last = u64::try_from(PER_CALL).expect("a number") + 2;
        let first: Vec<u64> = (1..last).filter(|number| *number != 2).collect();
        assert_eq!(take(None), first, "attempts, up to the limit");
        assert_eq!(take(Some(last)), [last], "the one that finds out");
        assert_eq!(take(None), [2], "the heartbeat");
        assert_eq!(take(None), [0_u64; 0]);
        assert!(!claim.is_sent(), "its callers know nothing of it yet");
        assert!(!places.remove(0).withdraw());
        assert!(claim.is_sent(), "it may take effect");
    }

    #[tokio::test]
    async fn a_request_that_is_dropped_before_it_is_sent_leaves_nothing() {
        let (keys, claim) = (Arc::<StuckKeys>::default(), claim());
        let (told, _) = oneshot::channel();
        let entry = keys.entry(name_of(&claim));
        let asked = asked_of(&claim, Ask::Try);
        drop(Place::new(keys.entry(name_of(&claim)), &claim, What::Attempt, asked, told));
        assert!(!claim.is_sent() && entry.with(|calls| calls.line.take(None)).is_empty());
    }
}
