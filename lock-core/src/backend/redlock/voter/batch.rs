//! Requests of several callers that leave as one.
//!
//! Most of what a voter costs is the same for one claim as for several: a script call, a look at the marker and one at
//! the time, a packet in each direction. So the requests that the tasks of a runtime make in one round of its scheduler
//! share them. Nobody waits for a timer, and a caller that is alone waits for nobody.
//!
//! The first caller gives way once, and sends its request itself if nobody joined. The second starts the task that
//! sends the batch: a caller that is not polled any more, or is dropped, holds up nobody but itself.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::outcome::Outcome;
use crate::backend::redis::error::Failure;
use crate::clock::{Clock, Moment};
use crate::error::LockErrorKind;
use crate::sync::Mutex;

/// The most requests that leave as one. With more, little is saved, and client and server would take turns instead of
/// working at once.
const MOST: usize = 16;

/// The part of its time that a request may spend in an open batch before others no longer join it.
const STALE: u32 = 8;

/// A kind of request that can leave over `L` together with others of its kind.
pub(super) trait Request<L>: Send + Sync + Sized + 'static {
    /// The server's answer to one request.
    type Answer: Send + 'static;

    /// Whether a request is sent although its caller is gone.
    const OUTLIVES_CALLER: bool;

    /// Sends the requests as one, and returns an answer to each; `None` for one that must be sent alone. No request
    /// takes effect after `end`.
    ///
    /// # Errors
    /// No request was answered. Unless the failure is in doubt, each of them may be sent again.
    fn send(
        requests: &[Self],
        link: &L,
        end: Moment,
    ) -> impl Future<Output = Result<Vec<Option<Self::Answer>>, Failure>> + Send;
}

struct Entry<R, A> {
    request: R,
    caller: oneshot::Sender<Outcome<A>>,
}

struct Batch<R, A> {
    /// How long the callers wait.
    span: Duration,
    /// The end of the first request. The others came later, so theirs would be later.
    end: Moment,
    entries: Vec<Entry<R, A>>,
}

/// The requests of one connection that have not left.
pub(super) struct Batches<R, A>(Arc<Mutex<Open<R, A>>>);

struct Open<R, A> {
    /// The number of the open batch, or of the next one.
    number: u64,
    batch: Option<Batch<R, A>>,
}

/// The part of a caller that has joined.
enum Joined<R, A> {
    /// The first of the batch with this number: it sends its request itself, if it stays alone.
    First(u64),
    /// The second of the batch with this number: it starts the task that sends all.
    Second(u64),
    Follower,
    /// The last that the batch takes: it must be sent at once.
    Last(Batch<R, A>),
}

/// The duty to send the batch with this number. If it is dropped, nobody waits for an answer any more.
struct Duty<R, A> {
    batches: Arc<Mutex<Open<R, A>>>,
    number: u64,
}

/// The first caller of a batch, until it knows whether it is alone.
struct First<'a, R: Request<L>, L: Send + Sync + 'static> {
    batches: &'a Batches<R, R::Answer>,
    link: &'a Arc<L>,
    runtime: &'a Handle,
    number: u64,
}

impl<R, A> Open<R, A> {
    fn take(&mut self) -> Option<Batch<R, A>> {
        self.number += 1;
        self.batch.take()
    }
}

impl<R, A> Default for Batches<R, A> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Open { number: 0, batch: None })))
    }
}

impl<R, A> std::fmt::Debug for Batches<R, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").finish_non_exhaustive()
    }
}

impl<R, A> Batches<R, A> {
    /// Sends a request over `link` together with those that other callers make now, and returns what became of it
    /// within `span`. `runtime` drives the connection.
    ///
    /// # Cancel safety
    /// The requests of the other callers are sent. The own one may be sent, or may not, unless it outlives its caller.
    pub(super) async fn send<L>(
        &self,
        link: &Arc<L>,
        runtime: &Handle,
        request: R,
        span: Duration,
    ) -> Outcome<A>
    where
        L: Send + Sync + 'static,
        R: Request<L, Answer = A>,
        A: Send + 'static,
    {
        let (caller, outcome) = oneshot::channel();
        let (joined, other) = self.join(Entry { request, caller }, span);
        if let Some(batch) = other {
            send_off(link, runtime, batch);
        }
        match joined {
            Joined::First(number) => {
                let first = First { batches: self, link, runtime, number };
                give_way().await;
                if let Some(batch) = first.take() {
                    // In this future, because a task costs more than it saves.
                    batch.send(&**link).await;
                }
            }
            Joined::Second(number) => {
                let duty = Duty { batches: Arc::clone(&self.0), number };
                let own = Arc::clone(link);
                runtime.spawn(async move {
                    give_way().await;
                    if let Some(batch) = duty.take() {
                        batch.send(&*own).await;
                    }
                });
            }
            Joined::Last(batch) => send_off(link, runtime, batch),
            Joined::Follower => {}
        }
        let ended = || Failure::new(LockErrorKind::Unavailable, "the runtime is shutting down").in_doubt();
        outcome.await.unwrap_or_else(|_| Outcome::Failed(ended()))
    }

