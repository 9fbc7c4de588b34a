//! A round: one request to every node, and the answers to it.

use std::future::poll_fn;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};

use tokio::time::sleep;

use super::fanout::Fanout;
use super::timing::{Waiting, Waits};
use crate::sync::{Mutex, MutexGuard, Notify};

/// What happens to a grant that arrives after the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disposition {
    /// The grant is kept.
    Keep,
    /// The grant is released.
    GiveBack,
}

/// The answers of all nodes to one request. The verdict closes the round. After that, [`put`](Self::put) returns each
/// answer, with its disposition, to the call that added it.
#[derive(Debug)]
pub(super) struct Round<T> {
    inner: Mutex<Inner<T>>,
    news: Notify,
}

#[derive(Debug)]
struct Inner<T> {
    answers: Vec<Option<T>>,
    fate: Option<Disposition>,
}

impl<T> Round<T> {
    fn new(nodes: usize) -> Self {
        let answers = std::iter::repeat_with(|| None).take(nodes).collect();
        Self { inner: Mutex::new(Inner { answers, fate: None }), news: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock()
    }

    /// Adds the answer of `node`. After the verdict, returns the answer with its disposition instead.
    pub(super) fn put(&self, node: usize, answer: T) -> Result<(), (Disposition, T)> {
        let mut inner = self.lock();
        if let Some(fate) = inner.fate {
            return Err((fate, answer));
        }
        inner.answers[node] = Some(answer);
        drop(inner);
        self.news.notify_one();
        Ok(())
    }

    /// Returns the disposition of later answers, or `None` before the verdict.
    pub(super) fn fate(&self) -> Option<Disposition> {
        self.lock().fate
    }

    /// Closes the round, and returns the answers so far in the order of the nodes.
    pub(super) fn close(&self, fate: Disposition) -> Vec<Option<T>> {
        // One lock protects the disposition and the answers. So each answer is either in the returned list, or `put`
        // returns it to its call. No answer is lost, and no grant is released twice.
        let mut inner = self.lock();
        inner.fate = Some(fate);
        // From here on `put` returns every answer, so nothing is stored in the empty list.
        std::mem::take(&mut inner.answers)
    }

    /// Drives `fanout` until `decide` has a verdict on the answers. `decide` also receives the nodes that the caller
    /// still waits for: first each node, then a majority, finally none. If the verdict comes only in the second or
    /// third step, the remaining calls are notified that their caller has timed out.
    pub(super) async fn decided<V, F: Future<Output = ()> + Send + 'static>(
        &self,
        waits: Waits,
        mut fanout: Fanout<F>,
        decide: impl Fn(&[Option<T>], Waiting) -> Option<V>,
    ) -> Option<V> {
        let (mut news, mut timer) = (pin!(self.news.notified()), pin!(sleep(waits.node)));
        let mut waiting = Waiting::Each;
        // When this future is dropped, with or without a verdict, the fan-out is dropped too, and spawns the remaining
        // calls as tasks.
        poll_fn(|cx| {
            // The calls are polled before the timer: an answer that is ready in the same poll must still count.
            fanout.drive(cx);
            loop {
                let inner = self.lock();
                let verdict = decide(&inner.answers, waiting);
                if verdict.is_some() || waiting == Waiting::Nobody {
                    // If the answers alone give no verdict, the silent nodes have delayed the caller until it timed
                    // out.
                    if waiting != Waiting::Each && decide(&inner.answers, Waiting::Each).is_none() {
                        fanout.alone().in_vain();
                    }
                    return Poll::Ready(verdict);
                }
                drop(inner);
                // An answer may have arrived after the check. `notify_one` stores a permit, so the answer is not
                // missed.
                if news.as_mut().poll(cx).is_ready() {
                    news.set(self.news.notified());
                    continue;
                }
                ready!(timer.as_mut().poll(cx));
                waiting = match waiting {
                    Waiting::Each if waits.majority > waits.node => {
                        timer.set(sleep(waits.majority - waits.node));
                        Waiting::Majority
                    }
                    _ => Waiting::Nobody,
                };
            }
        })
        .await
    }

    pub(super) fn look<V>(&self, look: impl FnOnce(&[Option<T>]) -> V) -> V {
        look(&self.lock().answers)
    }
}

/// The caller's handle to a round. The caller waits for the verdict.
#[derive(Debug)]
pub(super) struct RoundHandle<T> {
    round: Arc<Round<T>>,
    dropped: Disposition,
}

impl<T> RoundHandle<T> {
    /// Creates a round. If the handle is dropped before the verdict, the grants of the round are released.
    pub(super) fn new(nodes: usize) -> Self {
        Self::with_disposition(nodes, Disposition::GiveBack)
    }

    /// Creates a round. If the handle is dropped before the verdict, the grants of the round get the disposition
    /// `dropped`.
    pub(super) fn with_disposition(nodes: usize, dropped: Disposition) -> Self {
        Self { round: Arc::new(Round::new(nodes)), dropped }
    }

    /// Returns what happens to the grants of an attempt that has failed or has no verdict.
    pub(super) fn unwanted(&self) -> Disposition {
        self.dropped
    }

    /// Returns the shared round, to which the calls to the nodes add their answers.
    pub(super) fn share(&self) -> Arc<Round<T>> {
        Arc::clone(&self.round)
    }
}

impl<T> Deref for RoundHandle<T> {
    type Target = Round<T>;

    fn deref(&self) -> &Round<T> {
        &self.round
    }
}

impl<T> Drop for RoundHandle<T> {
    fn drop(&mut self) {
        // The caller was dropped before the verdict, so the running calls need a disposition for their grants.
        if self.fate().is_none() {
            self.close(self.dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Waits = Waits::equal(Duration::from_secs(1));

    fn nobody() -> Fanout<std::future::Pending<()>> {
        Fanout::with_capacity(0)
    }

    #[tokio::test(start_paused = true)]
    async fn a_verdict_waits_for_enough_answers_and_no_longer() {
        let open = RoundHandle::new(3);
        let two = |answers: &[Option<u32>], waiting: Waiting| {
            let sum: u32 = answers.iter().flatten().sum();
            (waiting == Waiting::Nobody || answers.iter().flatten().count() == 2).then_some(sum)
        };
        assert_eq!(open.put(1, 10), Ok(()));
        let round = open.share();
        let late = tokio::spawn(async move { round.put(0, 5) });
        assert_eq!(open.decided(SECOND, nobody(), two).await, Some(15));
        assert_eq!(late.await.expect("no panic"), Ok(()));
        assert_eq!(open.close(Disposition::Keep), [Some(5), Some(10), None]);
        assert_eq!(open.put(2, 1), Err((Disposition::Keep, 1)));

        let silent = RoundHandle::new(3);
        assert_eq!(silent.put(0, 7), Ok(()));
        assert_eq!(silent.decided(SECOND, nobody(), two).await, Some(7), "nobody else in time");
    }

    #[test]
    fn what_comes_after_a_dropped_call_goes_back() {
        let open = RoundHandle::<u32>::new(1);
        let round = open.share();
        drop(open);
        assert_eq!(round.put(0, 1), Err((Disposition::GiveBack, 1)));
    }
}
