//! Requests of many tasks that leave as one call.
//!
//! A command costs the client and the server much the same whatever it does. So where very many requests are under way
//! at once, the short ones of all tasks leave as one call of a script. A batch that is full leaves at once, so that the
//! server works while the other tasks still ask; another one leaves when the tasks that are ready have run. There is no
//! timer.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::connection::Connection;
use super::gather::behind_all_that_are_ready;
use super::session_state::SessionState;
use crate::backend::FencingToken;
use crate::backend::redis::error::Failure;
use crate::backend::redis::scripts::Script;
use crate::clock::{Clock, Moment};
use crate::error::LockErrorKind;
use crate::key::Key;
use crate::owner::Owner;
use crate::sync::Mutex;

/// The number of steps below which a script is not worth its cost: each of them is sent by itself.
const WORTH_A_SCRIPT: usize = 4;

/// The room for the arguments of one step, in bytes.
const BYTES: usize = 160;

/// One request of a batch.
pub(crate) enum Step {
    Release {
        key: Key,
        /// The beginning of the stored value, up to the mark.
        head: [u8; Owner::TOKEN_LEN + 1],
    },
    Acquire {
        key: Key,
        value: String,
        /// In ms.
        lease: u64,
        /// How long to remember the fencing token, in ms; `None` where none is asked for.
        fence: Option<u64>,
    },
}

/// The place of a step in the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Release,
    Acquire,
    AcquireFenced,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the owner token, which is a secret.
        f.debug_tuple("Step").field(self.key()).finish()
    }
}

impl Step {
    fn key(&self) -> &Key {
        match self {
            Self::Release { key, .. } | Self::Acquire { key, .. } => key,
        }
    }

    fn part(&self) -> Part {
        match self {
            Self::Release { .. } => Part::Release,
            Self::Acquire { fence: None, .. } => Part::Acquire,
            Self::Acquire { fence: Some(_), .. } => Part::AcquireFenced,
        }
    }

    fn push_to(&self, command: &mut Cmd) {
        match self {
            Self::Release { head, .. } => command.arg(&head[..]),
            Self::Acquire { value, lease, fence, .. } => {
                command.arg(value).arg(*lease);
                fence.iter().fold(command, |command, remember| command.arg(*remember))
            }
        };
    }
}

/// What came of a step.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// Released, or acquired, with the fencing token that was asked for.
    Done(Option<FencingToken>),
    /// The stored value begins in another way, or somebody holds the lock.
    Refused,
    /// Nothing was executed: the request has to be sent by itself.
    Alone,
    Failed(Failure),
    /// There was no answer by the deadline of the step.
    Late,
}

impl Outcome {
    fn of_digit(digit: u8, fence: Option<FencingToken>) -> Self {
        match digit {
            b'1' => Self::Done(fence),
            b'0' => Self::Refused,
            _ => Self::Alone,
        }
    }

    /// Returns what the failure of the call means to each step.
    fn of_failure(failure: Failure) -> Self {
        // A refusal of the whole may be due to the key of one step. The others must not fail with it.
        if failure.is_in_doubt() { Self::Failed(failure) } else { Self::Alone }
    }
}

/// A step, and the task that waits for its outcome.
#[derive(Debug)]
struct Waiting {
    step: Step,
    deadline: Duration,
    /// `None` once the task was told.
    told: Option<oneshot::Sender<Outcome>>,
}

impl Waiting {
    fn tell(&mut self, outcome: Outcome) {
        // A task that was dropped need not be told.
        let _ = self.told.take().map(|told| told.send(outcome));
    }

    fn is_awaited(&self) -> bool {
        self.told.as_ref().is_some_and(|told| !told.is_closed())
    }
}

/// The steps that have not left.
#[derive(Debug, Default)]
pub(super) struct Batches(Mutex<Gathered>);

#[derive(Debug, Default)]
struct Gathered {
    steps: Vec<Waiting>,
    /// Whether a task waits for the other tasks, and sends the steps then.
    is_awaited: bool,
}

/// What is to be done after a step was added.
#[derive(Debug)]
enum Next {
    Nothing,
    /// Send the steps once the tasks that are ready have run.
    Await,
    Send(Vec<Waiting>),
}

impl Batches {
    /// Adds a step to a batch that leaves with `full` steps.
    fn add(&self, step: Waiting, full: usize) -> Next {
        let mut gathered = self.0.lock();
        gathered.steps.push(step);
        if gathered.steps.len() >= full {
            return Next::Send(std::mem::replace(&mut gathered.steps, Vec::with_capacity(full)));
        }
        match std::mem::replace(&mut gathered.is_awaited, true) {
            true => Next::Nothing,
            false => Next::Await,
        }
    }

    fn take(&self) -> Vec<Waiting> {
        let mut gathered = self.0.lock();
        gathered.is_awaited = false;
        std::mem::take(&mut gathered.steps)
    }
}