    /// Adds an entry to the open batch, or opens one. Also returns an open batch that the entry cannot join.
    fn join(&self, entry: Entry<R, A>, span: Duration) -> (Joined<R, A>, Option<Batch<R, A>>) {
        let mut open = self.0.lock();
        let other = match &open.batch {
            // With another deadline, the end of the batch would be too early for one of them.
            Some(batch) if batch.span != span => open.take(),
            // Its first caller has not been polled for a while. Once another one has joined, the batch leaves soon.
            Some(batch) if batch.entries.len() == 1 && batch.is_stale(Clock::Suspend.now()) => open.take(),
            _ => None,
        };
        let number = open.number;
        let Some(batch) = &mut open.batch else {
            let end = Clock::Suspend.now().plus(span);
            open.batch = Some(Batch { span, end, entries: vec![entry] });
            return (Joined::First(number), other);
        };
        batch.entries.push(entry);
        let joined = match batch.entries.len() {
            2 => Joined::Second(number),
            MOST.. => open.take().map_or(Joined::Follower, Joined::Last),
            _ => Joined::Follower,
        };
        (joined, other)
    }
}

impl<R, A> Duty<R, A> {
    /// Returns the batch, unless it has left.
    fn take(&self) -> Option<Batch<R, A>> {
        let mut open = self.batches.lock();
        if open.number == self.number { open.take() } else { None }
    }
}

impl<R, A> Drop for Duty<R, A> {
    fn drop(&mut self) {
        // The runtime has ended. Without their entries, the callers learn that nobody sends their requests.
        drop(self.take());
    }
}

impl<R: Request<L>, L: Send + Sync + 'static> First<'_, R, L> {
    /// Returns the batch, unless it has left or another caller has joined: then the task of the second sends it.
    fn take(&self) -> Option<Batch<R, R::Answer>> {
        let mut open = self.batches.0.lock();
        let is_alone = open.batch.as_ref().is_some_and(|batch| batch.entries.len() == 1);
        if open.number == self.number && is_alone { open.take() } else { None }
    }
}

impl<R: Request<L>, L: Send + Sync + 'static> Drop for First<'_, R, L> {
    fn drop(&mut self) {
        if let Some(batch) = self.take().filter(|_| R::OUTLIVES_CALLER) {
            send_off(self.link, self.runtime, batch);
        }
    }
}

/// Sends a batch in a task.
fn send_off<R: Request<L>, L: Send + Sync + 'static>(
    link: &Arc<L>,
    runtime: &Handle,
    batch: Batch<R, R::Answer>,
) {
    let own = Arc::clone(link);
    // On the runtime of the connection, because a caller may be dropped outside of every runtime.
    runtime.spawn(async move { batch.send(&*own).await });
}

impl<R, A> Batch<R, A> {
    fn is_stale(&self, now: Moment) -> bool {
        self.end.remaining(now) < self.span - self.span / STALE
    }

    async fn send<L>(self, link: &L)
    where
        R: Request<L, Answer = A>,
    {
        // Nobody waits for a claim whose caller is gone, and it may have been released by now.
        let wanted = self.entries.into_iter().filter(|entry| R::OUTLIVES_CALLER || !entry.caller.is_closed());
        let (requests, callers): (Vec<R>, Vec<_>) = wanted.map(|entry| (entry.request, entry.caller)).unzip();
        if requests.is_empty() {
            return;
        }
        let answers = timeout(self.span, R::send(&requests, link, self.end)).await;
        let mut answers = match answers {
            Ok(answers) => answers.map(Vec::into_iter).map_err(Some),
            Err(_) => Err(None),
        };
        for caller in callers {
            let outcome = match &mut answers {
                Ok(answers) => answers.next().flatten().map_or(Outcome::Alone(self.end), Outcome::Answered),
                Err(None) => Outcome::Elapsed,
                Err(Some(failure)) if failure.is_in_doubt() => Outcome::Failed(failure.clone()),
                // What one of them asks for may have made the server refuse all.
                Err(Some(_)) => Outcome::Alone(self.end),
            };
            // A caller that is gone releases what it was granted.
            let _ = caller.send(outcome);
        }
    }
}

/// Lets the other tasks of the runtime that are ready run once.
async fn give_way() {
    let mut gave_way = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut gave_way, true) {
            return Poll::Ready(());
        }
        // The runtime queues a task that wakes itself behind all tasks that are ready.
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests;
