//! Sending a batch, and reading its answer.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value};
use tokio::sync::oneshot;

use super::step::{Outcome, Part, Step};
use super::unanswered::{Batch, End, LOOK, Next, Sending, Waiting};
use crate::backend::FencingToken;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::connection::Connection;
use crate::backend::redis::link::gather::behind_all_that_are_ready;
use crate::backend::redis::link::session_state::SessionState;
use crate::backend::redis::scripts::Script;
use crate::clock::{Clock, Moment};
use crate::error::LockErrorKind;

/// The number of steps below which a script is not worth its cost: each of them is sent by itself.
const WORTH_A_SCRIPT: usize = 4;

/// The room for the arguments of one step, in bytes.
const BYTES: usize = 160;

/// The digits of the server's time in us, until the year 2286.
const TIME_LEN: usize = 16;

impl<S: SessionState> Connection<S> {
    /// Sends `step` in a batch that leaves with `full` steps. Returns what came of it, and the moment from which its
    /// deadline and its lease count: that at which the first step of its batch was added.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes the step out of the batch before it has left. Later the server may execute it.
    pub(crate) async fn send_in_batch(
        self: &Arc<Self>,
        step: Step,
        full: usize,
        deadline: Duration,
    ) -> (Moment, Outcome) {
        let (tell, told) = oneshot::channel();
        let Some(added) = self.batches.add(Waiting { step, deadline, told: Some(tell) }, full) else {
            return (Clock::Suspend.now(), Outcome::Failed(shutting_down()));
        };
        if added.starts_watch {
            tokio::spawn(watch(Arc::clone(self)));
        }
        // In tasks of their own, because this one may be dropped.
        match added.next {
            Next::Nothing => {}
            Next::Send(batch) => drop(tokio::spawn(send(Arc::clone(self), batch))),
            Next::SendLater => drop(tokio::spawn(send_later(Arc::clone(self)))),
        }
        let outcome = told.await.unwrap_or_else(|_| Outcome::Failed(shutting_down().in_doubt()));
        (added.opened, outcome)
    }
}

fn shutting_down() -> Failure {
    Failure::new(LockErrorKind::Unavailable, "the runtime is shutting down")
}

/// Looks at the batches of `connection` as long as there are any.
fn watch<S: SessionState>(connection: Arc<Connection<S>>) -> impl Future<Output = ()> + Send {
    // Here and not in the future: a runtime that has ended drops the future before it is polled.
    let mut end = End::new(&connection.batches);
    async move {
        loop {
            tokio::time::sleep(LOOK).await;
            let look = connection.batches.look(Clock::Suspend.now());
            if let Some(batch) = look.overdue {
                tokio::spawn(send(Arc::clone(&connection), batch));
            }
            if look.is_over {
                return end.disarm();
            }
        }
    }
}

async fn send_later<S: SessionState>(connection: Arc<Connection<S>>) {
    behind_all_that_are_ready().await;
    if let Some(batch) = connection.batches.close() {
        send(connection, batch).await;
    }
}

/// Sends a closed batch, and tells each task what came of its step.
async fn send<S: SessionState>(connection: Arc<Connection<S>>, batch: Arc<Batch>) {
    let sent = Clock::Suspend.now();
    let _sending = Sending(&connection.batches, &batch);
    let command = {
        let mut steps = batch.steps.lock();
        steps.retain(Waiting::is_awaited);
        if steps.len() < WORTH_A_SCRIPT {
            tell_all(&mut steps, &Outcome::Alone);
        }
        steps.sort_by_key(|waiting| waiting.step.part());
        (steps.len() >= WORTH_A_SCRIPT).then(|| call(&connection, &batch, &steps))
    };
    if let Some(command) = command {
        let answer = connection.run(Script::Batch, &command).await;
        let mut steps = batch.steps.lock();
        match answer.and_then(|answer| Answer::read(answer, steps.len())) {
            Ok(answer) => {
                connection.learn(answer.now, sent, Clock::Suspend.now());
                answer.tell(&mut steps);
            }
            Err(failure) => tell_all(&mut steps, &Outcome::of_failure(failure)),
        }
    }
}

/// Returns the call for `steps`, which are in the order of their parts.
fn call<S: SessionState>(connection: &Connection<S>, batch: &Batch, steps: &[Waiting]) -> Cmd {
    let keys = steps.iter().map(|waiting| waiting.step.key().as_str());
    let mut command = connection.scripts.call(Script::Batch, keys, 3 + 3 * steps.len(), BYTES * steps.len());
    let count = |part| steps.iter().filter(|waiting| waiting.step.part() == part).count();
    command.arg(count(Part::Release)).arg(count(Part::Acquire));
    // The shortest: what is executed later than that is of no use to somebody. Who has more time asks by itself.
    let acquires = steps.iter().filter(|waiting| waiting.step.part() != Part::Release);
    let deadline = acquires.map(|waiting| waiting.deadline).min().unwrap_or_default();
    command.arg(connection.clock.at(batch.opened.plus(deadline)));
    steps.iter().for_each(|waiting| waiting.step.push_to(&mut command));
    command
}

fn tell_all(steps: &mut [Waiting], outcome: &Outcome) {
    steps.iter_mut().for_each(|step| step.tell(outcome.clone()));
}

/// The answer to a batch.
#[derive(Debug)]
struct Answer {
    /// The server's time, in us.
    now: i64,
    /// One for each step, from 0 to 2.
    digits: Vec<u8>,
}

impl Answer {
    /// Reads the answer to so many steps.
    fn read(answer: Value, steps: usize) -> Result<Self, Failure> {
        let Value::BulkString(mut text) = answer else { return Err(Failure::unexpected(&answer)) };
        let time = text.get(..TIME_LEN).and_then(|time| std::str::from_utf8(time).ok()?.parse().ok());
        let digits = text.get(TIME_LEN..).unwrap_or_default();
        match time {
            Some(now) if digits.len() == steps && digits.iter().all(|digit| b"012".contains(digit)) => {
                Ok(Self { now, digits: text.split_off(TIME_LEN) })
            }
            _ => Err(Failure::unexpected(&Value::BulkString(text))),
        }
    }

    /// Tells each task what the answer means to it.
    fn tell(self, steps: &mut [Waiting]) {
        let token = u64::try_from(self.now).ok().map(FencingToken::new);
        for (waiting, digit) in steps.iter_mut().zip(self.digits) {
            waiting.tell(match digit {
                b'1' => Outcome::Done(token.filter(|_| waiting.step.part() == Part::AcquireFenced)),
                b'0' => Outcome::Refused,
                _ => Outcome::Alone,
            });
        }
    }
}

#[cfg(test)]
mod tests;