impl<S: SessionState> Connection<S> {
    /// Sends `step` in a batch that leaves with `full` steps, and returns what came of it. The deadline counts from the
    /// moment that the batch leaves.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes the step out of the batch before it has left. Later the server may execute it.
    pub(crate) async fn send_in_batch(
        self: &Arc<Self>,
        step: Step,
        full: usize,
        deadline: Duration,
    ) -> Outcome {
        let (tell, told) = oneshot::channel();
        let connection = Arc::clone(self);
        // In tasks of their own, because this one may be dropped. A full batch leaves right after this task.
        match self.batches.add(Waiting { step, deadline, told: Some(tell) }, full) {
            Next::Nothing => drop(connection),
            Next::Send(steps) => drop(tokio::spawn(async move { connection.send_batch(steps).await })),
            Next::Await => drop(tokio::spawn(async move {
                behind_all_that_are_ready().await;
                connection.send_batch(connection.batches.take()).await;
            })),
        }
        told.await.unwrap_or_else(|_| {
            let failure = Failure::new(LockErrorKind::Unavailable, "the runtime is shutting down");
            Outcome::Failed(failure.in_doubt())
        })
    }

    /// Sends the steps, and tells each task what came of its own.
    async fn send_batch(&self, mut steps: Vec<Waiting>) {
        steps.retain(Waiting::is_awaited);
        if steps.len() < WORTH_A_SCRIPT {
            steps.iter_mut().for_each(|step| step.tell(Outcome::Alone));
            return;
        }
        steps.sort_by_key(|waiting| waiting.step.part());
        let sent = Clock::Suspend.now();
        let command = self.batch(&steps, sent);
        let (mut answer, mut waited) = (pin!(self.run(Script::Batch, &command)), Duration::ZERO);
        while let Some(deadline) = next_deadline(&steps) {
            match timeout(deadline - waited, answer.as_mut()).await {
                Ok(answer) => {
                    let answer = answer.and_then(|answer| Answer::read(answer, steps.len()));
                    if let Ok(answer) = &answer {
                        self.learn(answer.now, sent, Clock::Suspend.now());
                    }
                    return tell(&mut steps, answer);
                }
                Err(_) => {
                    let late = steps.iter_mut().filter(|step| step.deadline <= deadline);
                    late.for_each(|step| step.tell(Outcome::Late));
                    waited = deadline;
                }
            }
        }
    }

    /// Returns the call for `steps`, which are in the order of their parts.
    fn batch(&self, steps: &[Waiting], sent: Moment) -> Cmd {
        let keys = steps.iter().map(|waiting| waiting.step.key().as_str());
        let mut command = self.scripts.call(Script::Batch, keys, 3 + 3 * steps.len(), BYTES * steps.len());
        let count = |part| steps.iter().filter(|waiting| waiting.step.part() == part).count();
        command.arg(count(Part::Release)).arg(count(Part::Acquire));
        // The shortest: what is executed later than that is of no use to somebody. Who has more time asks by itself.
        let acquires = steps.iter().filter(|waiting| waiting.step.part() != Part::Release);
        let deadline = acquires.map(|waiting| waiting.deadline).min().unwrap_or_default();
        command.arg(self.clock.at(sent.plus(deadline)));
        steps.iter().for_each(|waiting| waiting.step.push_to(&mut command));
        command
    }
}

fn next_deadline(steps: &[Waiting]) -> Option<Duration> {
    steps.iter().filter(|step| step.told.is_some()).map(|step| step.deadline).min()
}

/// The answer to a batch.
struct Answer {
    /// The server's time, in us.
    now: i64,
    digits: Vec<u8>,
}

/// The digits of the server's time, until the year 2286.
const TIME_LEN: usize = 16;

impl Answer {
    /// Reads the answer to so many steps.
    fn read(answer: Value, steps: usize) -> Result<Self, Failure> {
        let Value::BulkString(mut text) = answer else { return Err(Failure::unexpected(&answer)) };
        let time = text.get(..TIME_LEN).and_then(|time| std::str::from_utf8(time).ok()?.parse().ok());
        match time {
            Some(now) if text.len() == TIME_LEN + steps => Ok(Self { now, digits: text.split_off(TIME_LEN) }),
            _ => Err(Failure::unexpected(&Value::BulkString(text))),
        }
    }
}

/// Tells each task what the answer means to it.
fn tell(steps: &mut [Waiting], answer: Result<Answer, Failure>) {
    let Answer { now, digits } = match answer {
        Ok(answer) => answer,
        Err(failure) => {
            let outcome = Outcome::of_failure(failure);
            return steps.iter_mut().for_each(|step| step.tell(outcome.clone()));
        }
    };
    let token = u64::try_from(now).ok().map(FencingToken::new);
    for (waiting, digit) in steps.iter_mut().zip(digits) {
        let token = token.filter(|_| waiting.step.part() == Part::AcquireFenced);
        waiting.tell(Outcome::of_digit(digit, token));
    }
}

#[cfg(test)]
mod tests;
