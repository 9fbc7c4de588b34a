//! Sends several requests for one key in one call.
//!
//! Only a few calls for a key run at the same time (see [`stuck`](super::stuck)). Each call contains all requests that
//! arrived since the last call. So a few calls keep the queue entries of many waiters, even if a round trip is long.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::answer::Answer;
use super::parameter::texts;
use super::server::Server;
use super::stuck::{Entry, Turn};
use super::unsent::{Asked, QueuedRequest, RequestKind, name_of};
use super::unsent_place::UnsentPlace;
use crate::backend::postgres::error::Failure;
use crate::backend::postgres::link::{Connection, Parameter, text};
use crate::backend::{Ask, Claim};
use crate::clock::{Clock, Moment};
use crate::error::LockErrorKind;
use crate::sync::survives;

impl Server {
    /// Sends a request for the key of a claim, in one call with other requests of the same runtime.
    pub(super) async fn ask(&self, claim: &Claim, kind: RequestKind, ask: Ask) -> Result<Answer, Failure> {
        let (told, mut answer) = oneshot::channel();
        let mut place =
            UnsentPlace::new(self.stuck.entry(name_of(claim)), claim, kind, Asked::new(claim, ask), told);
        loop {
            let next = tokio::select! {
                biased;
                answer = &mut answer => return heard(answer),
                next = self.next_call(&place.entry) => next,
            };
            let (turn, live) = match next {
                Ok(next) => next,
                Err(failure) if place.withdraw() => return Err(failure),
                // Another caller has sent the request meanwhile.
                Err(_) => return heard(answer.await),
            };
            // No await follows until the driver has the requests: a drop in between would lose the requests of other
            // callers.
            let alone = turn.finds_out().then_some(place.number);
            let batch = place.entry.with(|calls| calls.unsent.take(alone));
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
        // The request stays in `unsent` during this wait, so the caller can still withdraw it.
        Ok((turn, self.connections.get().await?))
    }

    /// Sends requests for the keys of a claim, and delivers the answers to their callers. After the first poll, the
    /// call continues even if the future is dropped.
    async fn send(&self, live: &Arc<Connection>, claim: &Claim, batch: Vec<QueuedRequest>, turn: Turn) {
        let statements = &self.shared().statements;
        let kind = batch.first().map_or(RequestKind::Attempt, |one| one.kind);
        let (statement, parameters) = match (kind, batch.as_slice()) {
            // Most keys have a single request. A session without the settings of the library needs `attempts`, which
            // has these settings.
            (RequestKind::Attempt, [one]) if live.is_own() => {
                (&statements.attempt, parameters_of_one(claim, &one.asked))
            }
            (RequestKind::Attempt, _) => (&statements.attempts, parameters_of(kind, claim, &batch)),
            (RequestKind::AttemptAll, _) => (&statements.acquire_alls, parameters_of(kind, claim, &batch)),
            (RequestKind::Heartbeat, _) => (&statements.heartbeats, parameters_of(kind, claim, &batch)),
        };
        // The clock is read before the requests are sent, because a lease counts from this moment.
        let sent = Clock::Suspend.now();
        let connection = Arc::clone(live);
        let answered = move |answer: Result<&[Row], &Failure>| {
            turn.settle(answer.err());
            if tell(batch, answer, sent) {
                connection.note_commit();
            }
        };
        // `answered` has already sent each caller its outcome.
        let _ = live.query_with(statement, parameters, answered).await;
    }
}

/// Sends each caller its answer. Returns whether one of the answers is a grant. The server sends a grant only after its
/// commit is on disk.
fn tell(batch: Vec<QueuedRequest>, answer: Result<&[Row], &Failure>, sent: Moment) -> bool {
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
                .map_or_else(|| Err(Failure::unexpected("no row")), |row| Answer::read(row, sent)),
            Err(failure) => Err(failure.clone()),
        };
        granted |= answer.as_ref().is_ok_and(|answer| answer.verdict == 1);
        // Sending wakes the caller's task. The waker of the task may belong to the application, and may panic.
        let _ = survives(|| one.told.send(answer).is_ok());
    }
    granted
}

fn heard(answer: Result<Result<Answer, Failure>, oneshot::error::RecvError>) -> Result<Answer, Failure> {
    let ended = || Failure::new(LockErrorKind::Unavailable, "the runtime is shutting down").in_doubt();
    answer.unwrap_or_else(|_| Err(ended()))
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
fn parameters_of(kind: RequestKind, claim: &Claim, batch: &[QueuedRequest]) -> Vec<Parameter> {
    fn column<T: ToSql + Send + Sync + 'static>(
        batch: &[QueuedRequest],
        kind: Type,
        of: impl Fn(&Asked) -> T,
    ) -> Parameter
    where
        Vec<T>: ToSql,
    {
        (Box::new(batch.iter().map(|one| of(&one.asked)).collect::<Vec<T>>()), kind)
    }
    let owners = column(batch, Type::TEXT_ARRAY, |one| one.owner.clone());
    let records = column(batch, Type::TEXT_ARRAY, |one| one.record.clone());
    let modes = column(batch, Type::TEXT_ARRAY, |one| one.mode.to_string());
    let ttls = column(batch, Type::INT8_ARRAY, |one| one.ttl);
    let fenced = column(batch, Type::BOOL_ARRAY, |one| one.fenced);
    match kind {
        RequestKind::Attempt => vec![
            text(claim.key.as_str()),
            owners,
            records,
            modes,
            ttls,
            fenced,
            column(batch, Type::INT4_ARRAY, |one| one.room),
            column(batch, Type::BOOL_ARRAY, |one| one.barges),
        ],
        RequestKind::AttemptAll => vec![texts(claim.keys()), owners, records, ttls, fenced],
        RequestKind::Heartbeat => vec![text(claim.key.as_str()), owners, records, modes, ttls],
    }
}
