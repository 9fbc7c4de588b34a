//! Runs several futures until one of them succeeds.

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use tokio::time::sleep;

use super::Failure;
use crate::backend::BoxFuture;

/// Starts the attempts in their order, and returns the first success. The next attempt starts when an attempt has
/// failed, or after `head_start`, because a dead server may not answer at all. If all attempts fail, returns a
/// permanent failure if there is one, otherwise the last failure. Returns `None` if there are no attempts.
pub(crate) fn first<'a, T, R>(
    attempts: impl IntoIterator<Item = impl Future<Output = Result<T, Failure<R>>> + Send + 'a>,
    head_start: Duration,
) -> impl Future<Output = Option<Result<T, Failure<R>>>> {
    let boxed = |attempt| -> BoxFuture<'a, _> { Box::pin(attempt) };
    // The boxes are made here and not in the future, whose callers would otherwise lose `Send`.
    first_boxed(attempts.into_iter().map(boxed).collect(), head_start)
}

async fn first_boxed<T, R>(
    attempts: Vec<BoxFuture<'_, Result<T, Failure<R>>>>,
    head_start: Duration,
) -> Option<Result<T, Failure<R>>> {
    let mut waiting = attempts.into_iter().peekable();
    let (mut running, mut worst): (Vec<_>, Option<Failure<R>>) = (waiting.next().into_iter().collect(), None);
    while !running.is_empty() {
        let outcome = tokio::select! {
            // `biased` keeps the simulation deterministic.
            biased;
            outcome = any(&mut running) => outcome,
            () = sleep(head_start), if waiting.peek().is_some() => {
                running.extend(waiting.next());
                continue;
            }
        };
        match outcome {
            Ok(value) => return Some(Ok(value)),
            Err(failure) => {
                if !worst.as_ref().is_some_and(Failure::is_permanent) {
                    worst = Some(failure);
                }
                running.extend(waiting.next());
            }
        }
    }
    worst.map(Err)
}

/// Returns the outcome of the attempt that ends first, and removes that attempt.
async fn any<T>(running: &mut Vec<BoxFuture<'_, T>>) -> T {
    poll_fn(|cx| {
        for at in 0..running.len() {
            if let Poll::Ready(outcome) = running[at].as_mut().poll(cx) {
                drop(running.remove(at));
                return Poll::Ready(outcome);
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::error::LockErrorKind;

    const HEAD_START: Duration = Duration::from_millis(2);

    fn failure(text: &'static str) -> Failure<()> {
        Failure::new(LockErrorKind::Unavailable, text)
    }

    async fn after(ms: u64, outcome: Result<u64, Failure<()>>) -> Result<u64, Failure<()>> {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        outcome
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_success_counts_or_else_the_failure_that_lasts() {
        let attempts = vec![after(1, Err(failure("a"))), after(9, Ok(9)), after(5, Ok(5))];
        assert_eq!(first(attempts, HEAD_START).await.expect("an outcome").expect("a success"), 5);
        for order in [[1, 2, 3], [3, 1, 2], [2, 3, 1]] {
            let [a, b, c] = order;
            let lost = vec![
                after(a, Err(failure("a"))),
                after(b, Err(failure("lasts").permanent())),
                after(c, Err(failure("c"))),
            ];
            let lost = first(lost, HEAD_START).await.expect("an outcome");
            assert_eq!(lost.expect_err("none succeeds").text(), "lasts");
        }
        assert!(first((0..0).map(|ms| after(ms, Ok(ms))), HEAD_START).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_failed_gives_up_its_head_start() {
        let start = Clock::Tokio.now();
        let attempts = vec![after(0, Err(failure("a"))), after(1_000, Ok(1)), after(1, Ok(2))];
        let won = first(attempts, Duration::from_millis(200)).await.expect("an outcome").expect("a success");
        assert_eq!((won, Clock::Tokio.now().since(start)), (2, Duration::from_millis(201)));
    }
}
